//! A timeline of a device that runs on its own.
//!
//! A driver tells only the code of a failure. What the host itself said when it failed a timeline is kept here, so that
//! whoever waits reads the cause and not just its number.

use super::device::Shared;
use super::notify::{DONE, Ticket, failure};
use super::timeline::Timeline;
use ottava_abi::types::Fence as RawFence;
use ottava_abi::{ErrorV1, status};
use ottava_hal::{Error, Fence, Notify, Result};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// A timeline; the handle is given back when it is dropped.
pub(crate) struct AbiFence(Arc<Timeline>);

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
        Ok(Self(Timeline::new(shared, raw, initial)))
    }

    /// Somebody is about to be asked to signal `value`.
    pub fn promise(&self, value: u64) {
        self.0.promise(value);
    }

    /// The handle.
    pub fn handle(&self) -> *mut RawFence {
        self.0.raw
    }

    /// Whether it was made with this device.
    pub fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.0.shared, shared)
    }

    /// The cause that the host gave, if the code is its code.
    fn known(&self, code: i32) -> Option<Error> {
        self.0.cause.lock().clone().filter(|e| e.status() as i32 == code)
    }

    /// The better one of the driver's error and the cause that is known here.
    fn better(&self, e: Error) -> Error {
        self.known(e.status() as i32).unwrap_or(e)
    }
}

impl Fence for AbiFence {
    fn query(&self) -> Result<u64> {
        match self.0.read()? {
            (value, status::OK) => self.0.checked(value),
            (_, failed) => Err(self.known(failed).unwrap_or_else(|| failure(failed))),
        }
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let waited = self.0.shared.call("fence_wait", |device, err| {
            // SAFETY: the fence is alive, the error is valid during the call.
            unsafe { (self.0.shared.table().fence_wait)(device, self.0.raw, value, timeout, err) }
        });
        waited.map_err(|e| self.better(e))?;
        self.0.check()
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.0.promise(value);
        let signalled = self.0.shared.call("fence_signal", |device, err| {
            // SAFETY: the fence is alive, the error is valid during the call.
            unsafe { (self.0.shared.table().fence_signal)(device, self.0.raw, value, err) }
        });
        signalled.map_err(|e| self.better(e))
    }

    fn fail(&self, error: Error) {
        let code = error.status() as i32;
        self.0.cause.lock().get_or_insert(error);
        // A device that is lost or poisoned has failed its timelines already.
        let failed = self.0.shared.call("fence_fail", |device, err| {
            // SAFETY: the fence is alive, the error is valid during the call.
            unsafe { (self.0.shared.table().fence_fail)(device, self.0.raw, code, err) }
        });
        failed.unwrap_or_else(|e| tracing::debug!("{e}"));
    }

    fn notify(&self, value: u64, to: Arc<dyn Notify>, token: u64) {
        if let Err(e) = self.0.check() {
            return to.notified(token, Err(e));
        }
        let ticket = Ticket::take(to, token, self.0.shared.timelines.called_back());
        let asked = self.0.shared.call("fence_notify", |device, err: *mut ErrorV1| {
            // SAFETY: the fence is alive; the callback may come at any time and with any pointer.
            unsafe { (self.0.shared.table().fence_notify)(device, self.0.raw, value, DONE, ticket.as_user(), err) }
        });
        if let Err(e) = asked {
            ticket.redeem(Err(e));
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
