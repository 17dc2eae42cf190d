//! A timeline of a device that runs on its own.
//!
//! A driver tells only the code of a failure. What the host itself said when it failed a timeline is kept here, so that
//! whoever waits reads the cause and not just its number.

use super::device::Shared;
use super::notify::{DONE, Ticket, failure};
use ottava_abi::types::Fence as RawFence;
use ottava_abi::{ErrorV1, status};
use ottava_hal::{Error, Fence, Notify, Result};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// A timeline; the handle is given back when it is dropped.
pub(crate) struct AbiFence {
    shared: Arc<Shared>,
    raw: *mut RawFence,
    cause: Mutex<Option<Error>>,
}

// SAFETY: the handle is used only with the driver's functions, which are thread-safe by contract.
unsafe impl Send for AbiFence {}
// SAFETY: as above.
unsafe impl Sync for AbiFence {}

impl Drop for AbiFence {
    fn drop(&mut self) {
        // SAFETY: the driver returned the handle, and this is the only place that gives it back.
        unsafe { (self.shared.table().fence_release)(self.shared.raw, self.raw) };
    }
}

impl AbiFence {
    /// A timeline that stands at `initial`.
    pub fn new(shared: &Arc<Shared>, initial: u64) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        shared.call("fence_create", |device, err| {
            // SAFETY: the handle is open; the result is checked before it is used.
            unsafe { (shared.table().fence_create)(device, initial, &mut raw, err) }
        })?;
        if raw.is_null() {
            return Err(shared.broken("fence_create", "OK without a fence"));
        }
        Ok(Self { shared: shared.clone(), raw, cause: Mutex::default() })
    }

    /// The handle.
    pub fn handle(&self) -> *mut RawFence {
        self.raw
    }

    /// Whether it was made with this device.
    pub fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// The cause that the host gave, if the code is its code.
    fn known(&self, code: i32) -> Option<Error> {
        self.cause.lock().clone().filter(|e| e.status() as i32 == code)
    }

    /// The better one of the driver's error and the cause that is known here.
    fn better(&self, e: Error) -> Error {
        self.known(e.status() as i32).unwrap_or(e)
    }
}

impl Fence for AbiFence {
    fn query(&self) -> Result<u64> {
        let (mut value, mut failed) = (0, status::OK);
        self.shared.call("fence_query", |device, _| {
            // SAFETY: the fence is alive, the results are valid during the call.
            unsafe { (self.shared.table().fence_query)(device, self.raw, &mut value, &mut failed) }
        })?;
        if failed == status::OK { Ok(value) } else { Err(self.known(failed).unwrap_or_else(|| failure(failed))) }
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let waited = self.shared.call("fence_wait", |device, err| {
            // SAFETY: the fence is alive, the error is valid during the call.
            unsafe { (self.shared.table().fence_wait)(device, self.raw, value, timeout, err) }
        });
        waited.map_err(|e| self.better(e))
    }

    fn signal(&self, value: u64) -> Result<()> {
        let signalled = self.shared.call("fence_signal", |device, err| {
            // SAFETY: the fence is alive, the error is valid during the call.
            unsafe { (self.shared.table().fence_signal)(device, self.raw, value, err) }
        });
        signalled.map_err(|e| self.better(e))
    }

    fn fail(&self, error: Error) {
        let code = error.status() as i32;
        self.cause.lock().get_or_insert(error);
        // A device that is lost or poisoned has failed its timelines already.
        let failed = self.shared.call("fence_fail", |device, err| {
            // SAFETY: the fence is alive, the error is valid during the call.
            unsafe { (self.shared.table().fence_fail)(device, self.raw, code, err) }
        });
        failed.unwrap_or_else(|e| tracing::debug!("{e}"));
    }

    fn notify(&self, value: u64, to: Arc<dyn Notify>, token: u64) {
        let ticket = Ticket::take(to, token);
        let asked = self.shared.call("fence_notify", |device, err: *mut ErrorV1| {
            // SAFETY: the fence is alive; the callback may come at any time and with any pointer.
            unsafe { (self.shared.table().fence_notify)(device, self.raw, value, DONE, ticket.as_user(), err) }
        });
        if let Err(e) = asked {
            ticket.redeem(Err(e));
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
