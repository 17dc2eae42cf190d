//! The state that a device, its queues and its worker share, and how it changes.

use super::backend::{Backend, Ended};
use super::line::{Job, Lines};
use super::waits::{Timelines, Waits, Wake};
use ottava_hal::fault::{Fault, FaultKind, FaultSwitch, LostFlag, lost};
use ottava_hal::{Error, Fence, Result, Status};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// What a device, its queues and its worker share.
pub struct Core<B: Backend> {
    /// The driver's part.
    pub backend: B,
    board: Arc<Board<B>>,
    lost: LostFlag,
    pub(super) faults: FaultSwitch,
    /// A lack of memory is armed and strikes whatever comes next, a run or an allocation.
    pub(super) no_memory: AtomicBool,
    timelines: Timelines,
}

/// The state and its waiters. Ends and timelines reach this alone: the device's objects are never dropped by a thread
/// that tells of an end, which may be the device's own.
pub(super) struct Board<B: Backend> {
    state: Mutex<State<B>>,
    changed: Condvar,
}

/// What is under the lock.
pub(super) struct State<B: Backend> {
    pub lines: Lines<B>,
    pub stop: bool,
}

impl<B: Backend> Core<B> {
    /// A device without work.
    pub fn new(backend: B) -> Arc<Self> {
        Arc::new(Self {
            backend,
            board: Arc::new(Board {
                state: Mutex::new(State { lines: Lines::default(), stop: false }),
                changed: Condvar::new(),
            }),
            lost: LostFlag::default(),
            faults: FaultSwitch::default(),
            no_memory: AtomicBool::new(false),
            timelines: Timelines::default(),
        })
    }

    /// An error while the device is lost.
    pub fn check(&self) -> Result<()> {
        self.lost.check(self.backend.id())
    }

    /// An injected lack of memory, once; for allocations.
    pub fn check_memory(&self) -> Result<()> {
        if !self.no_memory.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        self.faults.clear();
        Err(Error::failed(Status::OutOfDeviceMemory, "no memory for a buffer (injected)"))
    }

    /// A new timeline, which fails when the device is lost.
    pub fn create_fence(&self, initial: u64) -> Arc<dyn Fence> {
        self.timelines.create(initial)
    }

    /// Arms a fault.
    pub fn inject(&self, fault: Fault) {
        let now = fault.kind == FaultKind::OutOfMemory && fault.after_calls == 0;
        self.no_memory.store(now, Ordering::SeqCst);
        self.faults.arm(fault);
    }

    /// Takes an armed fault away and releases a submission that hangs.
    pub fn clear_faults(&self) {
        self.no_memory.store(false, Ordering::SeqCst);
        self.faults.clear();
        let hung = self.change(|state| state.lines.hung());
        let given_up = Error::failed(Status::Cancelled, "the submission hung and was given up (injected)");
        hung.iter().for_each(|job| job.signals.finish(&Err(given_up.clone())));
    }

    /// Brings a lost device back: what waits or runs fails, what was made before is void.
    pub fn reset(&self) -> Result<()> {
        self.backend.reset()?;
        let signals = self.change(|state| state.lines.give_up());
        let error = lost(self.backend.id());
        signals.iter().for_each(|s| s.finish(&Err(error.clone())));
        self.lost.set(false);
        Ok(())
    }

    /// Marks the device as lost; every timeline of it fails.
    pub(super) fn lose(&self) -> Error {
        let error = lost(self.backend.id());
        self.lost.set(true);
        self.timelines.fail_all(&error);
        error
    }

    /// Changes the state and wakes the worker.
    pub(super) fn change<T>(&self, f: impl FnOnce(&mut State<B>) -> T) -> T {
        self.board.change(f)
    }

    /// What is told of ends and timelines.
    pub(super) fn board(&self) -> &Arc<Board<B>> {
        &self.board
    }

    /// The state, for the worker.
    pub(super) fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.board.state.lock()
    }

    /// Waits for a change, until `until` at most.
    pub(super) fn wait(&self, state: &mut MutexGuard<'_, State<B>>, until: Option<Instant>) {
        match until {
            Some(at) => drop(self.board.changed.wait_until(state, at)),
            None => self.board.changed.wait(state),
        }
    }

    /// Adds a submission to a queue.
    pub(super) fn enqueue(&self, line: u64, job: Job<B>) {
        self.change(|state| {
            if let Some(line) = state.lines.lines.iter_mut().find(|l| l.id == line) {
                line.jobs.push_back(job);
            }
        });
    }

    /// What a submission waits for.
    pub(super) fn waits(&self, waits: &[(Arc<dyn Fence>, u64)]) -> Arc<Waits> {
        let board: Weak<Board<B>> = Arc::downgrade(&self.board);
        Waits::register(board, waits)
    }
}

impl<B: Backend> Board<B> {
    fn change<T>(&self, f: impl FnOnce(&mut State<B>) -> T) -> T {
        let mut state = self.state.lock();
        let result = f(&mut state);
        self.changed.notify_all();
        result
    }
}

impl<B: Backend> Ended for Board<B> {
    /// An end that nobody knows of any more is forgotten.
    fn ended(&self, ticket: u64, result: Result<()>) {
        self.change(|state| {
            if let Some(entry) = state.lines.entry(ticket) {
                entry.ended = Some(result);
            }
        });
    }
}

impl<B: Backend> Wake for Board<B> {
    fn wake(&self) {
        self.change(|_| ());
    }
}
