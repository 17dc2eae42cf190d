//! What a runner is given: devices, and choices for all runs and for one.

use ottava_hal::{CompileOptions, Device, DriverInfo, Options, Result};
use std::sync::Arc;
use std::time::Instant;

/// An open device, and what is known about how it was opened.
#[derive(Clone)]
pub struct DeviceEntry {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Its driver. Programs compiled ahead are only used where it is known: the device itself does not say its version.
    pub driver: Option<DriverInfo>,
    /// The options that it was opened with; programs compiled ahead with others are not used.
    pub options: Options,
}

impl DeviceEntry {
    /// A device of an unknown driver.
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self { device, driver: None, options: Options::new() }
    }
}

/// Opens a lost device again, by its id in the plan.
pub type Reopen = Arc<dyn Fn(&str) -> Result<DeviceEntry> + Send + Sync>;

/// Choices of a [`crate::Runner`].
#[derive(Clone)]
pub struct RunnerOptions {
    /// How partitions are compiled.
    pub compile: CompileOptions,
    /// Most inferences that run at the same time, at least 1. Each needs memory of its own. Further callers wait, at
    /// most to their deadline.
    pub in_flight: usize,
    /// Tried when a lost device cannot be reset.
    pub reopen: Option<Reopen>,
}

impl Default for RunnerOptions {
    fn default() -> Self {
        Self { compile: CompileOptions::default(), in_flight: 16, reopen: None }
    }
}

/// Choices of one run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunOptions {
    /// Record the time of every step and node.
    pub profile: bool,
}

/// [`RunOptions`] and a time by which the run is given up.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    pub profile: bool,
    pub deadline: Option<Instant>,
}
