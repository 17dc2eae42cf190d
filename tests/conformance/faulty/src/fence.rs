//! Timelines of the device: host timelines whose every method is a decision.

use crate::Behaviour;
use ottava_hal::host::HostFence;
use ottava_hal::{Error, Fence, Notify, Result};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// A timeline.
pub struct FaultyFence {
    behaviour: Behaviour,
    /// The right timeline.
    pub inner: HostFence,
    /// What a defect remembers: how often it was called, and the last failure.
    pub memory: Mutex<(u64, Option<Error>)>,
}

impl FaultyFence {
    /// A timeline that stands at `initial`.
    pub(crate) fn new(behaviour: Behaviour, initial: u64) -> Self {
        Self { behaviour, inner: HostFence::new(initial), memory: Mutex::default() }
    }

    /// Counts calls; how many there were before this one.
    pub fn count(&self) -> u64 {
        let mut memory = self.memory.lock();
        memory.0 += 1;
        memory.0 - 1
    }
}

impl Fence for FaultyFence {
    fn query(&self) -> Result<u64> {
        (self.behaviour.query)(self)
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        (self.behaviour.wait)(self, value, timeout)
    }

    fn signal(&self, value: u64) -> Result<()> {
        (self.behaviour.signal)(self, value)
    }

    fn fail(&self, error: Error) {
        (self.behaviour.fail)(self, error);
    }

    fn notify(&self, value: u64, to: Arc<dyn Notify>, token: u64) {
        (self.behaviour.notify)(self, value, to, token);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
