//! H.3: a panic inside of the driver, by its test hook.

use super::Group;
use super::lost::inject;
use crate::kit::{LIMIT, Work};
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::fault::FaultKind;
use ottava_hal::{Device, Status};
use std::sync::Arc;

pub(super) const GROUP: Group = Group {
    id: "H.3",
    name: "robust.panic",
    about: "a panic is the error PANIC; the process lives, and another opening is not touched",
    cases: |_| {
        vec![
            Case::new("H.3", "robust.panic.code", code),
            Case::new("H.3", "robust.panic.afterwards", afterwards),
            Case::new("H.3", "robust.panic.others", others),
        ]
    },
};

/// A device, its work, and how the signal of a submission ended.
type Panicked = (Arc<dyn Device>, Work, ottava_hal::Result<()>);

/// A device on which a submission has just panicked.
fn panicked(subject: &Subject) -> Result<Panicked, Stop> {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let mut bound = work.bind(&*device)?;
    let fence = bound.signal(&*device)?;
    inject(&*device, FaultKind::Panic, 0)?;
    // A device that works in the caller's thread may tell at once.
    let end = device.create_queue()?.submit(&bound.submission).and_then(|_| fence.wait(1, LIMIT));
    Ok((device, work, end))
}

fn code(subject: &Subject) -> Check {
    let (_device, _, end) = panicked(subject)?;
    refused("the signal of a submission that panicked", end, Status::Panic)
}

/// The device works on, or says PANIC to everything.
fn afterwards(subject: &Subject) -> Check {
    let (device, work, _) = panicked(subject)?;
    match device.create_queue() {
        Ok(_) => work.run(&*device)?,
        Err(e) => ensure!(e.status() == Status::Panic, "a device that panicked gives {:?}: {e}", e.status()),
    }
    drop((work, device));
    let device = subject.open()?;
    Work::small(&*device, subject.seed)?.run(&*device)
}

fn others(subject: &Subject) -> Check {
    let other = subject.open()?;
    let work = Work::small(&*other, subject.seed)?;
    let (device, _, _) = panicked(subject)?;
    work.run(&*other).map_err(|e| Stop::failed(format!("beside a device that panicked: {e:?}")))?;
    drop(device);
    work.run(&*other)
}
