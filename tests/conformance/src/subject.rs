//! The driver under test.

use crate::Stop;
use ottava_hal::{Device, Driver, Options, Status};
use std::path::PathBuf;
use std::sync::Arc;

/// A device that stands for the description of a chip.
#[derive(Clone)]
pub struct Oracle {
    /// The device.
    pub device: Arc<dyn Device>,
    /// How far cycles may be off, percent; `None`: they are not compared.
    pub tolerance: Option<f64>,
}

/// The driver under test, and what the run was asked for.
pub struct Subject {
    /// The driver.
    pub driver: Arc<dyn Driver>,
    /// Id of the device.
    pub device: String,
    /// Options with which it is opened.
    pub options: Options,
    /// The library, if it is one: the checks of group A read the file.
    pub library: Option<PathBuf>,
    /// Version of its kit and the door that was taken; empty for a driver that is linked in.
    pub abi: String,
    /// The chip as a description, to compare with.
    pub oracle: Option<Oracle>,
    /// Decides everything that is random.
    pub seed: u64,
    /// Long forms of the cases.
    pub stress: bool,
}

impl Subject {
    /// The first device of a driver.
    pub fn first_of(driver: Arc<dyn Driver>) -> ottava_hal::Result<Option<Self>> {
        let device = driver.devices()?.into_iter().next().map(|info| info.id);
        let subject = |device| Self {
            driver: driver.clone(),
            device,
            options: Options::new(),
            library: None,
            abi: String::new(),
            oracle: None,
            seed: 1,
            stress: false,
        };
        Ok(device.map(subject))
    }

    /// Opens the device anew. One that is absent skips the case.
    pub fn open(&self) -> Result<Arc<dyn Device>, Stop> {
        self.driver.open(&self.device, &self.options).map_err(|e| match e.status() {
            Status::NotFound => Stop::Skipped(format!("the device is absent: {e}")),
            _ => Stop::Failed(format!("the device cannot be opened: {e}")),
        })
    }
}
