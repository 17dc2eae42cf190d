//! Timelines of the device: host timelines, of which the device knows the living ones, so that all of them fail when it
//! is lost; and what a submission waits for.

use ottava_hal::host::HostFence;
use ottava_hal::{Error, Fence, Notify, Result};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// The living timelines of a device.
#[derive(Default)]
pub(super) struct Timelines(Mutex<Vec<Weak<HostFence>>>);

impl Timelines {
    /// A new timeline.
    pub(super) fn create(&self, initial: u64) -> Arc<HostFence> {
        let fence = Arc::new(HostFence::new(initial));
        let mut all = self.0.lock();
        all.retain(|f| f.strong_count() > 0);
        all.push(Arc::downgrade(&fence));
        fence
    }

    /// Fails every living timeline.
    pub(super) fn fail_all(&self, error: &Error) {
        let all = std::mem::take(&mut *self.0.lock());
        all.iter().filter_map(Weak::upgrade).for_each(|f| f.fail(error.clone()));
    }
}

/// Who looks again when a wait is over.
pub(super) trait Wake: Send + Sync {
    fn wake(&self);
}

/// What a submission still waits for. Each wait is told once, from any thread.
pub(super) struct Waits {
    state: Mutex<(usize, Option<Error>)>,
    worker: Weak<dyn Wake>,
}

impl Waits {
    /// Asks every timeline to tell when its value is reached. No lock may be held: a timeline may answer at once.
    pub(super) fn register(worker: Weak<dyn Wake>, waits: &[(Arc<dyn Fence>, u64)]) -> Arc<Self> {
        let this = Arc::new(Self { state: Mutex::new((waits.len(), None)), worker });
        for (i, (fence, value)) in waits.iter().enumerate() {
            fence.notify(*value, Arc::clone(&this) as Arc<dyn Notify>, i as u64);
        }
        this
    }

    /// `None` while something is awaited; else whether all came.
    pub(super) fn outcome(&self) -> Option<Result<()>> {
        match &*self.state.lock() {
            (_, Some(error)) => Some(Err(error.clone())),
            (0, None) => Some(Ok(())),
            _ => None,
        }
    }
}

impl Notify for Waits {
    fn notified(&self, _token: u64, result: Result<()>) {
        {
            let mut state = self.state.lock();
            state.0 = state.0.saturating_sub(1);
            state.1 = state.1.take().or(result.err());
        }
        if let Some(worker) = self.worker.upgrade() {
            worker.wake();
        }
    }
}
