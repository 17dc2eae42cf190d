//! The Vulkan and OpenCL devices of this machine: hardware, or the software drivers that `tests/run.sh` installs.

use crate::assets::skip;
use ottava_driver_opencl::OpenCLDriver;
use ottava_driver_vulkan::VulkanDriver;
use ottava_hal::{Device, Driver, Options};
use std::sync::Arc;

/// A device that is present.
pub struct Gpu {
    /// Driver name, as configurations have it.
    pub driver: &'static str,
    /// Device id.
    pub id: String,
    opener: Arc<dyn Driver>,
}

impl Gpu {
    /// Opens the device with options.
    pub fn open(&self, options: &[(&str, &str)]) -> Arc<dyn Device> {
        let options: Options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        self.opener.open(&self.id, &options).unwrap_or_else(|e| panic!("{} {}: {e}", self.driver, self.id))
    }
}

/// The drivers of GPUs.
pub fn drivers() -> [(&'static str, Arc<dyn Driver>); 2] {
    [("opencl", Arc::new(OpenCLDriver::new())), ("vulkan", Arc::new(VulkanDriver::new()))]
}

/// The first device of each driver; a driver without one counts as a skipped part of the named test.
pub fn gpus(test: &str) -> Vec<Gpu> {
    let first = |(driver, opener): (&'static str, Arc<dyn Driver>)| {
        let found = opener.devices().map(|list| list.into_iter().next());
        let info = found.unwrap_or_else(|e| panic!("{driver}: {e}"));
        if info.is_none() {
            skip(&format!("{test} on {driver}"), "no device");
        }
        info.map(|info| Gpu { driver, id: info.id, opener })
    };
    drivers().into_iter().filter_map(first).collect()
}
