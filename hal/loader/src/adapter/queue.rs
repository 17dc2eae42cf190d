//! A queue of a device.
//!
//! Submissions of one queue are serialised by its lock, as the contract asks. On a device that runs in the caller's thread
//! (SYNC_ONLY) the host emulates timelines: it waits for the waits, submits, and signals afterwards; a failure of the work
//! travels along the signals, or is returned if there are none. On any other device timelines go to the driver.

use super::device::Shared;
use super::executable::AbiExecutable;
use super::profile::{self, Names};
use super::retained::Retained;
use super::submission::Scratch;
use ottava_abi::priority;
use ottava_abi::types::Queue as RawQueue;
use ottava_hal::device::Profile;
use ottava_hal::{Command, Error, Queue, Result, Status, Submission};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Profiles that nobody has taken are dropped beyond this number, oldest first.
const KEPT_PROFILES: usize = 64;

/// A queue; the handle is given back when it is dropped.
pub(crate) struct AbiQueue {
    shared: Arc<Shared>,
    raw: *mut RawQueue,
    generation: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    submissions: u64,
    scratch: Scratch,
    retained: Retained,
    profiles: VecDeque<(u64, Times)>,
}

/// The times of a submission.
enum Times {
    /// Read already.
    Ready(Profile),
    /// To be read when they are asked for, by the driver's number.
    Pending { submission: u64, names: Names },
}

// SAFETY: the handle is used with the driver's functions, `submit` only under the lock.
unsafe impl Send for AbiQueue {}
// SAFETY: as above.
unsafe impl Sync for AbiQueue {}

impl Drop for AbiQueue {
    fn drop(&mut self) {
        self.state.get_mut().retained.finish(&self.shared.info.id);
        // SAFETY: the driver returned the handle, and this is the only place that gives it back.
        unsafe { (self.shared.table().queue_release)(self.shared.raw, self.raw) };
    }
}

/// Waits as long as the deadline allows.
fn wait_all(s: &Submission) -> Result<()> {
    for (fence, value) in &s.waits {
        let left = s.deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
        fence.wait(*value, left)?;
    }
    match s.deadline {
        Some(deadline) if Instant::now() > deadline => {
            Err(Error::failed(Status::Timeout, "the deadline had passed before the run could start"))
        }
        _ => Ok(()),
    }
}

/// Signals or fails every timeline; the first error of signalling.
fn signal_all(s: &Submission, result: &Result<()>) -> Result<()> {
    let one = |(fence, value): &(Arc<dyn ottava_hal::Fence>, u64)| match result {
        Ok(()) => fence.signal(*value),
        Err(e) => {
            fence.fail(e.clone());
            Ok(())
        }
    };
    s.signals.iter().map(one).fold(Ok(()), Result::and)
}

/// Names for the records of a submission. Ids of nodes of several executables cannot be told apart.
fn names_of(s: &Submission) -> Names {
    let mut executables = s.commands.iter().filter_map(|c| match c {
        Command::Dispatch { executable, .. } => Some(executable),
        _ => None,
    });
    let Some(first) = executables.next() else { return Names::default() };
    let kernels = first.kernels().into_iter().collect();
    let own = first.as_any().downcast_ref::<AbiExecutable>().filter(|_| executables.all(|e| Arc::ptr_eq(e, first)));
    Names { nodes: own.map(|e| e.head().nodes.clone()).unwrap_or_default(), kernels }
}

impl AbiQueue {
    /// A queue of ordinary priority.
    pub fn new(shared: &Arc<Shared>) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        shared.call("queue_create", |device, err| {
            // SAFETY: the handle is open; the result is checked before it is used.
            unsafe { (shared.table().queue_create)(device, priority::NORMAL, &mut raw, err) }
        })?;
        if raw.is_null() {
            return Err(shared.broken("queue_create", "OK without a queue"));
        }
        let generation = shared.health.generation();
        Ok(Self { shared: shared.clone(), raw, generation, state: Mutex::default() })
    }

    /// Calls the driver; its number of the submission.
    fn call_submit(&self, scratch: &Scratch, s: &Submission) -> Result<u64> {
        let mut submission = 0;
        let raw = scratch.as_abi(s, &mut submission);
        self.shared.call("submit", |device, err| {
            // SAFETY: device and queue are alive and the lock is held; all that the arrays name is alive: the submission
            // holds it during the call, and `retained` afterwards.
            unsafe { (self.shared.table().submit)(device, self.raw, &raw, err) }
        })?;
        Ok(submission)
    }

    /// Runs in the caller's thread.
    fn submit_emulated(&self, s: &Submission) -> Result<u64> {
        let mut state = self.state.lock();
        state.scratch.commands(&self.shared, s)?;
        let result = match wait_all(s).map(|()| self.call_submit(&state.scratch, s)) {
            // The driver has not taken the work: nothing was submitted.
            Ok(Err(e @ Error::Invalid(_))) => return Err(e),
            Ok(result) => result,
            Err(failed_wait) => Err(failed_wait),
        };
        state.submissions += 1;
        let id = state.submissions;
        if let (true, Ok(submission)) = (s.profile, &result) {
            let times = profile::read(&self.shared, self.raw, *submission, &names_of(s));
            let times = times.inspect_err(|e| tracing::debug!("{e}")).ok().flatten();
            state.keep_profile(id, times.map(Times::Ready));
        }
        drop(state);
        let result = result.map(drop);
        signal_all(s, &result)?;
        if s.signals.is_empty() { result.map(|()| id) } else { Ok(id) }
    }

    /// Hands over to the device.
    fn submit_native(&self, s: &Submission) -> Result<u64> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.retained.sweep();
        state.scratch.commands(&self.shared, s)?;
        state.scratch.fences(&self.shared, s)?;
        let flight = state.retained.begin(&self.shared)?;
        let (fence, value) = flight.point();
        state.scratch.signal(fence, value);
        let submission = match self.call_submit(&state.scratch, s) {
            Ok(submission) => submission,
            Err(e) => {
                state.retained.refused(flight);
                return Err(e);
            }
        };
        state.retained.started(flight, s);
        state.submissions += 1;
        let id = state.submissions;
        if s.profile {
            state.keep_profile(id, Some(Times::Pending { submission, names: names_of(s) }));
        }
        Ok(id)
    }
}

impl State {
    fn keep_profile(&mut self, id: u64, times: Option<Times>) {
        if self.profiles.len() == KEPT_PROFILES {
            self.profiles.pop_front();
        }
        self.profiles.extend(times.map(|times| (id, times)));
    }
}

impl Queue for AbiQueue {
    fn submit(&self, s: &Submission) -> Result<u64> {
        self.shared.health.check()?;
        self.shared.health.check_object(self.generation, "queue")?;
        if self.shared.info.sync_only { self.submit_emulated(s) } else { self.submit_native(s) }
    }

    fn take_profile(&self, submission: u64) -> Option<Profile> {
        let mut state = self.state.lock();
        let i = state.profiles.iter().position(|(id, _)| *id == submission)?;
        match state.profiles.remove(i)?.1 {
            Times::Ready(profile) => Some(profile),
            Times::Pending { submission, names } => {
                let times = profile::read(&self.shared, self.raw, submission, &names);
                times.inspect_err(|e| tracing::debug!("{e}")).ok().flatten()
            }
        }
    }
}
