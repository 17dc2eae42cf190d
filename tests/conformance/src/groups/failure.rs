//! D.3: failures travel along timelines.

use super::Group;
use super::timeline::{Listener, MOMENT};
use crate::kit::{LIMIT, Work};
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::{Error, Fence, Status};
use std::time::Duration;

pub(super) const GROUP: Group = Group {
    id: "D.3",
    name: "fence.failure",
    about: "a failure reaches every waiter, the first code stays, and work that waits for it does not run",
    cases: |_| {
        vec![
            Case::new("D.3", "fence.failure.fail_then_wait", fail_then_wait),
            Case::new("D.3", "fence.failure.wait_then_fail", wait_then_fail),
            Case::new("D.3", "fence.failure.first_stays", first_stays),
            Case::new("D.3", "fence.failure.listeners", listeners),
            Case::new("D.3", "fence.failure.signal_after", signal_after),
            Case::new("D.3", "fence.failure.chain", chain),
        ]
    },
};

fn cancelled() -> Error {
    Error::failed(Status::Cancelled, "the first failure")
}

/// The fence has failed with a status.
fn failed(fence: &dyn Fence, want: Status) -> Check {
    refused("the value of a failed timeline", fence.query(), want)?;
    for value in [0, 1, 7] {
        refused(&format!("a wait for {value} on a failed timeline"), fence.wait(value, LIMIT), want)?;
    }
    Ok(())
}

fn fail_then_wait(subject: &Subject) -> Check {
    let fence = subject.open()?.create_fence(1)?;
    fence.fail(cancelled());
    failed(&*fence, Status::Cancelled)?;
    let words = fence.query().err().map(|e| e.to_string()).unwrap_or_default();
    ensure!(words.contains("the first failure"), "the words of a failure are lost: {words}");
    Ok(())
}

fn wait_then_fail(subject: &Subject) -> Check {
    let fence = subject.open()?.create_fence(0)?;
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (1..5)
            .map(|v| {
                scope.spawn({
                    let fence = &fence;
                    move || fence.wait(v, LIMIT)
                })
            })
            .collect();
        std::thread::sleep(MOMENT);
        fence.fail(cancelled());
        for waiter in waiters {
            let result = waiter.join().map_err(|_| Stop::failed("a waiter panicked"))?;
            refused("a wait during which the timeline failed", result, Status::Cancelled)?;
        }
        Ok(())
    })
}

fn first_stays(subject: &Subject) -> Check {
    let fence = subject.open()?.create_fence(0)?;
    fence.fail(cancelled());
    fence.fail(Error::failed(Status::Internal, "the second failure"));
    fence.fail(Error::failed(Status::DeviceLost, "the third failure"));
    failed(&*fence, Status::Cancelled)
}

fn listeners(subject: &Subject) -> Check {
    let fence = subject.open()?.create_fence(0)?;
    let (listener, from) = Listener::new();
    fence.notify(1, listener.clone(), 1);
    fence.notify(9, listener.clone(), 2);
    fence.fail(cancelled());
    fence.notify(5, listener, 3);
    for _ in 0..3 {
        let told = from.recv_timeout(Duration::from_secs(3));
        let (_, result) = told.map_err(|_| Stop::failed("a listener was not told that its timeline failed"))?;
        refused("what a listener of a failed timeline is told", result, Status::Cancelled)?;
    }
    Ok(())
}

fn signal_after(subject: &Subject) -> Check {
    let fence = subject.open()?.create_fence(0)?;
    fence.fail(cancelled());
    ensure!(fence.signal(5).is_err(), "a failed timeline could be signalled");
    failed(&*fence, Status::Cancelled)
}

/// Eight submissions, each waiting for the one before; the root of them fails.
fn chain(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (work, queue) = (Work::small(&*device, subject.seed)?, device.create_queue()?);
    let root = device.create_fence(0)?;
    let (mut steps, mut fences) = (Vec::new(), vec![root.clone()]);
    for i in 0..8 {
        let mut bound = work.bind(&*device)?;
        bound.submission.waits = vec![(fences[i].clone(), 1)];
        fences.push(bound.signal(&*device)?);
        steps.push(bound);
    }
    std::thread::scope(|scope| {
        let submitted = scope.spawn(|| -> Check {
            steps.iter().try_for_each(|s| queue.submit(&s.submission).map(drop).map_err(Stop::from))
        });
        std::thread::sleep(MOMENT);
        root.fail(cancelled());
        for (i, fence) in fences.iter().enumerate().skip(1) {
            let end = fence.wait(1, LIMIT);
            refused(&format!("submission {i} of a chain whose root failed"), end, Status::Cancelled)?;
        }
        submitted.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked")))
    })?;
    steps.iter().try_for_each(|s| s.untouched("by a submission whose wait failed"))?;
    // The queue is as good as before.
    work.run(&*device)
}
