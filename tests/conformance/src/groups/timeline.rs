//! D.1: a timeline by itself: what it stands at, who waits, who is told.

use super::Group;
use crate::kit::{LIMIT, done};
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::{Error, Fence, Notify, Status};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

pub(super) const GROUP: Group = Group {
    id: "D.1",
    name: "fence.timeline",
    about: "values only grow; waits end when they are reached, passed or out of time; each listener is told once",
    cases: |_| {
        vec![
            Case::new("D.1", "fence.timeline.initial", initial),
            Case::new("D.1", "fence.timeline.monotonic", monotonic),
            Case::new("D.1", "fence.timeline.reached_or_passed", reached_or_passed),
            Case::new("D.1", "fence.timeline.timeout", timeout),
            Case::new("D.1", "fence.timeline.any_order", any_order),
            Case::new("D.1", "fence.timeline.notify", notify),
            Case::new("D.1", "fence.timeline.apart", apart),
        ]
    },
};

/// Short, and long enough for a thread to get to where it should wait.
pub(super) const MOMENT: Duration = Duration::from_millis(30);

/// Sends on what it is told.
pub(super) struct Listener(Sender<(u64, Result<(), Error>)>);

/// What a listener was told: its token, and how it ended.
pub(super) type Told = Receiver<(u64, Result<(), Error>)>;

impl Listener {
    pub(super) fn new() -> (Arc<Self>, Told) {
        let (to, from) = channel();
        (Arc::new(Self(to)), from)
    }
}

impl Notify for Listener {
    fn notified(&self, token: u64, result: Result<(), Error>) {
        // The case may be over.
        let _ = self.0.send((token, result));
    }
}

fn fence(subject: &Subject, value: u64) -> Result<Arc<dyn Fence>, Stop> {
    Ok(subject.open()?.create_fence(value)?)
}

fn stands(fence: &dyn Fence, value: u64) -> Check {
    let found = fence.query()?;
    ensure!(found == value, "the timeline stands at {found}, expected {value}");
    Ok(())
}

fn initial(subject: &Subject) -> Check {
    for value in [0, 1, 41, u64::MAX - 1, u64::MAX] {
        let fence = fence(subject, value)?;
        stands(&*fence, value)?;
        fence.wait(value, Duration::ZERO)?;
    }
    Ok(())
}

fn monotonic(subject: &Subject) -> Check {
    let fence = fence(subject, 3)?;
    for value in [4, 5, 100, 1 << 40] {
        fence.signal(value)?;
        stands(&*fence, value)?;
        for back in [value, value - 1, 0] {
            refused(&format!("a signal of {back} at {value}"), fence.signal(back), Status::InvalidArgument)?;
            stands(&*fence, value)?;
        }
    }
    Ok(())
}

fn reached_or_passed(subject: &Subject) -> Check {
    let fence = fence(subject, 0)?;
    fence.signal(10)?;
    for value in [0, 1, 9, 10] {
        fence.wait(value, Duration::ZERO).map_err(|e| Stop::failed(format!("a wait for {value} at 10: {e}")))?;
        fence.wait(value, LIMIT)?;
    }
    refused("a wait for 11 at 10", fence.wait(11, Duration::ZERO), Status::Timeout)
}

fn timeout(subject: &Subject) -> Check {
    let fence = fence(subject, 1)?;
    refused("a wait without time", fence.wait(2, Duration::ZERO), Status::Timeout)?;
    let begin = Instant::now();
    refused("a wait that is not met", fence.wait(2, MOMENT), Status::Timeout)?;
    ensure!(begin.elapsed() >= MOMENT, "a wait of {MOMENT:?} ended after {:?}", begin.elapsed());
    // A wait that was given up changes nothing.
    stands(&*fence, 1)?;
    fence.signal(2)?;
    done(&*fence, 2, "a fence after a wait was given up")
}

/// Eight waiters for values in no order; each comes back, and none before its value.
fn any_order(subject: &Subject) -> Check {
    let fence = fence(subject, 0)?;
    std::thread::scope(|scope| {
        let wait = |value: u64| -> Check {
            fence.wait(value, LIMIT).map_err(|e| Stop::failed(format!("a waiter for {value} was not woken: {e}")))?;
            let found = fence.query()?;
            ensure!(found >= value, "a waiter for {value} was woken at {found}");
            Ok(())
        };
        let waiters: Vec<_> = [5u64, 1, 8, 3, 3, 7, 2, 6].map(|v| scope.spawn(move || wait(v))).into();
        std::thread::sleep(MOMENT);
        for value in [1, 2, 4, 8] {
            fence.signal(value)?;
            std::thread::sleep(Duration::from_millis(2));
        }
        waiters.into_iter().try_for_each(|w| w.join().unwrap_or_else(|_| Err(Stop::failed("a waiter panicked"))))
    })
}

/// Who was told within a moment.
fn told(from: &Told, want: &[u64], when: &str) -> Check {
    let mut found = Vec::new();
    for _ in want {
        let Ok((token, result)) = from.recv_timeout(Duration::from_secs(3)) else { break };
        ensure!(result.is_ok(), "listener {token} was told {result:?} {when}");
        found.push(token);
    }
    found.extend(from.recv_timeout(Duration::from_millis(5)).map(|(token, _)| token));
    found.sort_unstable();
    ensure!(found == want, "listeners {found:?} were told {when}, expected {want:?}");
    Ok(())
}

fn notify(subject: &Subject) -> Check {
    let fence = fence(subject, 2)?;
    let (listener, from) = Listener::new();
    for (value, token) in [(1, 10), (2, 11), (3, 12), (5, 13), (9, 14)] {
        fence.notify(value, listener.clone(), token);
    }
    told(&from, &[10, 11], "at once")?;
    fence.signal(3)?;
    told(&from, &[12], "at 3")?;
    fence.signal(4)?;
    told(&from, &[], "at 4")?;
    fence.signal(20)?;
    told(&from, &[13, 14], "at 20")?;
    fence.signal(21)?;
    told(&from, &[], "a second time")
}

fn apart(subject: &Subject) -> Check {
    let device = subject.open()?;
    let fences = (0..8).map(|i| device.create_fence(i)).collect::<ottava_hal::Result<Vec<_>>>()?;
    for (i, fence) in fences.iter().enumerate() {
        fence.signal(100 + i as u64)?;
    }
    fences[3].fail(Error::failed(Status::Cancelled, "only this one"));
    for (i, fence) in fences.iter().enumerate().filter(|(i, _)| *i != 3) {
        stands(&**fence, 100 + i as u64)?;
    }
    Ok(())
}
