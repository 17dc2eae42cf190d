//! Whether a device is well, lost or poisoned.
//!
//! A device is lost when a call returns DEVICE_LOST: its buffers and executables are invalid from then on, its timelines
//! fail, and `reset` may bring it back with a new generation of objects. It is poisoned when a call returns PANIC: the
//! driver's state cannot be trusted any more, nothing but releasing and closing reaches it. Both are remembered here, so a
//! driver that forgets is not asked again.

use ottava_abi::status;
use ottava_hal::host::HostFence;
use ottava_hal::{Error, Fence, Result, Status};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// The health of one device.
#[derive(Default)]
pub(crate) struct Health {
    ill: AtomicBool,
    generation: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failure: Option<Error>,
    poisoned: bool,
    was_reset: bool,
    fences: Vec<Weak<HostFence>>,
}

impl Health {
    /// The failure of a lost or poisoned device.
    pub fn check(&self) -> Result<()> {
        if !self.ill.load(Ordering::Acquire) {
            return Ok(());
        }
        self.state.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// Objects of an earlier generation are invalid.
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// An error if an object was made before the device was lost.
    pub fn check_object(&self, generation: u32, what: &str) -> Result<()> {
        if generation == self.generation() {
            return Ok(());
        }
        Err(Error::invalid(format!("the {what} was made before the device was lost; make it again")))
    }

    /// Remembers what a status code says about the device.
    pub fn observe(&self, code: i32, device: &str, error: &Error) {
        let (status, help) = match code {
            status::DEVICE_LOST => (Status::DeviceLost, "it is lost; reset it or open it again"),
            status::PANIC => (Status::Panic, "its driver panicked and is not called any more; close the device"),
            _ => return,
        };
        let failure = Error::failed(status, format!("device `{device}`: {help} (first failure: {error})"));
        let mut state = self.state.lock();
        let poisoned = code == status::PANIC;
        if state.failure.is_none() || (poisoned && !state.poisoned) {
            state.failure = Some(failure.clone());
            state.poisoned = poisoned;
        }
        self.ill.store(true, Ordering::Release);
        let fences = std::mem::take(&mut state.fences);
        drop(state);
        fences.iter().filter_map(Weak::upgrade).for_each(|fence| fence.fail(failure.clone()));
    }

    /// A timeline in host memory, which fails when the device does.
    pub fn emulated_fence(&self, initial: u64) -> Result<Arc<HostFence>> {
        let fence = Arc::new(HostFence::new(initial));
        let mut state = self.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        if state.fences.len() == state.fences.capacity() {
            state.fences.retain(|f| f.strong_count() > 0);
        }
        state.fences.push(Arc::downgrade(&fence));
        Ok(fence)
    }

    /// Whether a reset may be tried: once for each loss, never after a panic.
    pub fn begin_reset(&self) -> Result<()> {
        let mut state = self.state.lock();
        match &state.failure {
            Some(failure) if state.poisoned || state.was_reset => Err(failure.clone()),
            failure => {
                state.was_reset = failure.is_some();
                Ok(())
            }
        }
    }

    /// The device is back. What was made before is invalid.
    pub fn revived(&self) {
        let mut state = self.state.lock();
        (state.failure, state.was_reset) = (None, false);
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.ill.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lose(health: &Health) {
        health.observe(status::DEVICE_LOST, "npu0", &Error::invalid("cable"));
    }

    #[test]
    fn a_lost_device_fails_its_fences_and_comes_back_once() {
        let health = Health::default();
        let fence = health.emulated_fence(0).unwrap();
        lose(&health);
        assert_eq!(fence.query().unwrap_err().status(), Status::DeviceLost);
        assert!(health.check().unwrap_err().to_string().contains("cable"));
        assert!(health.emulated_fence(0).is_err());
        health.begin_reset().unwrap();
        assert!(health.begin_reset().is_err());
        health.revived();
        assert_eq!(health.check(), Ok(()));
        assert!(health.check_object(0, "buffer").is_err() && health.check_object(1, "buffer").is_ok());
        lose(&health);
        assert!(health.begin_reset().is_ok());
    }

    #[test]
    fn a_reset_of_a_device_that_is_well_does_not_count() {
        let health = Health::default();
        health.begin_reset().unwrap();
        lose(&health);
        assert!(health.begin_reset().is_ok() && health.begin_reset().is_err());
    }

    #[test]
    fn a_panic_is_for_good() {
        let health = Health::default();
        lose(&health);
        health.observe(status::PANIC, "npu0", &Error::invalid("oops"));
        health.observe(status::DEVICE_LOST, "npu0", &Error::invalid("later"));
        let e = health.check().unwrap_err();
        assert_eq!(e.status(), Status::Panic);
        assert!(e.to_string().contains("oops") && health.begin_reset().is_err());
    }

    #[test]
    fn other_codes_change_nothing() {
        let health = Health::default();
        health.observe(status::BUSY, "npu0", &Error::invalid("busy"));
        assert_eq!(health.check(), Ok(()));
    }
}
