//! The worker thread of a device, or what callers do in its stead.

use super::backend::{Backend, Completion};
use super::core::{Core, State};
use super::line::{Active, Job, Next};
use ottava_hal::device::Profile;
use ottava_hal::fault::{Fault, FaultKind};
use ottava_hal::{Error, Result, Status};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a device that is closed may need for what it still runs; after that its memory is not given back.
const LAST_RUNS: Duration = Duration::from_secs(20);

/// The worker thread; it ends with the device and its last queue.
pub struct Engine<B: Backend> {
    /// What it works on.
    pub core: Arc<Core<B>>,
    thread: Option<JoinHandle<()>>,
}

impl<B: Backend> Engine<B> {
    /// Starts the thread and waits until it runs, so that the first submission does not.
    pub fn start(core: Arc<Core<B>>) -> Result<Self> {
        let worker = Arc::clone(&core);
        let (running, started) = std::sync::mpsc::sync_channel(1);
        let body = move || {
            // Nobody listens any more only where the start has failed.
            let _ = running.send(());
            work(&worker);
        };
        let name = format!("ottava-{}", core.backend.id());
        let failed = |e: &dyn std::fmt::Display| Error::failed(Status::Internal, format!("cannot start a thread: {e}"));
        let thread = std::thread::Builder::new().name(name).spawn(body).map_err(|e| failed(&e))?;
        started.recv().map_err(|e| failed(&e))?;
        Ok(Self { core, thread: Some(thread) })
    }

    /// An engine without a thread: a submission is done when `submit` returns.
    pub fn without_thread(core: Arc<Core<B>>) -> Self {
        Self { core, thread: None }
    }

    /// Without a thread, the caller works until nothing of its queue is left but what hangs without a deadline.
    pub(super) fn serve(&self, line: u64) {
        while self.thread.is_none()
            && let Some(next) = next(&self.core, |state| state.stop || state.lines.is_done(line))
        {
            act(&self.core, next);
        }
    }
}

impl<B: Backend> Drop for Engine<B> {
    fn drop(&mut self) {
        self.core.change(|state| state.stop = true);
        match self.thread.take() {
            // A panic of the worker has been turned into an error already.
            Some(thread) if thread.thread().id() != std::thread::current().id() => drop(thread.join()),
            Some(_) => {}
            None => close(&self.core),
        }
    }
}

fn work<B: Backend>(core: &Arc<Core<B>>) {
    while let Some(next) = next(core, |state| state.stop) {
        act(core, next);
    }
    close(core);
}

fn act<B: Backend>(core: &Arc<Core<B>>, next: Next<B>) {
    match next {
        Next::Start { ticket, job, queue } => start(core, ticket, job, &queue),
        Next::Fail(job, error) => job.signals.finish(&Err(error)),
        Next::End(active) => end(core, active),
    }
}

/// Waits for the next thing to do; `None` when nothing is to be done any more.
fn next<B: Backend>(core: &Core<B>, over: impl Fn(&State<B>) -> bool) -> Option<Next<B>> {
    let mut state = core.lock();
    loop {
        if over(&state) {
            return None;
        }
        let is_lost = core.check().err();
        if let Some(next) = state.lines.pick(is_lost.as_ref()) {
            return Some(next);
        }
        let until = state.lines.first_deadline();
        core.wait(&mut state, until);
    }
}

/// Hands a submission to the device, or lets the armed fault strike it.
fn start<B: Backend>(core: &Arc<Core<B>>, ticket: u64, job: Job<B>, queue: &B::Queue) {
    let fault = core.faults.strike();
    if fault.is_some_and(|f| f.kind == FaultKind::Hang) {
        core.change(|state| {
            if let Some(entry) = state.lines.entry(ticket) {
                (entry.job, entry.hangs) = (Some(job), true);
            }
        });
        return;
    }
    let profile = job.profile.is_some();
    let running = strike(core, fault).and_then(|()| {
        let done = Completion::new(core, ticket);
        catch(|| core.backend.start(queue, &job.work, profile, done))
    });
    match running {
        Ok(running) => core.change(|state| {
            if let Some(entry) = state.lines.entry(ticket) {
                entry.flip = fault.filter(|f| f.kind == FaultKind::BitFlip).map(|f| f.seed);
                (entry.job, entry.running) = (Some(job), Some(running));
            }
        }),
        Err(e) => {
            core.change(|state| drop(state.lines.remove(ticket)));
            job.signals.finish(&Err(settle(core, e)));
        }
    }
}

/// What a fault does before the device is asked.
fn strike<B: Backend>(core: &Core<B>, fault: Option<Fault>) -> Result<()> {
    match fault.map(|f| (f.kind, f.seed)) {
        Some((FaultKind::Lost, _)) => Err(core.lose()),
        Some((FaultKind::OutOfMemory, _)) => {
            core.no_memory.store(false, Ordering::SeqCst);
            Err(Error::failed(Status::OutOfDeviceMemory, "no memory for the run (injected)"))
        }
        Some((FaultKind::Panic, _)) => catch(|| panic!("injected panic")),
        Some((FaultKind::Delay, seed)) => {
            let end = Instant::now() + Duration::from_millis(1 + seed % 20);
            let mut state = core.lock();
            while !state.stop && Instant::now() < end {
                core.wait(&mut state, Some(end));
            }
            Ok(())
        }
        Some((FaultKind::BitFlip | FaultKind::Hang, _)) | None => Ok(()),
    }
}

/// Tells everyone how a submission ended that the device is done with.
fn end<B: Backend>(core: &Core<B>, active: Active<B>) {
    let Active { job, running, ended, flip, .. } = active;
    let mut profile = job.as_ref().is_some_and(|j| j.profile.is_some()).then(Profile::begin);
    let ended = ended.unwrap_or(Ok(()));
    let checked = running.map_or(Ok(()), |r| catch(|| core.backend.end(r, profile.as_mut())));
    let Some(job) = job else { return };
    let mut result = ended.and(checked);
    if let (Ok(()), Some(seed)) = (&result, flip) {
        result = core.backend.flip_bit(&job.work, seed);
    }
    if let (Some(profile), Some(profiles)) = (profile, &job.profile) {
        profiles.put(job.id, profile);
    }
    job.signals.finish(&result.map_err(|e| settle(core, e)));
}

/// A failure that means that the device is lost makes it so.
fn settle<B: Backend>(core: &Core<B>, error: Error) -> Error {
    if error.status() == Status::DeviceLost && core.check().is_ok() {
        tracing::warn!(device = core.backend.id(), %error, "the device is lost");
        core.lose();
    }
    error
}

/// Ends what waits, and waits for what the device still has: its memory must not go before.
fn close<B: Backend>(core: &Core<B>) {
    let until = Instant::now() + LAST_RUNS;
    let gone = Error::failed(Status::Cancelled, "the device was closed before the run could start");
    loop {
        let mut state = core.lock();
        let hung = state.lines.hung();
        let waiting: Vec<Job<B>> = state.lines.lines.iter_mut().flat_map(|l| l.jobs.drain(..)).collect();
        let done = state.lines.active.iter().position(|a| a.ended.is_some());
        let done = done.map(|i| state.lines.active.remove(i));
        let is_idle = state.lines.active.is_empty();
        let nothing_to_tell = hung.is_empty() && waiting.is_empty() && done.is_none();
        if nothing_to_tell && !is_idle && Instant::now() < until {
            core.wait(&mut state, Some(until));
        }
        drop(state);
        hung.iter().chain(&waiting).for_each(|job| job.signals.finish(&Err(gone.clone())));
        match done {
            Some(active) => end(core, active),
            None if is_idle => return,
            None if Instant::now() >= until => break,
            None => {}
        }
    }
    let left: Vec<Active<B>> = std::mem::take(&mut core.lock().lines.active);
    let hangs = Error::failed(Status::Timeout, "the device was closed and did not end its work");
    for active in left {
        active.job.iter().for_each(|job| job.signals.finish(&Err(hangs.clone())));
        // The device may still write there.
        std::mem::forget(active);
    }
}

/// Turns a panic into an error.
fn catch<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::failed(Status::Panic, format!("the driver panicked: {text}")))
    })
}
