//! The worker thread of a device.
//!
//! **Protocol.** Every queue is a list of jobs under one lock. The worker takes the first job of a queue whose waits are
//! over, going round the queues, and runs it without the lock; so a queue that waits holds up no other. Whatever may
//! make a job ready (a submission, a timeline, a reset) changes its state first and then wakes the worker under the
//! lock, so no wake-up is lost. Fences are signalled without the lock: a listener may submit again.
//!
//! **Failures.** A failed wait, a passed deadline or a lost device ends a job without running it. A panic while a job
//! runs is caught and is that job's error. A submission that hangs (an injected fault) holds the device, as on hardware:
//! it ends at its deadline, by a reset, or with the device.

use crate::buffer::Generation;
use crate::executable::Clock;
use crate::fence::Timelines;
use crate::job::{Job, Profiles};
use ottava_hal::device::Profile;
use ottava_hal::fault::{Fault, FaultKind, FaultSwitch, LostFlag, lost};
use ottava_hal::{Error, Result, Status};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the device, its queues and its worker share.
pub(crate) struct Core {
    state: Mutex<State>,
    changed: Condvar,
    pub lost: LostFlag,
    faults: FaultSwitch,
    /// A lack of memory is armed and strikes whatever comes next, a run or an allocation.
    no_memory: AtomicBool,
    pub timelines: Timelines,
    realtime: Option<f64>,
    id: String,
}

struct State {
    lines: Vec<Line>,
    next_line: u64,
    /// The line after the one that ran last.
    turn: usize,
    stop: bool,
    /// Counts what releases a hung submission.
    releases: u64,
    generation: Arc<Generation>,
}

/// The jobs of one queue.
struct Line {
    id: u64,
    jobs: VecDeque<Job>,
    open: bool,
}

/// What the worker does next.
enum Next {
    Run(Job),
    End(Job, Error),
}

impl Core {
    /// A device without work.
    pub(crate) fn new(id: &str, realtime: Option<f64>) -> Arc<Self> {
        let state =
            State { lines: Vec::new(), next_line: 0, turn: 0, stop: false, releases: 0, generation: Arc::default() };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            lost: LostFlag::default(),
            faults: FaultSwitch::default(),
            no_memory: AtomicBool::new(false),
            timelines: Timelines::default(),
            realtime,
            id: id.to_owned(),
        })
    }

    /// The mark of objects made now.
    pub(crate) fn generation(&self) -> Arc<Generation> {
        Arc::clone(&self.state.lock().generation)
    }

    /// Adds a queue.
    pub(crate) fn open_line(&self) -> u64 {
        let mut state = self.state.lock();
        state.next_line += 1;
        let id = state.next_line;
        state.lines.push(Line { id, jobs: VecDeque::new(), open: true });
        id
    }

    /// Closes a queue; its jobs still run.
    pub(crate) fn close_line(&self, id: u64) {
        let mut state = self.state.lock();
        state.lines.iter_mut().filter(|l| l.id == id).for_each(|l| l.open = false);
        state.lines.retain(|l| l.open || !l.jobs.is_empty());
    }

    /// Adds a job to a queue.
    pub(crate) fn enqueue(&self, line: u64, job: Job) {
        let mut state = self.state.lock();
        if let Some(line) = state.lines.iter_mut().find(|l| l.id == line) {
            line.jobs.push_back(job);
        }
        self.changed.notify_all();
    }

    /// Makes the worker look again.
    pub(crate) fn wake(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    /// Arms a fault.
    pub(crate) fn inject(&self, fault: Fault) {
        let now = fault.kind == FaultKind::OutOfMemory && fault.after_calls == 0;
        self.no_memory.store(now, Ordering::SeqCst);
        self.faults.arm(fault);
    }

    /// Takes an armed fault away and releases a submission that hangs.
    pub(crate) fn clear_faults(&self) {
        self.no_memory.store(false, Ordering::SeqCst);
        self.faults.clear();
        self.release();
    }

    /// An injected lack of memory, once.
    pub(crate) fn check_memory(&self) -> Result<()> {
        if !self.no_memory.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        self.faults.clear();
        Err(Error::failed(Status::OutOfDeviceMemory, "no memory for a buffer (injected)"))
    }

    /// Releases a submission that hangs.
    fn release(&self) {
        self.state.lock().releases += 1;
        self.changed.notify_all();
    }

    /// Brings a lost device back: what waits fails, what was made before is void.
    pub(crate) fn reset(&self) {
        let waiting: Vec<Job> = {
            let mut state = self.state.lock();
            state.generation = Arc::default();
            state.releases += 1;
            self.changed.notify_all();
            state.lines.iter_mut().flat_map(|l| l.jobs.drain(..)).collect()
        };
        waiting.iter().for_each(|job| job.finish(&Err(lost(&self.id))));
        self.lost.set(false);
    }

    fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    /// Marks the device as lost; every timeline of it fails.
    fn lose(&self) -> Error {
        let error = lost(&self.id);
        self.lost.set(true);
        self.timelines.fail_all(&error);
        error
    }

    /// Waits for the next thing to do; `None` when the device is gone.
    fn next(&self) -> Option<Next> {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return None;
            }
            let is_lost = self.lost.check(&self.id).err();
            if let Some(next) = state.pick(is_lost.as_ref()) {
                return Some(next);
            }
            self.wait(&mut state, None);
        }
    }

    /// Waits for a change, until a job's deadline or `until` at most.
    fn wait(&self, state: &mut MutexGuard<'_, State>, until: Option<Instant>) {
        match state.first_deadline().into_iter().chain(until).min() {
            Some(at) => drop(self.changed.wait_until(state, at)),
            None => self.changed.wait(state),
        }
    }

    /// Everything that is left, when the device is gone.
    fn drain(&self) -> Vec<Job> {
        self.state.lock().lines.iter_mut().flat_map(|l| l.jobs.drain(..)).collect()
    }

    /// Runs a job; what the chip's own faults do to the device follows from how it fails.
    fn run(&self, job: &Job) -> Result<()> {
        match self.strike(job) {
            Err(e) if e.status() == Status::DeviceLost => Err(self.lose()),
            result => result,
        }
    }

    fn strike(&self, job: &Job) -> Result<()> {
        match self.faults.strike() {
            None => self.commands(job),
            Some(Fault { kind, seed, .. }) => match kind {
                FaultKind::Lost => Err(self.lose()),
                FaultKind::Hang => Err(self.hang(job, "injected")),
                FaultKind::OutOfMemory => {
                    self.no_memory.store(false, Ordering::SeqCst);
                    Err(Error::failed(Status::OutOfDeviceMemory, "no memory for the run (injected)"))
                }
                FaultKind::Panic => catch(|| panic!("injected panic")),
                FaultKind::Delay => {
                    self.pass(Instant::now() + Duration::from_millis(1 + seed % 20));
                    self.commands(job)
                }
                FaultKind::BitFlip => {
                    self.commands(job)?;
                    job.commands.last().map_or(Ok(()), |c| c.flip_bit(seed))
                }
            },
        }
    }

    fn commands(&self, job: &Job) -> Result<()> {
        let mut profile = job.profile.is_some().then(Profile::begin);
        let result = catch(|| {
            for command in &job.commands {
                let begin = Instant::now();
                let clock = Clock { since: profile.as_ref().map_or(begin, |p| p.begin), pace: self.realtime };
                let time = command.run(profile.as_mut().map(|p| &mut p.nodes), clock)?;
                if let Some(factor) = self.realtime {
                    self.pass(begin + time.mul_f64(factor));
                }
            }
            Ok(())
        });
        if let (Some(mut profile), Some(profiles)) = (profile, &job.profile) {
            profile.end = Instant::now();
            Profiles::put(profiles, job.id, profile);
        }
        result
    }

    /// Lets time pass until `end`, unless the device goes away.
    fn pass(&self, end: Instant) {
        let mut state = self.state.lock();
        while !state.stop && Instant::now() < end {
            self.changed.wait_until(&mut state, end);
        }
    }

    /// Does nothing until the deadline of the job, a release or the end of the device.
    fn hang(&self, job: &Job, why: &str) -> Error {
        let mut state = self.state.lock();
        let releases = state.releases;
        loop {
            if job.deadline.is_some_and(|d| d <= Instant::now()) {
                return Error::failed(Status::Timeout, format!("the submission hung beyond its deadline ({why})"));
            }
            if state.stop || state.releases != releases {
                return Error::failed(Status::Cancelled, format!("the submission hung and was given up ({why})"));
            }
            let expired = state.expired();
            if expired.is_empty() {
                self.wait(&mut state, job.deadline);
            } else {
                MutexGuard::unlocked(&mut state, || expired.iter().for_each(|j| j.finish(&Err(timeout()))));
            }
        }
    }
}

impl State {
    fn pick(&mut self, is_lost: Option<&Error>) -> Option<Next> {
        if let Some(job) = self.expired_first() {
            return Some(Next::End(job, timeout()));
        }
        let n = self.lines.len();
        for i in (0..n).map(|i| (self.turn + i) % n) {
            let Some(job) = self.lines[i].jobs.front() else { continue };
            let outcome = is_lost.map_or_else(|| job.waits.outcome(), |e| Some(Err(e.clone())));
            let Some(outcome) = outcome else { continue };
            self.turn = (i + 1) % n;
            let job = self.take(i, 0)?;
            return Some(match outcome {
                Ok(()) => Next::Run(job),
                Err(e) => Next::End(job, e),
            });
        }
        None
    }

    fn take(&mut self, line: usize, job: usize) -> Option<Job> {
        let taken = self.lines[line].jobs.remove(job);
        if !self.lines[line].open && self.lines[line].jobs.is_empty() {
            self.lines.remove(line);
        }
        taken
    }

    /// The first job whose deadline has passed.
    fn expired_first(&mut self) -> Option<Job> {
        let now = Instant::now();
        let late = |j: &Job| j.deadline.is_some_and(|d| d <= now);
        let find = |(i, l): (usize, &Line)| l.jobs.iter().position(late).map(|j| (i, j));
        let (line, job) = self.lines.iter().enumerate().find_map(find)?;
        self.take(line, job)
    }

    fn expired(&mut self) -> Vec<Job> {
        std::iter::from_fn(|| self.expired_first()).collect()
    }

    fn first_deadline(&self) -> Option<Instant> {
        self.lines.iter().flat_map(|l| &l.jobs).filter_map(|j| j.deadline).min()
    }
}

fn timeout() -> Error {
    Error::failed(Status::Timeout, "the deadline had passed before the run could start")
}

/// Turns a panic into an error.
fn catch(f: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::failed(Status::Panic, format!("the driver panicked: {text}")))
    })
}

/// The worker thread; it ends with the device and its last queue.
pub(crate) struct Engine {
    pub core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts the thread and waits until it runs, so that the first submission does not.
    pub(crate) fn start(core: Arc<Core>) -> Result<Self> {
        let worker = Arc::clone(&core);
        let (running, started) = std::sync::mpsc::sync_channel(1);
        let body = move || {
            // Nobody listens any more only where the start has failed.
            let _ = running.send(());
            work(&worker);
        };
        let thread = std::thread::Builder::new().name("ottava-npu".into()).spawn(body);
        let failed = |e: &dyn std::fmt::Display| Error::failed(Status::Internal, format!("cannot start a thread: {e}"));
        let thread = thread.map_err(|e| failed(&e))?;
        started.recv().map_err(|e| failed(&e))?;
        Ok(Self { core, thread: Some(thread) })
    }
}

fn work(core: &Core) {
    while let Some(next) = core.next() {
        match next {
            Next::Run(job) => {
                let result = core.run(&job);
                job.finish(&result);
            }
            Next::End(job, error) => job.finish(&Err(error)),
        }
    }
    let gone = Error::failed(Status::Cancelled, "the device was closed before the run could start");
    core.drain().iter().for_each(|job| job.finish(&Err(gone.clone())));
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.core.stop();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of the worker has been turned into an error already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
