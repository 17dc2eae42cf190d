//! What waits, what the device has, and the thread that notices the end.
//!
//! **Protocol.** Every queue is a list of jobs under one lock. [`Core::pump`] hands over the first job of every queue
//! whose waits are reached or on their way, going round the queues; whoever changes something that a job may wait for (a
//! submission, a timeline, the waiter) changes it first and then pumps, so nothing is forgotten. A job that waits holds
//! up its own queue only. Timelines are signalled without the lock: a listener may submit again.
//!
//! **The waiter** sleeps until the device has work or a deadline comes, and waits for the first unfinished submission of
//! each lane while it has. A deadline that is set meanwhile is seen after [`SLICE`] at the latest.
//!
//! **Failures.** A failed wait, a passed deadline or a lost device ends a job without running it. When the device is lost
//! all its timelines fail; what was in flight is kept until the device lets go of it.

use crate::fence::Timelines;
use crate::gpu::Gpu;
use crate::job::{Job, MoveKey};
use crate::line::{Next, State};
use crate::lru::Lru;
use crate::memory::{Memory, Use};
use crate::profile;
use crate::record::Commands;
use crate::transfers::Transfers;
use ash::vk;
use ottava_hal::fault::{Fault, FaultKind, FaultSwitch, LostFlag, lost};
use ottava_hal::{Error, Result, Status};
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest that the waiter waits for the device at a time.
const SLICE: Duration = Duration::from_millis(20);
/// Recorded copies and fills that are kept.
const KEPT_MOVES: usize = 32;

/// What a device, its queues, its timelines and its waiter share between two resets.
pub(crate) struct Core {
    pub gpu: Arc<Gpu>,
    pub transfers: Arc<Transfers>,
    pub lost: LostFlag,
    pub timelines: Timelines,
    pub moves: Mutex<Lru<MoveKey, Arc<Commands>>>,
    /// One per lane, for the ends of fills.
    pub scratch: Vec<Memory>,
    state: Mutex<State>,
    changed: Condvar,
    faults: FaultSwitch,
    /// A lack of memory is armed and strikes whatever comes next, a run or an allocation.
    no_memory: AtomicBool,
}

/// What the waiter does next.
enum Plan {
    Look,
    Wait { semaphores: SmallVec<[vk::Semaphore; 4]>, values: SmallVec<[u64; 4]>, timeout: Duration },
}

impl Core {
    fn new(gpu: Arc<Gpu>) -> Result<Arc<Self>> {
        let scratch = gpu.lanes.iter().map(|_| Memory::new(&gpu, 16, Use::Device)).collect::<Result<_>>()?;
        Ok(Arc::new(Self {
            transfers: Transfers::new(&gpu),
            lost: LostFlag::default(),
            timelines: Timelines::default(),
            moves: Mutex::new(Lru::new(KEPT_MOVES)),
            scratch,
            state: Mutex::new(State::new(gpu.lanes.len())),
            changed: Condvar::new(),
            faults: FaultSwitch::default(),
            no_memory: AtomicBool::new(false),
            gpu,
        }))
    }

    fn id(&self) -> &str {
        &self.gpu.found.id
    }

    /// An error while the device is lost or the validation layers have objected.
    pub(crate) fn check(&self) -> Result<()> {
        self.lost.check(self.id())?;
        self.gpu.check_messages()
    }

    /// Adds a queue; its number and its lane.
    pub(crate) fn open_line(&self) -> (u64, usize) {
        self.state.lock().open_line()
    }

    /// Closes a queue; its jobs still run.
    pub(crate) fn close_line(&self, id: u64) {
        self.state.lock().close_line(id);
    }

    /// Adds a job to a queue; [`Self::pump`] hands it over.
    pub(crate) fn push(&self, line: u64, job: Job) {
        self.state.lock().push(line, job);
    }

    /// Hands over or ends every job for which that is possible now.
    pub(crate) fn pump(&self) {
        loop {
            let mut state = self.state.lock();
            let is_lost = self.lost.check(self.id()).err();
            let Some(next) = state.pick(is_lost.as_ref()) else { break };
            let (job, error, broken) = match next {
                Next::End(job, error) => (job, error, false),
                Next::Run(line, job) => match self.launch(&mut state, line, job) {
                    None => continue,
                    Some((job, error)) => (job, error, true),
                },
            };
            drop(state);
            // A timeline may have failed because another device is lost; what the device itself says is about it.
            let is_lost = broken && error.status() == Status::DeviceLost;
            job.finish(&Err(if is_lost { self.lose() } else { error }));
        }
        self.changed.notify_all();
    }

    /// Hands a job to the device, or gives it back with the reason.
    fn launch(&self, state: &mut State, line: u64, mut job: Job) -> Option<(Job, Error)> {
        if !job.struck {
            job.struck = true;
            if let Some(fault) = self.faults.strike() {
                return self.strike(state, line, job, fault);
            }
        }
        match self.hand_over(state, &job) {
            Ok(serial) => {
                state.fly(line, serial, job);
                None
            }
            Err(e) => Some((job, e)),
        }
    }

    fn hand_over(&self, state: &mut State, job: &Job) -> Result<u64> {
        let lane = job.lane;
        let serial = state.next_serial(lane);
        let commands: SmallVec<[_; 4]> = job.works.iter().map(|w| w.commands.buffer).collect();
        let pending = |(f, value): &&(Arc<crate::fence::VulkanFence>, u64)| f.outlook(*value) == Some(Ok(true));
        let waits: SmallVec<[_; 4]> = job.waits.iter().filter(pending).map(|(f, v)| (f.name(), *v)).collect();
        let mut signals: SmallVec<[_; 4]> = SmallVec::new();
        let mut noted: SmallVec<[_; 4]> = SmallVec::new();
        for (fence, value) in job.signals.iter().filter(|_| job.flip.is_none()) {
            // A semaphore is signalled once per submission.
            let semaphore = fence.name();
            if signals.iter().all(|(s, _)| *s != semaphore)
                && let Some(before) = fence.launch(*value, lane)
            {
                signals.push((semaphore, *value));
                noted.push((fence, before));
            }
        }
        // The last of all: what it says to be over must be over.
        signals.push((self.gpu.lanes[lane].progress, serial));
        self.gpu.submit(lane, &commands, &waits, &signals).inspect_err(|_| {
            noted.iter().for_each(|(fence, before)| fence.take_back(*before));
            state.give_back_serial(lane);
        })?;
        self.gpu.lanes[lane].submitted.store(serial, Ordering::SeqCst);
        Ok(serial)
    }

    /// An injected fault.
    fn strike(&self, state: &mut State, line: u64, mut job: Job, fault: Fault) -> Option<(Job, Error)> {
        match fault.kind {
            FaultKind::Lost => Some((job, lost(self.id()))),
            FaultKind::OutOfMemory => {
                self.no_memory.store(false, Ordering::SeqCst);
                Some((job, Error::failed(Status::OutOfDeviceMemory, "no memory for the run (injected)")))
            }
            FaultKind::Panic => {
                let caught = catch_unwind(AssertUnwindSafe(|| panic!("injected panic")));
                caught.err().map(|_| (job, Error::failed(Status::Panic, "the driver panicked: injected panic")))
            }
            FaultKind::Hang => {
                state.hung = Some(job);
                None
            }
            FaultKind::Delay => {
                job.not_before = Some(Instant::now() + Duration::from_millis(1 + fault.seed % 20));
                state.push_front(line, job);
                None
            }
            FaultKind::BitFlip => {
                job.flip = Some(fault.seed);
                self.launch(state, line, job)
            }
        }
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
        self.pump();
    }

    fn release(&self) {
        let hung = self.state.lock().hung.take();
        if let Some(job) = hung {
            job.finish(&Err(Error::failed(Status::Cancelled, "the submission hung and was given up (injected)")));
        }
    }

    /// An injected lack of memory, once.
    pub(crate) fn check_memory(&self) -> Result<()> {
        if !self.no_memory.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        self.faults.clear();
        Err(Error::failed(Status::OutOfDeviceMemory, "no memory for a buffer (injected)"))
    }

    /// Marks the device as lost: every timeline fails, and what waits ends.
    pub(crate) fn lose(&self) -> Error {
        let error = lost(self.id());
        self.lost.set(true);
        let waiting = self.state.lock().abandon();
        self.timelines.fail_all(&error);
        waiting.iter().for_each(|job| job.finish(&Err(error.clone())));
        error
    }

    /// Waits for something to do; `None` when the device is gone and has nothing left.
    fn plan(&self) -> Option<Plan> {
        let mut state = self.state.lock();
        loop {
            if let Some((lanes, timeout)) = state.flying(SLICE) {
                let semaphores = lanes.iter().map(|(lane, _)| self.gpu.lanes[*lane].progress).collect();
                return Some(Plan::Wait { semaphores, values: lanes.iter().map(|(_, s)| *s).collect(), timeout });
            }
            if state.stop {
                return None;
            }
            match state.next_time() {
                None => self.changed.wait(&mut state),
                Some(at) if at <= Instant::now() => return Some(Plan::Look),
                Some(at) => {
                    self.changed.wait_until(&mut state, at);
                }
            }
        }
    }

    /// Waits for the device. What a device that is really lost has had is let go of.
    fn wait(&self, semaphores: &[vk::Semaphore], values: &[u64], timeout: Duration) {
        if let Err(e) = self.gpu.wait(semaphores, values, timeout) {
            tracing::error!("device `{}`: {e}", self.id());
            self.lose();
            let flights = self.state.lock().let_go();
            drop(flights);
        }
    }

    /// Ends the jobs that the device has finished.
    fn collect(&self) {
        for (lane, place) in self.gpu.lanes.iter().enumerate() {
            let Some(done) = self.gpu.progress(place) else { continue };
            loop {
                let landed = self.state.lock().land(lane, done);
                let Some(job) = landed else { break };
                let result = catch_unwind(AssertUnwindSafe(|| self.complete(&job)));
                let panicked = || Err(Error::failed(Status::Panic, "the driver panicked at the end of a run"));
                job.finish(&result.unwrap_or_else(|_| panicked()));
            }
        }
    }

    fn complete(&self, job: &Job) -> Result<()> {
        if let Some(seed) = job.flip {
            job.flip_bit(seed)?;
        }
        if let Some(profiles) = &job.profile {
            profiles.put(job.id, profile::read(&self.gpu, job)?);
        }
        self.check()
    }

    fn stop(&self) {
        let waiting = {
            let mut state = self.state.lock();
            state.stop = true;
            state.drain()
        };
        let gone = Error::failed(Status::Cancelled, "the device was closed before the run could start");
        waiting.iter().for_each(|job| job.finish(&Err(gone.clone())));
        self.changed.notify_all();
    }
}

/// The waiter; it ends with the device and its last queue.
pub(crate) struct Engine {
    pub core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts the waiter.
    pub(crate) fn start(gpu: Arc<Gpu>) -> Result<Self> {
        let core = Core::new(gpu)?;
        let shared = Arc::clone(&core);
        let thread = std::thread::Builder::new().name("ottava-vulkan".into()).spawn(move || work(&shared));
        let thread = thread.map_err(|e| Error::failed(Status::Internal, format!("cannot start a thread: {e}")))?;
        Ok(Self { core, thread: Some(thread) })
    }
}

fn work(core: &Core) {
    while let Some(plan) = core.plan() {
        if let Plan::Wait { semaphores, values, timeout } = plan {
            core.wait(&semaphores, &values, timeout);
            core.collect();
        }
        core.pump();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.core.stop();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of the waiter has been turned into an error already.
            let _ = thread.join();
        }
    }
}
