//! Timelines of the device: a host timeline, which knows about failures and tells who listens, beside a semaphore, on
//! which work of the device waits without the host.
//!
//! Work is handed to the device only when all that it waits for is reached or *launched*: on its way by work that the
//! device has already. So nothing that the device has can wait for something that may never come.

use crate::engine::Core;
use crate::gpu::Gpu;
use ash::vk;
use ottava_hal::host::HostFence;
use ottava_hal::{Error, Fence, Notify, Result};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A timeline of a device.
pub(crate) struct VulkanFence {
    host: HostFence,
    semaphore: vk::Semaphore,
    /// The highest value that is on its way or reached by the semaphore, and the lane that brings it.
    launched: Mutex<(u64, usize)>,
    gpu: Arc<Gpu>,
    core: Weak<Core>,
    /// A submission has named the semaphore.
    named: AtomicBool,
    /// Itself: a submission is given timelines as what the contract calls them.
    this: Weak<Self>,
}

impl VulkanFence {
    /// A timeline that stands at `initial`.
    pub(crate) fn new(core: &Arc<Core>, initial: u64) -> Result<Arc<Self>> {
        let (gpu, semaphore) = (Arc::clone(&core.gpu), core.gpu.timeline(initial)?);
        let (host, launched, core) = (HostFence::new(initial), Mutex::new((initial, 0)), Arc::downgrade(core));
        Ok(Arc::new_cyclic(|this| Self {
            host,
            semaphore,
            launched,
            gpu,
            core,
            named: false.into(),
            this: Weak::clone(this),
        }))
    }

    /// The shared timeline of a borrowed one.
    pub(crate) fn myself(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    /// Whether it belongs to a device, between two resets.
    pub(crate) fn is_of(&self, gpu: &Arc<Gpu>) -> bool {
        Arc::ptr_eq(&self.gpu, gpu)
    }

    /// The semaphore, for a submission. Submissions hold the timelines that they name.
    pub(crate) fn name(&self) -> vk::Semaphore {
        self.named.store(true, Ordering::SeqCst);
        self.semaphore
    }

    /// `None`: the value may never come. Else whether the device must wait for it, or the failure.
    pub(crate) fn outlook(&self, value: u64) -> Option<Result<bool>> {
        match self.host.query() {
            Err(e) => Some(Err(e)),
            Ok(now) if now >= value => Some(Ok(false)),
            Ok(_) => (self.launched.lock().0 >= value).then_some(Ok(true)),
        }
    }

    /// Notes that work of a lane will bring a value, and gives what was noted before; `None` if the semaphore may not be
    /// signalled by it: its value must grow in the order in which the device gets there, which only one lane at a time
    /// can promise.
    pub(crate) fn launch(&self, value: u64, lane: usize) -> Option<(u64, usize)> {
        let mut launched = self.launched.lock();
        let now = self.host.query().ok()?;
        let pending = launched.0 > now;
        if value <= launched.0.max(now) || pending && launched.1 != lane {
            return None;
        }
        Some(std::mem::replace(&mut *launched, (value, lane)))
    }

    /// The work that would have brought a value was not taken by the device.
    pub(crate) fn take_back(&self, before: (u64, usize)) {
        *self.launched.lock() = before;
    }

    /// The work that brings a value is done. A timeline that someone else moved or failed keeps what it has.
    pub(crate) fn reach(&self, value: u64) {
        drop(self.host.signal(value));
    }

    /// Fails the timeline without looking at what waits for it.
    pub(crate) fn break_off(&self, error: Error) {
        self.host.fail(error);
    }

    fn changed(&self) {
        if let Some(core) = self.core.upgrade() {
            core.pump();
        }
    }
}

impl Fence for VulkanFence {
    fn query(&self) -> Result<u64> {
        self.host.query()
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        self.host.wait(value, timeout)
    }

    fn signal(&self, value: u64) -> Result<()> {
        {
            let mut launched = self.launched.lock();
            let now = self.host.query()?;
            if value > now && launched.0 <= now {
                let info = vk::SemaphoreSignalInfo::default().semaphore(self.semaphore).value(value);
                // SAFETY: the semaphore lives, stands below the value, and no work that would signal it is in flight.
                let signalled = unsafe { self.gpu.raw.signal_semaphore(&info) };
                signalled.map_err(|e| self.gpu.error("a signal", e))?;
                launched.0 = value;
            }
        }
        self.host.signal(value)?;
        self.changed();
        Ok(())
    }

    fn fail(&self, error: Error) {
        self.host.fail(error);
        self.changed();
    }

    fn notify(&self, value: u64, to: Arc<dyn Notify>, token: u64) {
        self.host.notify(value, to, token);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for VulkanFence {
    fn drop(&mut self) {
        if *self.named.get_mut() {
            self.gpu.retire(self.semaphore);
        } else {
            // SAFETY: nobody but this object has known it.
            unsafe { self.gpu.raw.destroy_semaphore(self.semaphore, None) };
        }
    }
}

/// The living timelines of a device.
#[derive(Default)]
pub(crate) struct Timelines(Mutex<Vec<Weak<VulkanFence>>>);

impl Timelines {
    /// A new timeline.
    pub(crate) fn create(&self, core: &Arc<Core>, initial: u64) -> Result<Arc<VulkanFence>> {
        let fence = VulkanFence::new(core, initial)?;
        let mut all = self.0.lock();
        all.retain(|f| f.strong_count() > 0);
        all.push(Arc::downgrade(&fence));
        Ok(fence)
    }

    /// Fails every living timeline.
    pub(crate) fn fail_all(&self, error: &Error) {
        let all = std::mem::take(&mut *self.0.lock());
        all.iter().filter_map(Weak::upgrade).for_each(|f| f.break_off(error.clone()));
    }
}
