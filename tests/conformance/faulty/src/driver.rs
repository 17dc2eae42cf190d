//! The driver: two devices of the same kind, and the option `fault`.

use crate::{Behaviour, DEFECTS, FaultyDevice};
use ottava_hal::device::{Link, LinkMode};
use ottava_hal::{
    BlobKey, BlobVerdict, Capability, Device, DeviceInfo, DeviceKind, Driver, DriverInfo, Error, OptionSpec, Options,
    Result,
};
use ottava_reference::ReferenceDevice;
use std::sync::Arc;

/// Name of the driver.
pub const NAME: &str = "faulty";
/// Ids of its devices.
pub const DEVICES: [&str; 2] = ["faulty", "faulty-1"];
/// Memory of a device where the option does not say it.
const MEMORY: u64 = 256 << 20;

/// The driver.
#[derive(Clone, Copy)]
pub struct FaultyDriver {
    behaviour: Behaviour,
}

impl FaultyDriver {
    /// A driver with the defect of a name; with none for an empty name.
    pub fn new(fault: &str) -> Result<Self> {
        let mut behaviour = Behaviour::right();
        if !fault.is_empty() {
            let known = DEFECTS.iter().flat_map(|list| list.iter()).find(|d| d.name == fault);
            let defect = known.ok_or_else(|| Error::invalid(format!("there is no defect `{fault}`")))?;
            (defect.apply)(&mut behaviour);
        }
        Ok(Self { behaviour })
    }

    /// As [`Self::new`], from the option `fault` of an application's configuration.
    pub fn with_options(options: &Options) -> Result<Self> {
        Self::new(options.get("fault").map_or("", String::as_str))
    }
}

/// Who the driver is.
pub(crate) fn identity() -> DriverInfo {
    DriverInfo { name: NAME.into(), vendor: "Ottava".into(), version: env!("CARGO_PKG_VERSION").into() }
}

/// What a device says about itself.
pub(crate) fn info(id: &str, memory: u64) -> DeviceInfo {
    DeviceInfo {
        name: "interpreter behind a queue".into(),
        isa: "scalar".into(),
        sync_only: false,
        simulated: true,
        memory_bytes: memory,
        max_buffer: memory,
        link: Link { mode: LinkMode::Copy, bytes_per_s: 0.0, latency_ns: 1_000 },
        ..DeviceInfo::new(NAME, id, DeviceKind::Sim)
    }
}

/// The devices that are present.
pub(crate) fn devices() -> Result<Vec<DeviceInfo>> {
    Ok(DEVICES.iter().map(|id| info(id, MEMORY)).collect())
}

/// Whether an option may be given.
pub(crate) fn option_ok(key: &str, value: &str) -> Result<()> {
    match key {
        "fault" => Ok(()),
        "memory" => value.parse::<u64>().map(drop).map_err(|_| Error::invalid(format!("memory is `{value}`"))),
        _ => Err(Error::invalid(format!("the driver has no option `{key}`; it has fault, memory"))),
    }
}

/// Whether a saved executable is of this version of the driver and of one of its devices.
pub(crate) fn check_blob(key: &BlobKey) -> Result<BlobVerdict> {
    let me = identity();
    let refused = |why: String| Ok(BlobVerdict::Incompatible(why));
    if (key.driver.as_str(), key.driver_version.as_str()) != (me.name.as_str(), me.version.as_str()) {
        return refused(format!("made by {} {}, this is {} {}", key.driver, key.driver_version, me.name, me.version));
    }
    if !devices()?.iter().any(|d| d.uuid == key.uuid && d.hw_rev == key.hw_rev) {
        return refused("made for another device".into());
    }
    Ok(BlobVerdict::Optimal)
}

/// What the reference can run, with fixed shapes.
pub(crate) fn capability() -> Capability {
    Capability { dynamic_shapes: false, ..ReferenceDevice::new().capability().clone() }
}

impl Driver for FaultyDriver {
    fn info(&self) -> DriverInfo {
        identity()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        (self.behaviour.devices)()
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("fault", "", "the defect that the driver has"),
            OptionSpec::new("memory", MEMORY, "bytes of the device's memory"),
        ]
    }

    fn open(&self, id: &str, options: &Options) -> Result<Arc<dyn Device>> {
        options.iter().try_for_each(|(key, value)| (self.behaviour.option_ok)(key, value))?;
        if !DEVICES.contains(&id) {
            return Err(Error::invalid(format!("there is no device `{id}`; there are {}", DEVICES.join(", "))));
        }
        let memory = options.get("memory").and_then(|m| m.parse().ok()).unwrap_or(MEMORY);
        let behaviour = match options.get("fault") {
            Some(fault) => Self::new(fault)?.behaviour,
            None => self.behaviour,
        };
        Ok(Arc::new(FaultyDevice::open(behaviour, info(id, memory))?))
    }

    fn check_blob(&self, key: &BlobKey) -> Result<BlobVerdict> {
        (self.behaviour.check_blob)(key)
    }
}
