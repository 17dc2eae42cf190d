//! The driver: finds the devices that are present.

use crate::device::VulkanDevice;
use crate::instance::Instance;
use crate::{options, probe};
use ottava_hal::{Device, DeviceInfo, Driver, DriverInfo, Error, OptionSpec, Options, Result};
use std::sync::Arc;

/// The driver of Vulkan devices.
#[derive(Debug, Clone, Copy, Default)]
pub struct VulkanDriver;

impl VulkanDriver {
    /// The driver; it needs nothing.
    pub fn new() -> Self {
        Self
    }

    /// Why there is no device; `None` if there is one.
    pub fn absence(&self) -> Option<String> {
        let found = Instance::shared().and_then(|instance| probe::find(&instance));
        found.err().map(|e| e.to_string())
    }

    /// Opens a device as what it is, for callers that ask more of it than the contract has.
    pub fn open_vulkan(&self, id: &str, options: &Options) -> Result<Arc<VulkanDevice>> {
        let settings = options::parse(options)?;
        let instance = if settings.validation { Instance::validated()? } else { Instance::shared()? };
        let mut found = probe::find(&instance)?;
        let names: Vec<&str> = found.iter().map(|f| f.id.as_str()).collect();
        let unknown = || Error::invalid(format!("the vulkan driver has no device `{id}`; it has {}", names.join(", ")));
        let at = found.iter().position(|f| f.id == id).ok_or_else(unknown)?;
        Ok(Arc::new(VulkanDevice::open(instance, found.swap_remove(at), settings)?))
    }
}

impl Driver for VulkanDriver {
    fn info(&self) -> DriverInfo {
        DriverInfo { name: "vulkan".into(), vendor: "Ottava".into(), version: env!("CARGO_PKG_VERSION").into() }
    }

    /// None where there is no Vulkan; the log says why.
    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        match Instance::shared().and_then(|instance| probe::find(&instance)) {
            Ok(found) => Ok(found.iter().map(probe::Found::info).collect()),
            Err(e) => {
                tracing::info!("the vulkan driver has no device: {e}");
                Ok(Vec::new())
            }
        }
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        options::schema()
    }

    fn open(&self, id: &str, options: &Options) -> Result<Arc<dyn Device>> {
        Ok(self.open_vulkan(id, options)?)
    }
}
