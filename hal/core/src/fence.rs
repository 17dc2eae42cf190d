//! Timelines.

use crate::Result;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// Someone who wants to know when a timeline reaches a value.
pub trait Notify: Send + Sync {
    /// Called once per [`Fence::notify`], from any thread, with the caller's `token`: the value is reached, or the
    /// timeline has failed. It returns soon and does not call the device that the fence belongs to.
    fn notified(&self, token: u64, result: Result<()>);
}

/// A point on a `u64` timeline: "this timeline has reached or passed `n`".
///
/// Values only grow. A failed timeline stays failed: every wait on it returns the failure, so an error travels along
/// the fences to whoever depends on the work. All methods may be called from any thread.
///
/// The fences of a device that works in the caller's thread ([`crate::DeviceInfo::sync_only`]) are plain host timelines.
pub trait Fence: Send + Sync {
    /// The value reached, or the failure.
    fn query(&self) -> Result<u64>;

    /// Blocks until the timeline reaches `value`, fails, or `timeout` passes (an error with status `Timeout`).
    fn wait(&self, value: u64, timeout: Duration) -> Result<()>;

    /// Advances the timeline. A value that is not larger than the current one is an error.
    fn signal(&self, value: u64) -> Result<()>;

    /// Fails the timeline; the first failure wins.
    fn fail(&self, error: crate::Error);

    /// Asks to be told, once, when the timeline reaches `value` or fails; at once, in the caller's thread, if it has.
    fn notify(&self, value: u64, to: Arc<dyn Notify>, token: u64);

    /// For the device that made it.
    fn as_any(&self) -> &dyn Any;
}
