//! Group D: timelines.

use super::Defect;
use crate::{Behaviour, FaultyFence, Job};
use ottava_hal::{Error, Fence, Notify, Result, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The one timeline of all.
static SHARED: AtomicU64 = AtomicU64::new(0);
/// Threads that are inside.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("initial_ignored", "D.1", "fence.timeline.initial", "stands at 0", |b| b.query = |f| from_zero(f)),
    Defect::new("signal_back_taken", "D.1", "fence.timeline.monotonic", "accepted", |b| {
        b.signal = |f, v| if f.inner.query()? >= v { Ok(()) } else { f.inner.signal(v) };
    }),
    Defect::new("signal_one_more", "D.1", "fence.timeline.monotonic", "stands at 5", |b| {
        b.signal = |f, v| f.inner.signal(v.saturating_add(1));
    }),
    Defect::new("signal_back_code", "D.1", "fence.timeline.monotonic", "Busy", |b| {
        b.signal = |f, v| f.inner.signal(v).map_err(|e| Error::failed(Status::Busy, e.to_string()));
    }),
    Defect::new("passed_is_not_reached", "D.1", "fence.timeline.reached_or_passed", "a wait for 0 at 10", |b| {
        b.wait = exactly;
    }),
    Defect::new("timeout_code", "D.1", "fence.timeline.timeout", "Internal", |b| {
        b.wait = |f, v, t| f.inner.wait(v, t).map_err(|e| Error::failed(Status::Internal, e.to_string()));
    }),
    Defect::new("timeout_at_once", "D.1", "fence.timeline.timeout", "ended after", |b| {
        b.wait = |f, v, t| f.inner.wait(v, t / 20);
    }),
    Defect::new("timeout_is_fine", "D.1", "fence.timeline.timeout", "accepted", |b| {
        b.wait = |f, v, t| f.inner.wait(v, t).or_else(|e| if e.status() == Status::Timeout { Ok(()) } else { Err(e) });
    }),
    Defect::new("woken_at_any_signal", "D.1", "fence.timeline.any_order", "was woken at", |b| {
        b.wait = |f, v, t| if v > 1 { f.inner.wait(1, t) } else { f.inner.wait(v, t) };
    }),
    Defect::new("notify_twice", "D.1", "fence.timeline.notify", "[10, 10, 11]", |b| {
        b.notify = |f, v, to, token| {
            f.inner.notify(v, to.clone(), token);
            f.inner.notify(v, to, token);
        };
    }),
    Defect::new("notify_early", "D.1", "fence.timeline.notify", "at once", |b| {
        b.notify = |f, v, to, token| f.inner.notify(v.saturating_sub(1), to, token);
    }),
    Defect::new("notify_late", "D.1", "fence.timeline.notify", "at once", |b| b.notify = never_at_once),
    Defect::new("timelines_are_one", "D.1", "fence.timeline.apart", "stands at 107", |b| {
        b.signal = |f, v| f.inner.signal(v).map(|()| _ = SHARED.fetch_max(v, Ordering::SeqCst));
        b.query = |f| f.inner.query().map(|v| v.max(SHARED.load(Ordering::SeqCst)));
    }),
    Defect::new("lost_wake_up", "D.2", "fence.before_signal.host", "Timeout", |b| b.wait = asleep),
    Defect::new("wakes_one_of_many", "D.2", "fence.before_signal.many_hosts", "Timeout", |b| b.wait = second_sleeps),
    Defect::new("waits_ignored", "D.2", "fence.before_signal.submission", "waits were met", |b| {
        b.ready = |_| Some(Ok(()))
    }),
    Defect::new("last_wait_ignored", "D.2", "fence.before_signal.all_waits", "waits were met", |b| {
        b.ready = first_wait
    }),
    Defect::new("failure_is_internal", "D.3", "fence.failure.fail_then_wait", "got Internal", |b| {
        b.query = |f| f.inner.query().map_err(|e| Error::failed(Status::Internal, e.to_string()));
    }),
    Defect::new("failure_without_words", "D.3", "fence.failure.fail_then_wait", "words", |b| {
        b.query = |f| f.inner.query().map_err(|e| Error::failed(e.status(), ""));
    }),
    Defect::new("failure_wakes_nobody", "D.3", "fence.failure.wait_then_fail", "Timeout", |b| b.wait = deaf_to_failure),
    Defect::new("last_failure_stays", "D.3", "fence.failure.first_stays", "DeviceLost", |b| {
        b.fail = |f, e| {
            f.memory.lock().1 = Some(e.clone());
            f.inner.fail(e);
        };
        b.query = |f| f.inner.query().map_err(|e| f.memory.lock().1.clone().unwrap_or(e));
    }),
    Defect::new("failure_not_notified", "D.3", "fence.failure.listeners", "not told", |b| b.notify = only_good_news),
    Defect::new("failure_is_forgotten", "D.3", "fence.failure.signal_after", "could be signalled", |b| {
        b.signal = |f, v| if f.inner.query().is_err() { Ok(()) } else { f.inner.signal(v) };
    }),
    Defect::new("failed_wait_runs", "D.3", "fence.failure.chain", "accepted", |b| {
        b.ready = |job| job.waits.outcome().map(|_| Ok(()));
    }),
    Defect::new("chain_code_changes", "D.3", "fence.failure.chain", "Internal", |b| b.finish = own_code),
    Defect::new("notify_first_only", "D.4", "fence.cross_device.ping_pong", "stops", |b| {
        b.notify = |f, v, to, token| {
            if f.count() < 3 {
                f.inner.notify(v, to, token)
            }
        };
    }),
    Defect::new("notify_fails_as_success", "D.4", "fence.cross_device.failure", "accepted", |b| b.notify = all_is_well),
    Defect::new("busy_under_threads", "D.5", "fence.threads.shared", "Busy", |b| b.query = one_at_a_time),
    Defect::new("signal_not_atomic", "D.5", "fence.threads.own", "expected", |b| {
        b.signal = |f, v| f.inner.signal(v).map(|()| SHARED.store(v, Ordering::SeqCst));
        b.query = |f| f.inner.query().map(|v| if v > 0 { SHARED.load(Ordering::SeqCst) } else { v });
    }),
];

/// Starts counting at 0 whatever it was made with.
fn from_zero(fence: &FaultyFence) -> Result<u64> {
    let value = fence.inner.query()?;
    Ok(if fence.count() == 0 { 0 } else { value })
}

/// Waits for the value itself.
fn exactly(fence: &FaultyFence, value: u64, timeout: Duration) -> Result<()> {
    fence.inner.wait(value, timeout)?;
    match fence.inner.query()? {
        now if now == value => Ok(()),
        now => Err(Error::failed(Status::Timeout, format!("the timeline stands at {now}"))),
    }
}

/// Whoever has reached the value already hears nothing before the next change.
fn never_at_once(fence: &FaultyFence, value: u64, to: Arc<dyn Notify>, token: u64) {
    let now = fence.inner.query().unwrap_or(0);
    fence.inner.notify(value.max(now + 1), to, token);
}

/// Who is asleep when the signal comes sleeps on.
fn asleep(fence: &FaultyFence, value: u64, timeout: Duration) -> Result<()> {
    if fence.inner.query()? >= value {
        return Ok(());
    }
    std::thread::sleep(timeout);
    Err(Error::failed(Status::Timeout, "nobody woke me"))
}

fn second_sleeps(fence: &FaultyFence, value: u64, timeout: Duration) -> Result<()> {
    if fence.count() == 0 { fence.inner.wait(value, timeout) } else { asleep(fence, value, timeout) }
}

/// A submission starts when its first wait is met.
fn first_wait(job: &Job) -> Option<Result<()>> {
    let (fence, value) = job.submission.waits.first()?;
    (fence.query().is_ok_and(|v| v >= *value)).then_some(Ok(())).or_else(|| job.waits.outcome())
}

/// Sees values, not failures, while it waits.
fn deaf_to_failure(fence: &FaultyFence, value: u64, timeout: Duration) -> Result<()> {
    let end = Instant::now() + timeout;
    fence.inner.query()?;
    while Instant::now() < end {
        if fence.inner.query().is_ok_and(|v| v >= value) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Error::failed(Status::Timeout, "not reached"))
}

/// Passes on what suits it.
struct Filter(Arc<dyn Notify>, fn(Result<()>) -> Option<Result<()>>);

impl Notify for Filter {
    fn notified(&self, token: u64, result: Result<()>) {
        if let Some(result) = (self.1)(result) {
            self.0.notified(token, result);
        }
    }
}

fn only_good_news(fence: &FaultyFence, value: u64, to: Arc<dyn Notify>, token: u64) {
    fence.inner.notify(value, Arc::new(Filter(to, |r| r.is_ok().then_some(Ok(())))), token);
}

fn all_is_well(fence: &FaultyFence, value: u64, to: Arc<dyn Notify>, token: u64) {
    fence.inner.notify(value, Arc::new(Filter(to, |_| Some(Ok(())))), token);
}

/// Every failure becomes the driver's own.
fn own_code(job: &Job, result: &Result<()>) {
    let result = result.clone().map_err(|e| Error::failed(Status::Internal, e.to_string()));
    (Behaviour::right().finish)(job, &result);
}

/// Two at once are too many.
fn one_at_a_time(fence: &FaultyFence) -> Result<u64> {
    let others = INSIDE.fetch_add(1, Ordering::SeqCst);
    std::thread::sleep(Duration::from_micros(200));
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    if others > 0 { Err(Error::failed(Status::Busy, "somebody else is here")) } else { fence.inner.query() }
}
