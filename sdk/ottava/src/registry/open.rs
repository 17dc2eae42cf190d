//! Opening devices: which ones, and with which options.

use super::{BUILT_IN, DeviceOptions, NamedDevice, OpenDevice, REFERENCE, Registry};
use crate::config::DeviceEntry;
use crate::error::{Error, Result, codes};
use crate::suggest;
use ottava_hal::{Device, DeviceInfo, Driver, Options};
use std::path::PathBuf;
use std::sync::Arc;

impl Registry {
    /// The devices that a configuration names, in its order; without names, every device of every driver that is no
    /// simulator; the reference interpreter if there is none.
    pub fn open(&self, options: &DeviceOptions) -> Result<Vec<OpenDevice>> {
        self.check_drivers()?;
        if !self.config.devices.is_empty() {
            return self.config.devices.iter().map(|entry| self.open_entry(entry, options)).collect();
        }
        let mut found = Vec::new();
        for driver in self.enabled() {
            let name = driver.info().name;
            for info in driver.devices().map_err(|e| Error::device(&name, e))? {
                if !info.simulated {
                    found.push(open(driver.as_ref(), &info, &info.id, &Options::new(), options)?);
                }
            }
        }
        if found.is_empty() {
            found.push(self.open_one(REFERENCE, options)?);
        }
        Ok(found)
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
                    return open(driver.as_ref(), &info, id, &Options::new(), options);
                }
                if !known.contains(&info.id) {
                    known.push(info.id);
                }
            }
            // A device is often called as its driver: one that finds none says why.
            if driver.info().name == id
                && driver.devices().is_ok_and(|list| list.is_empty())
                && let Err(why) = driver.open(id, &Options::new())
            {
                return Err(Error::device(id, why));
            }
        }
        Err(Error::invalid(codes::NO_DEVICE, format!("there is no device `{id}`"))
            .help(suggest::hint(id, known.iter().map(String::as_str))))
    }

    /// The device that [`Self::open_one`] opens by this id, without opening it.
    pub fn find(&self, id: &str) -> Result<NamedDevice> {
        self.check_drivers()?;
        let entry = self.config.devices.iter().find(|d| d.id == id);
        let (mut known, options) = (Vec::new(), entry.map(|e| e.options.clone()).unwrap_or_default());
        let mut drivers: Vec<_> = self.drivers.iter().filter(|d| self.is_enabled(d)).collect();
        // To list the devices of the others may take long: they are asked last.
        drivers.sort_by_key(|d| !id.starts_with(&d.driver.info().name));
        for present in drivers {
            let driver = &present.driver;
            if entry.is_some_and(|e| e.driver != driver.info().name) {
                continue;
            }
            let devices = driver.devices().unwrap_or_default();
            let own = devices.iter().find(|d| d.id == id).or(devices.first().filter(|_| entry.is_some()));
            if let Some(info) = own {
                let library = (present.source != BUILT_IN).then(|| PathBuf::from(&present.source));
                let (driver, abi) = (driver.clone(), present.abi.clone());
                return Ok(NamedDevice { driver, id: info.id.clone(), options, library, abi });
            }
            known.extend(devices.into_iter().map(|d| d.id));
        }
        Err(Error::invalid(codes::NO_DEVICE, format!("there is no device `{id}`"))
            .help(suggest::hint(id, known.iter().map(String::as_str))))
    }

    /// The reference interpreter.
    pub fn reference(&self) -> Result<Arc<dyn Device>> {
        let driver = ottava_reference::ReferenceDriver;
        driver.open(REFERENCE, &Options::new()).map_err(|e| Error::device(REFERENCE, e))
    }

    fn open_entry(&self, entry: &DeviceEntry, options: &DeviceOptions) -> Result<OpenDevice> {
        let known: Vec<String> = self.enabled().map(|d| d.info().name).collect();
        let driver = self.enabled().find(|d| d.info().name == entry.driver).ok_or_else(|| {
            Error::invalid(codes::NO_DEVICE, format!("there is no driver `{}`", entry.driver))
                .help(suggest::hint(&entry.driver, known.iter().map(String::as_str)))
        });
        let place = |e: Error| self.in_config(e.at(format!("device `{}`", entry.id)));
        let driver = driver.map_err(place)?;
        let devices = driver.devices().map_err(|e| place(Error::device(&entry.id, e)))?;
        let chosen = devices.iter().find(|d| d.id == entry.id).or(devices.first());
        let why = || driver.open(&entry.id, &Options::new()).err().map_or_else(String::new, |e| format!(": {e}"));
        let none =
            || Error::invalid(codes::NO_DEVICE, format!("the driver `{}` finds no device{}", entry.driver, why()));
        let chosen = chosen.ok_or_else(none).map_err(place)?;
        open(driver.as_ref(), chosen, &entry.id, &entry.options, options).map_err(place)
    }
}

/// Opens a device of a driver under the application's name for it.
pub(super) fn open(
    driver: &dyn Driver,
    info: &DeviceInfo,
    id: &str,
    own: &Options,
    common: &DeviceOptions,
) -> Result<OpenDevice> {
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
    for (key, value) in common.tuned.get(id).into_iter().flatten() {
        options.entry(key.clone()).or_insert_with(|| value.clone());
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
    let device = driver.open(&info.id, &options).map_err(|e| Error::device(id, e))?;
    Ok(OpenDevice { id: id.to_owned(), device, driver: driver.info(), options })
}
