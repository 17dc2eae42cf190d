//! E.4: what a program would cost.

use super::Group;
use crate::kit::{Net, basis};
use crate::{Case, Check, Subject, ensure};
use ottava_hal::{Cost, Device};

pub(super) const GROUP: Group = Group {
    id: "E.4",
    name: "cap.cost",
    about: "costs are positive, the same in every call, and grow with the work",
    cases: |_| {
        vec![
            Case::new("E.4", "cap.cost.positive", positive),
            Case::new("E.4", "cap.cost.stable", stable),
            Case::new("E.4", "cap.cost.grows", grows),
        ]
    },
};

/// The cost of `n` additions of `len` elements.
fn cost(device: &dyn Device, len: usize, n: usize) -> Result<Cost, crate::Stop> {
    Ok(device.estimate(&Net::chain(&basis(device, len)?, n))?)
}

fn positive(subject: &Subject) -> Check {
    let device = subject.open()?;
    for (len, n) in [(1, 1), (24, 1), (4096, 8)] {
        let cost = cost(&*device, len, n)?;
        ensure!(cost.time_ns > 0, "{n} additions of {len} elements take no time");
        ensure!(cost.time_ns < 3_600_000_000_000, "{n} additions of {len} elements take {} ns", cost.time_ns);
    }
    Ok(())
}

fn stable(subject: &Subject) -> Check {
    let device = subject.open()?;
    let first = cost(&*device, 512, 3)?;
    for _ in 0..5 {
        let again = cost(&*device, 512, 3)?;
        ensure!(again == first, "the cost changes from {first:?} to {again:?}");
    }
    Ok(())
}

fn grows(subject: &Subject) -> Check {
    let device = subject.open()?;
    let times = |sizes: [(usize, usize); 4]| -> Result<Vec<u64>, crate::Stop> {
        sizes.into_iter().map(|(len, n)| Ok(cost(&*device, len, n)?.time_ns)).collect()
    };
    for (what, sizes) in [
        ("elements", [(16, 4), (256, 4), (4096, 4), (65_536, 4)]),
        ("additions", [(256, 1), (256, 4), (256, 16), (256, 64)]),
    ] {
        let times = times(sizes)?;
        ensure!(times.is_sorted(), "more {what} cost less: {times:?} ns for {sizes:?}");
        let (first, last) = (times[0], times[3]);
        ensure!(last > first, "64 times as many {what} cost the same: {first} ns");
    }
    Ok(())
}
