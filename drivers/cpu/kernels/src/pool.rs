//! A small persistent thread pool for parallel regions of known size.
//!
//! Protocol. A region is a closure and a task count. The caller publishes it under the mutex (`epoch + 1`), wakes the workers, and
//! takes part itself. Tasks are claimed from one atomic counter, so each index runs exactly once, on whichever thread is free. Each
//! worker that entered the region leaves it by decrementing `inside`; the caller withdraws the region under the same mutex and then waits
//! until `inside` is zero. Only then does it return, so the borrowed closure outlives every use of it.
//!
//! Ordering. Entering and withdrawing happen under the mutex: a worker either enters before the withdrawal (and is counted) or sees no
//! region. `inside` is decremented with `Release` and awaited with `Acquire`, so everything a task wrote is visible to the caller.
//!
//! A region started from inside a task, or while another thread's region is running, is run inline by its caller: no waiting, no deadlock.
//! Workers spin for a bounded number of rounds before they park, and never keep the caller waiting: what they do not take it does itself.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::{KernelError, Result};

/// Rounds of `spin_loop` that an idle worker makes before it parks.
const SPIN_ROUNDS: u32 = 2_000;
/// More threads than this are refused; no machine that runs inference has them.
const MAX_THREADS: usize = 1024;
/// Below this many multiply-adds (or four times as many bytes moved) a task is usually not worth waking a thread.
pub const GRAIN: usize = 1 << 18;

/// The part of a region that threads share; lives on the caller's stack.
struct Region<'a> {
    task: &'a (dyn Fn(usize) + Sync),
    n_tasks: usize,
    next: AtomicUsize,
    inside: AtomicUsize,
    panic: Mutex<Option<String>>,
}

/// Address of the current region, as published to the workers.
#[derive(Clone, Copy)]
struct RegionPtr(*const Region<'static>);

// SAFETY: the pointer is dereferenced only between entering and leaving a region (see the protocol), while the region is alive; `Region`
// itself is `Sync`.
unsafe impl Send for RegionPtr {}

struct State {
    region: Option<RegionPtr>,
    /// Workers that wait on the condition variable; nobody is woken, at the price of a system call, while there are none.
    n_parked: usize,
    stop: bool,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    epoch: AtomicU64,
    busy: AtomicBool,
}

/// Threads that wait for parallel regions. Dropping it stops and joins them.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    grain: usize,
}

impl ThreadPool {
    /// A pool of `threads` threads, the caller's included: `new(1)` (or 0) starts none.
    pub fn new(threads: usize) -> Result<Self> {
        Self::with_grain(threads, GRAIN)
    }

    /// As [`ThreadPool::new`], with the multiply-adds of the smallest task. Results do not depend on it.
    pub fn with_grain(threads: usize, grain: usize) -> Result<Self> {
        let n_workers = threads.clamp(1, MAX_THREADS) - 1;
        let shared = Arc::new(Shared {
            state: Mutex::new(State { region: None, n_parked: 0, stop: false }),
            wake: Condvar::new(),
            epoch: AtomicU64::new(0),
            busy: AtomicBool::new(false),
        });
        let mut pool = Self { shared, workers: Vec::with_capacity(n_workers), grain: grain.max(1) };
        for index in 0..n_workers {
            let shared = Arc::clone(&pool.shared);
            let builder = std::thread::Builder::new().name(format!("ottava-cpu-{index}"));
            let worker = builder.spawn(move || work(&shared));
            pool.workers.push(worker.map_err(|e| KernelError::Thread { index, reason: e.to_string() })?);
        }
        Ok(pool)
    }

    /// Multiply-adds of the smallest task.
    pub fn grain(&self) -> usize {
        self.grain
    }

    /// Threads that take part in a region, the caller's included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `task(0)`, ..., `task(n_tasks - 1)`, each once, and returns when all are done.
    ///
    /// # Errors
    /// [`KernelError::TaskPanicked`] when a task panicked; the others still ran.
    pub fn parallel_for(&self, n_tasks: usize, task: &(dyn Fn(usize) + Sync)) -> Result<()> {
        let region =
            Region { task, n_tasks, next: AtomicUsize::new(0), inside: AtomicUsize::new(0), panic: Mutex::new(None) };
        let shareable = n_tasks > 1 && !self.workers.is_empty();
        if shareable && !self.shared.busy.swap(true, Ordering::Acquire) {
            self.publish(&region);
            region.run();
            self.withdraw(&region);
            self.shared.busy.store(false, Ordering::Release);
        } else {
            region.run();
        }
        let panic = lock(&region.panic).take();
        panic.map_or(Ok(()), |message| Err(KernelError::TaskPanicked { message }))
    }

    fn publish(&self, region: &Region<'_>) {
        let address = core::ptr::from_ref(region).cast::<Region<'static>>();
        let mut state = lock(&self.shared.state);
        state.region = Some(RegionPtr(address));
        self.shared.epoch.fetch_add(1, Ordering::Release);
        let is_anyone_parked = state.n_parked > 0;
        drop(state);
        if is_anyone_parked {
            self.shared.wake.notify_all();
        }
    }

    /// After this no worker can enter the region, and all that had entered have left.
    fn withdraw(&self, region: &Region<'_>) {
        lock(&self.shared.state).region = None;
        let mut rounds = 0u32;
        while region.inside.load(Ordering::Acquire) != 0 {
            rounds = rounds.saturating_add(1);
            if rounds < SPIN_ROUNDS { core::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        lock(&self.shared.state).stop = true;
        self.shared.epoch.fetch_add(1, Ordering::Release);
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker cannot panic outside a task, and panics of tasks are caught; there is nothing to report here.
            let _ = worker.join();
        }
    }
}

impl Region<'_> {
    /// Claims and runs tasks until none is left. Panics are recorded, never propagated.
    fn run(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.n_tasks {
                return;
            }
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.task)(index))) {
                lock(&self.panic).get_or_insert(text_of(payload.as_ref()));
            }
        }
    }
}

/// Life of a worker: wait for an epoch, help with its region, repeat.
fn work(shared: &Shared) {
    let mut seen = 0u64;
    while let Some(region) = next_region(shared, &mut seen) {
        // SAFETY: `next_region` counted this thread into `inside` under the mutex while the region was published; the caller keeps the
        // region alive until `inside` is zero again.
        let region = unsafe { &*region.0 };
        region.run();
        region.inside.fetch_sub(1, Ordering::Release);
    }
}

/// Waits for a region newer than `seen` and enters it; `None` when the pool stops.
fn next_region(shared: &Shared, seen: &mut u64) -> Option<RegionPtr> {
    for _ in 0..SPIN_ROUNDS {
        if shared.epoch.load(Ordering::Acquire) != *seen {
            break;
        }
        core::hint::spin_loop();
    }
    let mut state = lock(&shared.state);
    loop {
        if state.stop {
            return None;
        }
        let epoch = shared.epoch.load(Ordering::Acquire);
        if epoch != *seen {
            *seen = epoch;
            if let Some(region) = state.region {
                // SAFETY: the region is published, so its owner is still in `parallel_for`, and withdrawing needs the mutex held here.
                unsafe { &*region.0 }.inside.fetch_add(1, Ordering::Relaxed);
                return Some(region);
            }
        }
        state.n_parked += 1;
        state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.n_parked -= 1;
    }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Nothing that can panic runs under these locks, so a poisoned lock still guards whole data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn counts(pool: &ThreadPool, n: usize) -> Vec<u32> {
        let hits: Vec<AtomicU32> = (0..n).map(|_| AtomicU32::new(0)).collect();
        pool.parallel_for(n, &|i| {
            hits[i].fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        hits.into_iter().map(AtomicU32::into_inner).collect()
    }

    #[test]
    fn each_task_runs_exactly_once() {
        for threads in [0, 1, 2, 3, 8] {
            let pool = ThreadPool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads.max(1));
            for n in [0, 1, 2, 7, 1000] {
                assert_eq!(counts(&pool, n), vec![1; n], "{threads} threads, {n} tasks");
            }
        }
    }

    #[test]
    fn many_short_regions_do_not_lose_a_wake_up() {
        let pool = ThreadPool::new(4).unwrap();
        let sum = AtomicUsize::new(0);
        for _ in 0..5_000 {
            pool.parallel_for(3, &|i| {
                sum.fetch_add(i, Ordering::Relaxed);
            })
            .unwrap();
        }
        assert_eq!(sum.into_inner(), 15_000);
    }

    #[test]
    fn a_nested_region_runs_inline() {
        let pool = ThreadPool::new(3).unwrap();
        let sum = AtomicUsize::new(0);
        pool.parallel_for(8, &|_| {
            pool.parallel_for(8, &|j| {
                sum.fetch_add(j, Ordering::Relaxed);
            })
            .unwrap();
        })
        .unwrap();
        assert_eq!(sum.into_inner(), 8 * 28);
    }

    #[test]
    fn two_callers_share_a_pool() {
        let pool = ThreadPool::new(3).unwrap();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..200).for_each(|_| assert_eq!(counts(&pool, 9), vec![1; 9])));
            }
        });
    }

    #[test]
    fn a_panic_is_an_error_and_the_pool_lives_on() {
        let pool = ThreadPool::new(3).unwrap();
        let ran = AtomicUsize::new(0);
        let result = pool.parallel_for(10, &|i| {
            ran.fetch_add(1, Ordering::Relaxed);
            assert!(i != 4, "task four");
        });
        assert_eq!(result, Err(KernelError::TaskPanicked { message: "task four".to_owned() }));
        assert_eq!(ran.into_inner(), 10);
        assert_eq!(counts(&pool, 5), vec![1; 5]);
    }
}
