//! The worker thread of a device, and what device, queues and worker share.
//!
//! **Protocol.** Every queue is a line of jobs under one lock. The worker takes the first job of a line whose waits are
//! over, going round the lines, and runs it without the lock. Whatever may make a job ready changes its state first and
//! then wakes the worker under the lock, so no wake-up is lost. Fences are signalled without the lock.

use crate::{Behaviour, FaultyFence};
use ottava_hal::device::Profile;
use ottava_hal::fault::{Fault, FaultKind, FaultSwitch, LostFlag, lost};
use ottava_hal::{DeviceInfo, Error, Fence, Notify, Result, Status, Submission};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Profiles that nobody has taken are dropped beyond this number, oldest first.
const KEPT_PROFILES: usize = 64;

/// A submission in a line.
pub struct Job {
    /// Number in its queue.
    pub id: u64,
    /// Its queue.
    pub line: u64,
    /// What was submitted.
    pub submission: Submission,
    /// What it still waits for.
    pub waits: Arc<Waits>,
    pub(crate) profiles: Option<Arc<Profiles>>,
}

/// Profiles of a queue's finished submissions.
#[derive(Default)]
pub(crate) struct Profiles(Mutex<VecDeque<(u64, Profile)>>);

impl Profiles {
    fn put(&self, id: u64, profile: Profile) {
        let mut kept = self.0.lock();
        if kept.len() == KEPT_PROFILES {
            kept.pop_front();
        }
        kept.push_back((id, profile));
    }

    /// Takes a profile.
    pub(crate) fn take(&self, id: u64) -> Option<Profile> {
        let mut kept = self.0.lock();
        let i = kept.iter().position(|(found, _)| *found == id)?;
        kept.remove(i).map(|(_, profile)| profile)
    }
}

/// What a job still waits for. Each wait is told once, from any thread.
pub struct Waits {
    state: Mutex<(usize, Option<Error>)>,
    core: Weak<Core>,
}

impl Waits {
    /// Asks every timeline to tell. No lock may be held: a timeline may answer at once.
    pub(crate) fn register(core: &Arc<Core>, waits: &[(Arc<dyn Fence>, u64)]) -> Arc<Self> {
        let this = Arc::new(Self { state: Mutex::new((waits.len(), None)), core: Arc::downgrade(core) });
        for (i, (fence, value)) in waits.iter().enumerate() {
            fence.notify(*value, Arc::clone(&this) as Arc<dyn Notify>, i as u64);
        }
        this
    }

    /// `None` while something is awaited; else whether all came.
    pub fn outcome(&self) -> Option<Result<()>> {
        match &*self.state.lock() {
            (_, Some(error)) => Some(Err(error.clone())),
            (0, None) => Some(Ok(())),
            _ => None,
        }
    }
}

impl Notify for Waits {
    fn notified(&self, _: u64, result: Result<()>) {
        {
            let mut state = self.state.lock();
            state.0 = state.0.saturating_sub(1);
            state.1 = state.1.take().or(result.err());
        }
        if let Some(core) = self.core.upgrade() {
            core.wake();
        }
    }
}

/// What the device shares with its queues, buffers and worker.
pub struct Core {
    /// The decisions.
    pub behaviour: Behaviour,
    /// Id of the device.
    pub id: String,
    /// Whether the device is lost.
    pub lost: LostFlag,
    /// The armed fault.
    pub faults: FaultSwitch,
    /// A lack of memory is armed and strikes whatever comes next, a run or an allocation.
    pub no_memory: AtomicBool,
    /// Bytes of memory in use.
    pub used: AtomicU64,
    limit: u64,
    fences: Mutex<Vec<Weak<FaultyFence>>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: Vec<Line>,
    next_line: u64,
    turn: usize,
    stop: bool,
    /// Counts what releases a hung submission.
    releases: u64,
    generation: u64,
}

struct Line {
    id: u64,
    jobs: VecDeque<Job>,
    open: bool,
}

impl Core {
    pub(crate) fn new(behaviour: Behaviour, info: &DeviceInfo) -> Arc<Self> {
        Arc::new(Self {
            behaviour,
            id: info.id.clone(),
            lost: LostFlag::default(),
            faults: FaultSwitch::default(),
            no_memory: AtomicBool::new(false),
            used: AtomicU64::new(0),
            limit: info.memory_bytes,
            fences: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// The number of resets; objects from before a reset are void.
    pub fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// Takes memory of the device.
    pub fn take_memory(&self, bytes: u64) -> Result<()> {
        if self.no_memory.swap(false, Ordering::SeqCst) {
            self.faults.clear();
            return Err(Error::failed(Status::OutOfDeviceMemory, "no memory for a buffer (injected)"));
        }
        let take = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.limit);
        let full = |used| {
            let what = format!("{bytes} bytes wanted, {used} of the device's {} are in use", self.limit);
            Error::failed(Status::OutOfDeviceMemory, what)
        };
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).map(drop).map_err(full)
    }

    /// A timeline of the device.
    pub(crate) fn create_fence(&self, initial: u64) -> Arc<FaultyFence> {
        let fence = Arc::new(FaultyFence::new(self.behaviour, initial));
        let mut all = self.fences.lock();
        all.retain(|f| f.strong_count() > 0);
        all.push(Arc::downgrade(&fence));
        fence
    }

    pub(crate) fn open_line(&self) -> u64 {
        let mut state = self.state.lock();
        state.next_line += 1;
        let id = state.next_line;
        state.lines.push(Line { id, jobs: VecDeque::new(), open: true });
        id
    }

    pub(crate) fn close_line(&self, id: u64) {
        let mut state = self.state.lock();
        state.lines.iter_mut().filter(|l| l.id == id).for_each(|l| l.open = false);
        state.lines.retain(|l| l.open || !l.jobs.is_empty());
    }

    pub(crate) fn enqueue(&self, job: Job) {
        let mut state = self.state.lock();
        if let Some(line) = state.lines.iter_mut().find(|l| l.id == job.line) {
            line.jobs.push_back(job);
        }
        self.changed.notify_all();
    }

    fn wake(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    /// Takes an armed fault away and releases a submission that hangs.
    pub(crate) fn clear_faults(&self) {
        self.no_memory.store(false, Ordering::SeqCst);
        self.faults.clear();
        self.state.lock().releases += 1;
        self.changed.notify_all();
    }

    /// Marks the device as lost; every timeline of it fails.
    pub fn lose(&self) -> Error {
        let error = lost(&self.id);
        self.lost.set(true);
        let all = std::mem::take(&mut *self.fences.lock());
        all.iter().filter_map(Weak::upgrade).for_each(|f| f.fail(error.clone()));
        error
    }

    /// The next job with what became of its waits; `None` when the device is gone.
    fn next(&self) -> Option<(Job, Result<()>)> {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return None;
            }
            let is_lost = self.lost.check(&self.id).err();
            if let Some(next) = state.take(&self.behaviour, is_lost.as_ref()) {
                return Some(next);
            }
            let deadlines = state.lines.iter().flat_map(|l| &l.jobs).filter_map(|j| j.submission.deadline);
            match deadlines.min() {
                // A deadline that a defect ignores must not make the worker spin.
                Some(at) if at > Instant::now() => drop(self.changed.wait_until(&mut state, at)),
                _ => drop(self.changed.wait_for(&mut state, Duration::from_millis(20))),
            }
        }
    }

    fn run(&self, job: &Job) -> Result<()> {
        if let Some(fault) = self.faults.strike() {
            return catch(|| (self.behaviour.strike)(self, job, fault));
        }
        self.commands(job)
    }

    /// Runs the commands of a job.
    pub fn commands(&self, job: &Job) -> Result<()> {
        let mut profile = job.profiles.is_some().then(Profile::begin);
        let mut commands = job.submission.commands.iter();
        let result = catch(|| commands.try_for_each(|c| (self.behaviour.command)(self, c, profile.as_mut())));
        if let (Some(mut profile), Some(profiles)) = (profile, &job.profiles) {
            profile.end = Instant::now();
            (self.behaviour.profile)(&mut profile);
            profiles.put(job.id, profile);
        }
        result
    }

    /// Does nothing until the deadline of the job, a release or the end of the device.
    pub fn hang(&self, job: &Job) -> Error {
        let mut state = self.state.lock();
        let releases = state.releases;
        while !state.stop && state.releases == releases {
            if job.submission.deadline.is_some_and(|d| d <= Instant::now()) {
                return Error::failed(Status::Timeout, "the submission hung beyond its deadline (injected)");
            }
            self.pause(&mut state);
        }
        Error::failed(Status::Cancelled, "the submission hung and was given up (injected)")
    }

    /// Lets a moment pass.
    fn pause(&self, state: &mut MutexGuard<'_, State>) {
        let _ = self.changed.wait_for(state, Duration::from_millis(2));
    }
}

impl State {
    fn take(&mut self, b: &Behaviour, is_lost: Option<&Error>) -> Option<(Job, Result<()>)> {
        let n = self.lines.len();
        for i in (0..n).map(|i| ((b.first_line)(self.turn, n) + i) % n) {
            let jobs = &self.lines[i].jobs;
            let at = (b.first_job)(jobs.len());
            let Some(job) = jobs.get(at) else { continue };
            let outcome = match is_lost {
                Some(error) => Err(error.clone()),
                None if (b.expired)(job) => Err(Error::failed(Status::Timeout, "the deadline has passed")),
                None => match (b.ready)(job) {
                    Some(outcome) => outcome,
                    None => continue,
                },
            };
            self.turn = (i + 1) % n;
            let job = self.lines[i].jobs.remove(at)?;
            self.lines.retain(|l| l.open || !l.jobs.is_empty());
            return Some((job, outcome));
        }
        None
    }
}

fn catch(f: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|cause| {
        let words = cause.downcast_ref::<&str>().copied().unwrap_or("no words");
        Err(Error::failed(Status::Panic, format!("the driver panicked: {words}")))
    })
}

/// Whether a job's deadline has passed before it could start.
pub(crate) fn expired(job: &Job) -> bool {
    job.submission.deadline.is_some_and(|d| d <= Instant::now())
}

/// Tells everyone how a job ended.
pub(crate) fn finish(job: &Job, result: &Result<()>) {
    for (fence, value) in &job.submission.signals {
        match result {
            // A timeline that someone else moved or failed keeps what it has.
            Ok(()) => drop(fence.signal(*value)),
            Err(e) => fence.fail(e.clone()),
        }
    }
}

/// Arms a fault.
pub(crate) fn inject(core: &Core, fault: Fault) {
    let now = fault.kind == FaultKind::OutOfMemory && fault.after_calls == 0;
    core.no_memory.store(now, Ordering::SeqCst);
    core.faults.arm(fault);
}

/// What an armed fault does to a job.
pub(crate) fn strike(core: &Core, job: &Job, fault: Fault) -> Result<()> {
    match fault.kind {
        FaultKind::Lost => Err(core.lose()),
        FaultKind::Hang => Err(core.hang(job)),
        FaultKind::OutOfMemory => {
            core.no_memory.store(false, Ordering::SeqCst);
            Err(Error::failed(Status::OutOfDeviceMemory, "no memory for the run (injected)"))
        }
        FaultKind::Panic => panic!("injected panic"),
        FaultKind::Delay => {
            std::thread::sleep(Duration::from_millis(1 + fault.seed % 20));
            core.commands(job)
        }
        // The interpreter has no bits of its own that could flip.
        FaultKind::BitFlip => core.commands(job),
    }
}

/// Brings a lost device back: what waits fails, what was made before is void.
pub(crate) fn reset(core: &Core) {
    let waiting: Vec<Job> = {
        let mut state = core.state.lock();
        state.generation += 1;
        state.releases += 1;
        core.changed.notify_all();
        state.lines.iter_mut().flat_map(|l| l.jobs.drain(..)).collect()
    };
    waiting.iter().for_each(|job| (core.behaviour.finish)(job, &Err(lost(&core.id))));
    core.lost.set(false);
}

/// The worker of a device; it ends when nobody can submit any more.
pub(crate) struct Engine {
    pub core: Arc<Core>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    pub(crate) fn start(core: Arc<Core>) -> Result<Self> {
        let shared = Arc::clone(&core);
        let worker = std::thread::Builder::new().name("faulty".into()).spawn(move || work(&shared));
        let worker = worker.map_err(|e| Error::failed(Status::Internal, format!("no thread: {e}")))?;
        Ok(Self { core, worker: Mutex::new(Some(worker)) })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.core.state.lock().stop = true;
        self.core.changed.notify_all();
        let Some(worker) = self.worker.lock().take() else { return };
        // The last object may go in a callback, which the worker itself makes.
        if worker.thread().id() != std::thread::current().id() {
            let _ = worker.join();
        }
    }
}

fn work(core: &Arc<Core>) {
    while let Some((job, outcome)) = core.next() {
        let result = outcome.and_then(|()| {
            (core.behaviour.started)(&job);
            core.run(&job)
        });
        (core.behaviour.finish)(&job, &result);
    }
    let left: Vec<Job> = core.state.lock().lines.iter_mut().flat_map(|l| l.jobs.drain(..)).collect();
    let gone = Err(Error::failed(Status::Cancelled, "the device was closed"));
    left.iter().for_each(|job| (core.behaviour.finish)(job, &gone));
}
