//! D.2: waiting for what nobody has signalled yet.

use super::Group;
use super::timeline::MOMENT;
use crate::kit::{LIMIT, Work, done};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::{Device, Fence, Queue, Submission};
use std::sync::Arc;

pub(super) const GROUP: Group = Group {
    id: "D.2",
    name: "fence.before_signal",
    about: "a wait may come before its signal, on the host and in submissions",
    cases: |_| {
        vec![
            Case::new("D.2", "fence.before_signal.host", host),
            Case::new("D.2", "fence.before_signal.many_hosts", many_hosts),
            Case::new("D.2", "fence.before_signal.submission", submission),
            Case::new("D.2", "fence.before_signal.all_waits", all_waits),
            Case::new("D.2", "fence.before_signal.between_queues", between_queues),
        ]
    },
};

fn join(thread: std::thread::ScopedJoinHandle<'_, Check>) -> Check {
    thread.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked")))
}

fn host(subject: &Subject) -> Check {
    let fence = subject.open()?.create_fence(0)?;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| done(&*fence, 1, "a wait before the signal"));
        std::thread::sleep(MOMENT);
        fence.signal(1)?;
        join(waiter)
    })
}

fn many_hosts(subject: &Subject) -> Check {
    let fence = subject.open()?.create_fence(0)?;
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..8).map(|_| scope.spawn(|| done(&*fence, 1, "one of 8 waits"))).collect();
        std::thread::sleep(MOMENT);
        fence.signal(1)?;
        waiters.into_iter().try_for_each(join)
    })
}

/// Submits in a thread: a device that works in the caller's thread may wait there.
pub(super) fn submit_apart<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    queue: &Arc<dyn Queue>,
    submission: &Submission,
) -> std::thread::ScopedJoinHandle<'s, Check> {
    let (queue, submission) = (queue.clone(), submission.clone());
    scope.spawn(move || queue.submit(&submission).map(drop).map_err(Stop::from))
}

/// A submission that waits for `gates` does not run before the last of them is open.
fn gated(device: &dyn Device, work: &Work, gates: &[Arc<dyn Fence>]) -> Check {
    let queue = device.create_queue()?;
    let mut bound = work.bind(device)?;
    let fence = bound.signal(device)?;
    bound.submission.waits = gates.iter().map(|g| (g.clone(), 5)).collect();
    std::thread::scope(|scope| {
        let submitted = submit_apart(scope, &queue, &bound.submission);
        for (i, gate) in gates.iter().enumerate() {
            gate.signal(4)?;
            std::thread::sleep(MOMENT);
            bound.untouched("before its waits were met")?;
            let now = fence.query()?;
            ensure!(now == 0, "the signal came when {i} of {} waits were met", gates.len());
            gate.signal(5)?;
        }
        done(&*fence, 1, "a submission whose waits were met")?;
        join(submitted)
    })?;
    bound.check(work)
}

fn submission(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    gated(&*device, &work, &[device.create_fence(0)?])
}

fn all_waits(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let gates = (0..3).map(|_| device.create_fence(0)).collect::<ottava_hal::Result<Vec<_>>>()?;
    gated(&*device, &work, &gates)
}

/// Twenty steps, each on the queue that did not do the last one.
fn between_queues(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let queues = [device.create_queue()?, device.create_queue()?];
    let fence = device.create_fence(0)?;
    let mut steps = Vec::new();
    for i in 0..20u64 {
        let mut bound = work.bind(&*device)?;
        bound.submission.waits = vec![(fence.clone(), i + 1)];
        bound.submission.signals = vec![(fence.clone(), i + 2)];
        steps.push(bound);
    }
    std::thread::scope(|scope| {
        let one = |queue: usize| -> Check {
            for step in steps.iter().skip(queue).step_by(2) {
                queues[queue].submit(&step.submission)?;
            }
            Ok(())
        };
        let threads = [1, 0].map(|q| scope.spawn(move || one(q)));
        std::thread::sleep(MOMENT);
        fence.signal(1)?;
        fence.wait(21, LIMIT).map_err(|e| Stop::failed(format!("a chain between two queues stops: {e}")))?;
        threads.into_iter().try_for_each(join)
    })?;
    steps.iter().try_for_each(|step| step.check(&work))
}
