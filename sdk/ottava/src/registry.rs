//! Drivers that are present, and the devices that the configuration picks from them.

use crate::config::{Config, DeviceEntry};
use crate::error::{Error, Result, codes};
use crate::suggest;
use ottava_hal::{Device, DeviceInfo, Driver, Options};
use std::sync::Arc;

/// Name of the driver of the reference interpreter, which is always there.
pub const REFERENCE: &str = "reference";

/// The drivers of a process and what the application configured. The reference interpreter is always the last driver.
#[derive(Clone)]
pub struct Registry {
    /// The application's configuration.
    pub config: Config,
    drivers: Vec<Arc<dyn Driver>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self { config: Config::default(), drivers: vec![Arc::new(ottava_reference::ReferenceDriver)] }
    }
}

/// A device that is ready, under the application's name.
#[derive(Clone)]
pub struct OpenDevice {
    /// The application's name, or the driver's own id.
    pub id: String,
    /// The device.
    pub device: Arc<dyn Device>,
}

/// What can be said about one driver.
pub struct DriverReport {
    /// Name and version.
    pub info: ottava_hal::DriverInfo,
    /// Its devices, or why it has none.
    pub devices: Result<Vec<DeviceInfo>>,
    /// Whether the configuration uses it.
    pub enabled: bool,
}

/// Options of the command or caller that go to every device that knows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Worker threads.
    pub threads: Option<usize>,
    /// Instruction set.
    pub isa: Option<String>,
}

impl Registry {
    /// The reference interpreter alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same drivers under another configuration.
    pub fn configured(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// Adds a driver; earlier ones are preferred.
    pub fn with(mut self, driver: Arc<dyn Driver>) -> Self {
        let before_reference = self.drivers.len() - 1;
        self.drivers.insert(before_reference, driver);
        self
    }

    /// Every driver with its devices.
    pub fn report(&self) -> Vec<DriverReport> {
        let one = |d: &Arc<dyn Driver>| {
            let info = d.info();
            let devices = d.devices().map_err(|e| Error::device(&info.name, e));
            DriverReport { enabled: is_enabled(&self.config, &info.name), devices, info }
        };
        self.drivers.iter().map(one).collect()
    }

    fn enabled(&self) -> impl Iterator<Item = &Arc<dyn Driver>> {
        self.drivers.iter().filter(|d| is_enabled(&self.config, &d.info().name))
    }

    fn check_drivers(&self) -> Result<()> {
        let known: Vec<String> = self.drivers.iter().map(|d| d.info().name).collect();
        match self.config.drivers.iter().flatten().find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(name) => Err(in_config(
                &self.config,
                Error::invalid(codes::NO_DEVICE, format!("there is no built-in driver `{name}` in this version"))
                    .at("key `drivers`")
                    .help(suggest::hint(name, known.iter().map(String::as_str))),
            )),
        }
    }

    /// The devices that a configuration names, in its order; without names, the first device of the first driver that
    /// has one.
    pub fn open(&self, options: &DeviceOptions) -> Result<Vec<OpenDevice>> {
        self.check_drivers()?;
        if self.config.devices.is_empty() {
            for driver in self.enabled() {
                let name = driver.info().name;
                if let Some(first) = driver.devices().map_err(|e| Error::device(&name, e))?.first() {
                    let device = open(driver.as_ref(), &first.id, &Options::new(), options)?;
                    return Ok(vec![OpenDevice { id: first.id.clone(), device }]);
                }
            }
            return Err(Error::invalid(codes::NO_DEVICE, "no driver offers a device"));
        }
        self.config.devices.iter().map(|entry| self.open_entry(entry, options)).collect::<Result<_>>()
    }

    /// One device, by the application's name or by a driver's own id.
    pub fn open_one(&self, id: &str, options: &DeviceOptions) -> Result<OpenDevice> {
        self.check_drivers()?;
        if let Some(entry) = self.config.devices.iter().find(|d| d.id == id) {
            return self.open_entry(entry, options);
        }
        let mut known: Vec<String> = self.config.devices.iter().map(|d| d.id.clone()).collect();
        for driver in self.enabled() {
            for info in driver.devices().unwrap_or_default() {
                if info.id == id {
                    let device = open(driver.as_ref(), id, &Options::new(), options)?;
                    return Ok(OpenDevice { id: info.id, device });
                }
                known.push(info.id);
            }
        }
        Err(Error::invalid(codes::NO_DEVICE, format!("there is no device `{id}`"))
            .help(suggest::hint(id, known.iter().map(String::as_str))))
    }

    /// The reference interpreter.
    pub fn reference(&self) -> Result<Arc<dyn Device>> {
        open(&ottava_reference::ReferenceDriver, REFERENCE, &Options::new(), &DeviceOptions::default())
    }

    fn open_entry(&self, entry: &DeviceEntry, options: &DeviceOptions) -> Result<OpenDevice> {
        let known: Vec<String> = self.enabled().map(|d| d.info().name).collect();
        let driver = self.enabled().find(|d| d.info().name == entry.driver).ok_or_else(|| {
            Error::invalid(codes::NO_DEVICE, format!("there is no driver `{}`", entry.driver))
                .help(suggest::hint(&entry.driver, known.iter().map(String::as_str)))
        });
        let place = |e: Error| in_config(&self.config, e.at(format!("device `{}`", entry.id)));
        let driver = driver.map_err(place)?;
        let devices = driver.devices().map_err(|e| place(Error::device(&entry.id, e)))?;
        let chosen = devices.iter().find(|d| d.id == entry.id).or(devices.first());
        let none = || Error::invalid(codes::NO_DEVICE, format!("the driver `{}` finds no device", entry.driver));
        let chosen = chosen.ok_or_else(none).map_err(place)?;
        let device = open(driver.as_ref(), &chosen.id, &entry.options, options).map_err(place)?;
        Ok(OpenDevice { id: entry.id.clone(), device })
    }
}

/// Without a list every driver is used; the reference interpreter always is.
fn is_enabled(config: &Config, name: &str) -> bool {
    name == REFERENCE || config.drivers.as_ref().is_none_or(|list| list.iter().any(|n| n == name))
}

fn in_config(config: &Config, e: Error) -> Error {
    match &config.file {
        Some(file) => e.in_file(file),
        None => e,
    }
}

fn open(driver: &dyn Driver, id: &str, own: &Options, common: &DeviceOptions) -> Result<Arc<dyn Device>> {
    let mut options = own.clone();
    let schema = driver.option_schema();
    for (key, value) in [("threads", common.threads.map(|n| n.to_string())), ("isa", common.isa.clone())] {
        let Some(value) = value else { continue };
        if schema.iter().any(|s| s.key == key) {
            options.insert(key.to_owned(), value);
        } else {
            tracing::warn!("device `{id}` has no option `{key}`; {key} = {value} is not used there");
        }
    }
    for (key, value) in &options {
        let spec = schema.iter().find(|s| s.key == *key).ok_or_else(|| {
            Error::invalid(codes::DEVICE_OPTION, format!("the device `{id}` has no option `{key}`"))
                .help(suggest::hint(key, schema.iter().map(|s| s.key.as_str())))
        })?;
        if !spec.allowed.is_empty() && !spec.allowed.contains(value) {
            return Err(Error::invalid(codes::DEVICE_OPTION, format!("option `{key}` of `{id}` has a bad value"))
                .found(format!("`{value}`"))
                .expected(spec.allowed.join(", ")));
        }
    }
    driver.open(id, &options).map_err(|e| Error::device(id, e))
}
