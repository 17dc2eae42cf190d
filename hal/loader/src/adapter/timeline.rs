//! What is remembered of a timeline of a device that runs on its own, and the check that it says no more than was asked for.
//!
//! The host knows the largest value that anybody was asked to signal. A driver whose timeline stands beyond it would make
//! unfinished work look finished, so the device counts as lost from then on. The check runs wherever the host learns where
//! a timeline stands: queries, waits, before somebody asks to be told, and, because a driver must not be called from inside
//! its own callback, before the next reading of a buffer that follows a callback.

use super::device::Shared;
use ottava_abi::status;
use ottava_abi::types::Fence as RawFence;
use ottava_hal::{Error, Result};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A timeline; the handle is given back when it is dropped.
pub(crate) struct Timeline {
    /// The device.
    pub shared: Arc<Shared>,
    /// The handle.
    pub raw: *mut RawFence,
    /// What the host said when it failed the timeline.
    pub cause: Mutex<Option<Error>>,
    /// The largest value that anybody was asked to signal.
    promised: AtomicU64,
}

// SAFETY: the handle is used only with the driver's functions, which are thread-safe by contract.
unsafe impl Send for Timeline {}
// SAFETY: as above.
unsafe impl Sync for Timeline {}

impl Drop for Timeline {
    fn drop(&mut self) {
        // SAFETY: the driver returned the handle, and this is the only place that gives it back.
        unsafe { (self.shared.table().fence_release)(self.shared.raw, self.raw) };
    }
}

impl Timeline {
    /// Takes over a handle.
    pub fn new(shared: &Arc<Shared>, raw: *mut RawFence, initial: u64) -> Arc<Self> {
        let promised = AtomicU64::new(initial);
        let own = Arc::new(Self { shared: shared.clone(), raw, cause: Mutex::default(), promised });
        shared.timelines.add(&own);
        own
    }

    /// Somebody is about to be asked to signal `value`.
    pub fn promise(&self, value: u64) {
        self.promised.fetch_max(value, Ordering::AcqRel);
    }

    /// Value and failure code, as the driver says.
    pub fn read(&self) -> Result<(u64, i32)> {
        let (mut value, mut failed) = (0, status::OK);
        self.shared.call("fence_query", |device, _| {
            // SAFETY: the fence is alive, the results are valid during the call.
            unsafe { (self.shared.table().fence_query)(device, self.raw, &mut value, &mut failed) }
        })?;
        Ok((value, failed))
    }

    /// The value, if it may stand there; the device is lost otherwise.
    pub fn checked(&self, value: u64) -> Result<u64> {
        let promised = self.promised.load(Ordering::Acquire);
        if value <= promised {
            return Ok(value);
        }
        let what = format!("a timeline stands at {value}, {promised} is the largest value that was asked for");
        let error = self.shared.broken("fence_query", what);
        tracing::error!("{error}");
        self.shared.health.observe(status::DEVICE_LOST, &self.shared.info.id, &error);
        Err(error)
    }

    /// An error if it stands where it cannot. A failure is no news here.
    pub fn check(&self) -> Result<()> {
        match self.read()? {
            (value, status::OK) => self.checked(value).map(drop),
            _ => Ok(()),
        }
    }
}

/// The timelines of a device, and whether a driver has called back since they were checked.
#[derive(Default)]
pub(crate) struct Timelines {
    all: Mutex<Vec<Weak<Timeline>>>,
    called_back: Arc<AtomicBool>,
}

impl Timelines {
    fn add(&self, timeline: &Arc<Timeline>) {
        let mut all = self.all.lock();
        if all.len() == all.capacity() {
            all.retain(|t| t.strong_count() > 0);
        }
        all.push(Arc::downgrade(timeline));
    }

    /// Set by whoever hears from the driver.
    pub fn called_back(&self) -> Arc<AtomicBool> {
        self.called_back.clone()
    }

    /// Checks every timeline, if the driver has called back since the last time. Whoever comes meanwhile waits for the
    /// result; `fence_query` does not call back.
    pub fn check(&self) -> Result<()> {
        let all = self.all.lock();
        if self.called_back.swap(false, Ordering::AcqRel) {
            all.iter().filter_map(Weak::upgrade).try_for_each(|t| t.check())?;
        }
        Ok(())
    }
}
