//! F.7: two queues both get on.

use super::Group;
use super::before_signal::submit_apart;
use super::timeline::MOMENT;
use crate::kit::{LIMIT, Work, done};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::Submission;

pub(super) const GROUP: Group = Group {
    id: "F.7",
    name: "exec.fairness",
    about: "a queue that waits, or that has much to do, does not hold up another one",
    cases: |_| vec![Case::new("F.7", "exec.fairness.blocked", blocked), Case::new("F.7", "exec.fairness.busy", busy)],
};

/// The first queue waits for a fence that only the second one signals.
fn blocked(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (first, second) = (device.create_queue()?, device.create_queue()?);
    let (gate, end) = (device.create_fence(0)?, device.create_fence(0)?);
    let held = Submission { waits: vec![(gate.clone(), 1)], signals: vec![(end.clone(), 1)], ..Submission::default() };
    std::thread::scope(|scope| {
        let submitted = submit_apart(scope, &first, &held);
        std::thread::sleep(MOMENT);
        let opener = Submission { signals: vec![(gate.clone(), 1)], ..Submission::default() };
        let opened = submit_apart(scope, &second, &opener);
        let through = gate.wait(1, LIMIT).map_err(|_| Stop::failed("a queue that waits holds up another queue"));
        if through.is_err() {
            gate.fail(ottava_hal::Error::invalid("the case is over"));
        }
        through?;
        done(&*end, 1, "the queue that waited")?;
        [submitted, opened]
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked"))))
    })
}

/// One submission behind another queue's forty is not the last to end.
fn busy(subject: &Subject) -> Check {
    const N: u64 = 40;
    let device = subject.open()?;
    if device.info().sync_only {
        return Err(Stop::Unsupported("the device works in the caller's thread, which decides the order".into()));
    }
    let (first, second) = (device.create_queue()?, device.create_queue()?);
    let (gate, many, one) = (device.create_fence(0)?, device.create_fence(0)?, device.create_fence(0)?);
    let work = Work::long(&*device, subject.seed)?;
    for i in 1..=N {
        let mut bound = work.bind(&*device)?;
        bound.submission.waits = vec![(gate.clone(), 1)];
        bound.submission.signals = vec![(many.clone(), i)];
        first.submit(&bound.submission)?;
    }
    let mut bound = work.bind(&*device)?;
    bound.submission.waits = vec![(gate.clone(), 1)];
    bound.submission.signals = vec![(one.clone(), 1)];
    second.submit(&bound.submission)?;
    gate.signal(1)?;
    done(&*one, 1, "one submission beside forty of another queue")?;
    let passed = many.query()?;
    done(&*many, N, "forty submissions")?;
    ensure!(passed < N, "one submission had to wait for all {N} of another queue");
    Ok(())
}
