//! B.3: a device that is opened and closed again leaves nothing behind.

use super::Group;
use crate::kit::{Holdings, Work};
use crate::{Case, Check, Subject};

/// Cycles, and cycles before the first look: what a process allocates once is no leak.
const CYCLES: usize = 200;
const WARM: usize = 20;

pub(super) const GROUP: Group = Group {
    id: "B.3",
    name: "dev.open_close",
    about: "opening and closing a device again and again returns memory, descriptors and threads",
    cases: |_| {
        vec![
            Case::new("B.3", "dev.open_close.leaves_nothing", leaves_nothing),
            Case::new("B.3", "dev.open_close.after_work", after_work),
        ]
    },
};

fn leaves_nothing(subject: &Subject) -> Check {
    repeat(subject, CYCLES, || subject.open().map(drop))
}

/// The same, with a run in between: what a device makes when it is first used goes as well.
fn after_work(subject: &Subject) -> Check {
    repeat(subject, CYCLES / 4, || {
        let device = subject.open()?;
        Work::small(&*device, subject.seed)?.run(&*device)
    })
}

fn repeat(subject: &Subject, cycles: usize, cycle: impl Fn() -> Check) -> Check {
    (0..WARM).try_for_each(|_| cycle())?;
    let before = Holdings::now()?;
    let cycles = if subject.stress { 5 * cycles } else { cycles };
    (0..cycles).try_for_each(|_| cycle())?;
    before.returned(&format!("{cycles} cycles"))
}
