//! H.1: a device that is lost, by the driver's test hook.

use super::Group;
use crate::kit::{LIMIT, Work};
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::fault::{Fault, FaultKind};
use ottava_hal::{BufferDesc, CompileOptions, Device, Fence, Status};
use std::sync::Arc;

pub(super) const GROUP: Group = Group {
    id: "H.1",
    name: "robust.lost",
    about: "loss fails every fence, everything can still be released, and the device comes back",
    cases: |_| {
        vec![
            Case::new("H.1", "robust.lost.fences", fences),
            Case::new("H.1", "robust.lost.calls", calls),
            Case::new("H.1", "robust.lost.release", release),
            Case::new("H.1", "robust.lost.reset", reset),
            Case::new("H.1", "robust.lost.reopen", reopen),
        ]
    },
};

/// Arms a fault; a driver without hooks ends the case.
pub(super) fn inject(device: &dyn Device, kind: FaultKind, after_calls: u64) -> Check {
    device.inject(Fault { kind, after_calls, seed: 1 }).map_err(|e| match e.status() {
        Status::Unsupported => Stop::Unsupported(format!("the driver has no test hooks: {e}")),
        _ => e.into(),
    })
}

/// A device that a submission has just lost, with what was made before.
struct Lost {
    device: Arc<dyn Device>,
    work: Work,
    bound: crate::kit::Bound,
    /// Signalled by the submission, and not by it.
    fences: [Arc<dyn Fence>; 2],
}

impl Lost {
    fn new(subject: &Subject) -> Result<Self, Stop> {
        let device = subject.open()?;
        inject(&*device, FaultKind::Lost, 0)?;
        let work = Work::small(&*device, subject.seed)?;
        let mut bound = work.bind(&*device)?;
        let fences = [bound.signal(&*device)?, device.create_fence(0)?];
        device.create_queue()?.submit(&bound.submission)?;
        let end = fences[0].wait(1, LIMIT);
        refused("the signal of a submission that lost its device", end, Status::DeviceLost)?;
        Ok(Self { device, work, bound, fences })
    }
}

fn fences(subject: &Subject) -> Check {
    let lost = Lost::new(subject)?;
    for (fence, what) in lost.fences.iter().zip(["the signalled fence", "another fence of the device"]) {
        refused(&format!("{what} after the loss"), fence.wait(5, LIMIT), Status::DeviceLost)?;
        refused(&format!("the value of {what} after the loss"), fence.query(), Status::DeviceLost)?;
    }
    Ok(())
}

fn calls(subject: &Subject) -> Check {
    let Lost { device, work, bound, .. } = Lost::new(subject)?;
    let desc = BufferDesc { bytes: 64, alignment: 64 };
    refused("an allocation on a lost device", device.alloc(&desc), Status::DeviceLost)?;
    let compiled = device.compile(&work.program, &CompileOptions::default());
    refused("a compilation on a lost device", compiled, Status::DeviceLost)?;
    match device.create_queue() {
        Err(e) => ensure!(e.status() == Status::DeviceLost, "a queue of a lost device gives {:?}", e.status()),
        Ok(queue) => refused("a submission on a lost device", queue.submit(&bound.submission), Status::DeviceLost)?,
    }
    Ok(())
}

/// Objects of a lost device go in any order.
fn release(subject: &Subject) -> Check {
    let Lost { device, work, bound, fences } = Lost::new(subject)?;
    drop(device);
    drop(fences);
    drop(work);
    drop(bound);
    let device = subject.open()?;
    Work::small(&*device, subject.seed)?.run(&*device)
}

fn reset(subject: &Subject) -> Check {
    let Lost { device, work, bound, .. } = Lost::new(subject)?;
    match device.reset() {
        Err(e) if e.status() == Status::Unsupported => {
            return Err(Stop::Unsupported(format!("a lost device must be opened again: {e}")));
        }
        other => other?,
    }
    let old = device.create_queue()?.submit(&bound.submission);
    refused("objects from before the reset", old, Status::InvalidArgument)?;
    let new = Work::new(&*device, work.program.clone(), subject.seed)?;
    (0..3).try_for_each(|_| new.run(&*device))
}

fn reopen(subject: &Subject) -> Check {
    let lost = Lost::new(subject)?;
    let device = subject.open().map_err(|e| Stop::failed(format!("beside a lost device: {e:?}")))?;
    Work::small(&*device, subject.seed)?.run(&*device)?;
    drop(lost);
    Work::small(&*device, subject.seed)?.run(&*device)
}
