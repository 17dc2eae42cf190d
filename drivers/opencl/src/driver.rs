//! The driver: finds the devices that are present.

use crate::device::OpenCLDevice;
use crate::options;
use crate::probe;
use ottava_hal::{Device, DeviceInfo, Driver, DriverInfo, Error, OptionSpec, Options, Result};
use std::sync::Arc;

/// The driver of OpenCL devices.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenCLDriver;

impl OpenCLDriver {
    /// The driver; it needs nothing. The library is looked for when devices are asked for.
    pub fn new() -> Self {
        Self
    }

    /// Opens a device as what it is, for callers that ask more of it than the contract has.
    pub fn open_opencl(&self, id: &str, options: &Options) -> Result<Arc<OpenCLDevice>> {
        let settings = options::parse(options)?;
        let found = probe::find().map_err(|why| {
            Error::invalid(format!("the opencl driver has no device `{id}`, it has none at all: {why}"))
        })?;
        let ids: Vec<String> = found.iter().map(|f| format!("`{}` ({})", f.id, f.traits.name)).collect();
        let mut chosen = probe::choose(found, &settings);
        // With a choice the first id means the first device that is left.
        let at = match settings.platform.is_some() || settings.device.is_some() {
            true if id == "opencl" => (!chosen.is_empty()).then_some(0),
            _ => chosen.iter().position(|f| f.id == id),
        };
        let at = at.ok_or_else(|| {
            let has = ids.join(", ");
            Error::invalid(format!("the opencl driver has no device `{id}` with these options; it has {has}"))
        })?;
        Ok(Arc::new(OpenCLDevice::open(&chosen.swap_remove(at), &settings)?))
    }
}

impl Driver for OpenCLDriver {
    fn info(&self) -> DriverInfo {
        DriverInfo { name: "opencl".into(), vendor: "Ottava".into(), version: env!("CARGO_PKG_VERSION").into() }
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        match probe::find() {
            Ok(found) => Ok(found.iter().map(probe::Found::info).collect()),
            Err(why) => {
                tracing::info!(why, "the opencl driver has no device");
                Ok(Vec::new())
            }
        }
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        options::schema()
    }

    fn open(&self, id: &str, options: &Options) -> Result<Arc<dyn Device>> {
        Ok(self.open_opencl(id, options)?)
    }
}
