//! H.2: memory that is not there, at the first, second, .. use of it, by the driver's test hook.

use super::Group;
use super::lost::inject;
use crate::kit::{Holdings, LIMIT, Work};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::fault::FaultKind;
use ottava_hal::{BufferDesc, Device, Error, Status};

pub(super) const GROUP: Group = Group {
    id: "H.2",
    name: "robust.oom",
    about: "a lack of memory is an error of the one call, which leaves nothing behind",
    cases: |_| {
        vec![
            Case::new("H.2", "robust.oom.nth", nth),
            Case::new("H.2", "robust.oom.allocation", allocation),
            Case::new("H.2", "robust.oom.no_leak", no_leak),
        ]
    },
};

fn is_memory(e: &Error) -> bool {
    matches!(e.status(), Status::OutOfDeviceMemory | Status::OutOfHostMemory)
}

/// Runs until the fault has struck once; how many runs were right before.
fn strike(device: &dyn Device, work: &Work, most: u64) -> Result<u64, Stop> {
    for right in 0..=most {
        let queue = device.create_queue()?;
        let Ok(mut bound) = work.bind(device) else { return Ok(right) };
        let fence = bound.signal(device)?;
        queue.submit(&bound.submission)?;
        match fence.wait(1, LIMIT) {
            Ok(()) => bound.check(work)?,
            Err(e) => {
                ensure!(is_memory(&e), "a run without memory gives {:?}: {e}", e.status());
                return Ok(right);
            }
        }
    }
    Err(Stop::failed(format!("a lack of memory did not strike within {most} runs")))
}

fn nth(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    for n in 0..5 {
        inject(&*device, FaultKind::OutOfMemory, n)?;
        strike(&*device, &work, n + 1)?;
        let after = work.run(&*device);
        after.map_err(|e| Stop::failed(format!("after a lack of memory at call {n}: {e:?}")))?;
    }
    Ok(())
}

fn allocation(subject: &Subject) -> Check {
    let device = subject.open()?;
    inject(&*device, FaultKind::OutOfMemory, 0)?;
    let desc = BufferDesc { bytes: 64, alignment: 64 };
    if let Err(e) = device.alloc(&desc) {
        ensure!(is_memory(&e), "an allocation without memory gives {:?}: {e}", e.status());
    }
    let again = device.alloc(&desc);
    ensure!(again.is_ok(), "memory does not come back after one lack of it: {:?}", again.err());
    device.clear_faults()?;
    Work::small(&*device, subject.seed)?.run(&*device)
}

fn no_leak(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let cycle = || -> Check {
        inject(&*device, FaultKind::OutOfMemory, 0)?;
        strike(&*device, &work, 2).map(drop)
    };
    (0..20).try_for_each(|_| cycle())?;
    let before = Holdings::now()?;
    (0..200).try_for_each(|_| cycle())?;
    before.returned("200 lacks of memory")
}
