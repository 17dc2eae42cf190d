//! F.6: deadlines, and submissions that hang.

use super::Group;
use super::before_signal::submit_apart;
use super::timeline::MOMENT;
use crate::kit::{LIMIT, Work};
use crate::{Case, Check, Stop, Subject, refused};
use ottava_hal::fault::{Fault, FaultKind};
use ottava_hal::{Fence, Status};
use std::time::{Duration, Instant};

pub(super) const GROUP: Group = Group {
    id: "F.6",
    name: "exec.deadline",
    about: "a submission that cannot start or end in time gives TIMEOUT, and the device stays usable",
    cases: |_| {
        vec![
            Case::new("F.6", "exec.deadline.passed", passed),
            Case::new("F.6", "exec.deadline.waiting", waiting),
            Case::new("F.6", "exec.deadline.far", far),
            Case::new("F.6", "exec.deadline.hang", hang),
        ]
    },
};

fn timed_out(fence: &dyn Fence, what: &str) -> Check {
    // Without a failure the wait itself would time out, which has the same status.
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        match fence.query() {
            Ok(0) => std::thread::sleep(Duration::from_millis(2)),
            other => return refused(what, other, Status::Timeout),
        }
    }
    Err(Stop::failed(format!("{what} is neither signalled nor failed")))
}

/// A deadline in the past: it does not run.
fn passed(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let mut bound = work.bind(&*device)?;
    let fence = bound.signal(&*device)?;
    bound.submission.deadline = Some(Instant::now());
    std::thread::sleep(Duration::from_millis(2));
    device.create_queue()?.submit(&bound.submission)?;
    timed_out(&*fence, "a submission whose deadline has passed")?;
    bound.untouched("by a submission whose deadline has passed")?;
    work.run(&*device)
}

/// A deadline that passes while it waits for another fence.
fn waiting(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (queue, gate) = (device.create_queue()?, device.create_fence(0)?);
    let work = Work::small(&*device, subject.seed)?;
    let mut bound = work.bind(&*device)?;
    let fence = bound.signal(&*device)?;
    bound.submission.waits = vec![(gate.clone(), 1)];
    bound.submission.deadline = Some(Instant::now() + MOMENT);
    std::thread::scope(|scope| {
        let submitted = submit_apart(scope, &queue, &bound.submission);
        timed_out(&*fence, "a submission that waits beyond its deadline")?;
        gate.signal(1)?;
        submitted.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked")))
    })?;
    bound.untouched("by a submission that waited beyond its deadline")?;
    work.run(&*device)
}

/// A deadline that is far away is none.
fn far(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let mut bound = work.bind(&*device)?;
    let fence = bound.signal(&*device)?;
    bound.submission.deadline = Some(Instant::now() + Duration::from_secs(3600));
    device.create_queue()?.submit(&bound.submission)?;
    fence.wait(1, LIMIT).map_err(|e| Stop::failed(format!("a submission with an hour of time: {e}")))?;
    bound.check(&work)
}

/// A submission that never ends, by the driver's test hook.
fn hang(subject: &Subject) -> Check {
    let device = subject.open()?;
    match device.inject(Fault { kind: FaultKind::Hang, after_calls: 0, seed: subject.seed }) {
        Ok(()) => {}
        Err(e) if e.status() == Status::Unsupported => {
            return Err(Stop::Unsupported(format!("no hook for hangs: {e}")));
        }
        Err(e) => return Err(e.into()),
    }
    let work = Work::small(&*device, subject.seed)?;
    let mut bound = work.bind(&*device)?;
    let fence = bound.signal(&*device)?;
    bound.submission.deadline = Some(Instant::now() + MOMENT);
    device.create_queue()?.submit(&bound.submission)?;
    timed_out(&*fence, "a submission that hangs")?;
    let lost = |status| status == Status::DeviceLost;
    match work.run(&*device) {
        Ok(()) => Ok(()),
        // A device may be gone after a hang; then it says so, and opens again.
        Err(_) if device.create_queue().is_err_and(|e| lost(e.status())) => {
            let device = subject.open()?;
            Work::small(&*device, subject.seed)?.run(&*device)
        }
        Err(Stop::Failed(why)) => Err(Stop::Failed(format!("after a hang: {why}"))),
        Err(other) => Err(other),
    }
}
