//! The driver: finds the devices that are present.

use ottava_hal::{Device, DeviceInfo, Driver, DriverInfo, Error, OptionSpec, Options, Result};
use std::sync::Arc;

/// The driver of OpenCL devices.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenCLDriver;

impl OpenCLDriver {
    /// The driver; it needs nothing.
    pub fn new() -> Self {
        Self
    }
}

impl Driver for OpenCLDriver {
    fn info(&self) -> DriverInfo {
        DriverInfo { name: "opencl".into(), vendor: "Ottava".into(), version: env!("CARGO_PKG_VERSION").into() }
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(Vec::new())
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        Vec::new()
    }

    fn open(&self, id: &str, _: &Options) -> Result<Arc<dyn Device>> {
        Err(Error::invalid(format!("the opencl driver has no device `{id}`")))
    }
}
