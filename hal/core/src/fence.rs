//! Timelines.

use crate::Result;
use std::any::Any;
use std::time::Duration;

/// A point on a `u64` timeline: "this timeline has reached or passed `n`".
///
/// Values only grow. A failed timeline stays failed: every wait on it returns the failure, so an error travels along
/// the fences to whoever depends on the work. All methods may be called from any thread.
pub trait Fence: Send + Sync {
    /// The value reached, or the failure.
    fn query(&self) -> Result<u64>;

    /// Blocks until the timeline reaches `value`, fails, or `timeout` passes (an error with status `Timeout`).
    fn wait(&self, value: u64, timeout: Duration) -> Result<()>;

    /// Advances the timeline. A value that is not larger than the current one is an error.
    fn signal(&self, value: u64) -> Result<()>;

    /// Fails the timeline; the first failure wins.
    fn fail(&self, error: crate::Error);

    /// For the device that made it.
    fn as_any(&self) -> &dyn Any;
}
