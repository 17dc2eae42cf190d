//! Programs compiled ahead: the blob of a partition that an open device can load.
//!
//! A blob is used if every field of its key is that of driver, device, program and options ([`ottava_plan::blob_key`]);
//! its payload was compared with its hash when the plan was opened. Everything else is compiled anew, and the log says
//! why.

use crate::guard;
use crate::options::DeviceEntry;
use ottava_hal::{CompileOptions, Executable};
use ottava_plan::{Partition, blob_key};
use std::sync::Arc;

/// The executable of a blob that fits the device.
pub(crate) fn load(p: &Partition, entry: &DeviceEntry, options: &CompileOptions) -> Option<Arc<dyn Executable>> {
    if p.blobs.is_empty() {
        return None;
    }
    let loaded = try_load(p, entry, options);
    loaded.inspect_err(|why| tracing::warn!("{why}")).ok()
}

fn try_load(p: &Partition, entry: &DeviceEntry, options: &CompileOptions) -> Result<Arc<dyn Executable>, String> {
    let named = |e: ottava_hal::Error| {
        let (name, device) = (&p.program.name, &p.device);
        format!("partition `{name}` is compiled anew for device `{device}`: {e}")
    };
    let Some(driver) = &entry.driver else {
        return Err(named(ottava_hal::Error::invalid("the version of its driver is not known")));
    };
    let key = blob_key(driver, entry.device.info(), &p.program, options, &entry.options).map_err(named)?;
    let blob = p.blob_for(&key)?;
    guard::call(&p.device, || entry.device.deserialize_shared(&blob.key, Arc::new(blob.payload.clone()))).map_err(named)
}
