//! Drivers that are present, and the devices that the configuration picks from them.
//!
//! Drivers come from three places: the reference interpreter, which is always there; those that the application links in
//! ([`Registry::with`]); and libraries ([`Registry::load_libraries`]). Every candidate is kept with what became of it,
//! also the refused ones.

mod libraries;
mod open;

use crate::config::{Config, DriverEntry};
use crate::error::{Error, Result, codes};
use crate::suggest;
use ottava_hal::{Device, DeviceInfo, Driver, DriverInfo, OptionSpec, Options};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Name of the driver of the reference interpreter, which is always there.
pub const REFERENCE: &str = "reference";
/// Where drivers that are linked in come from.
pub(crate) const BUILT_IN: &str = "built-in";

/// The drivers of a process and what the application configured. The reference interpreter is always the last driver.
#[derive(Clone)]
pub struct Registry {
    /// The application's configuration.
    pub config: Config,
    drivers: Vec<Present>,
    refused: Vec<Refused>,
}

/// A driver that can be used.
#[derive(Clone)]
struct Present {
    driver: Arc<dyn Driver>,
    /// Where it comes from: `built-in`, or the path of a library.
    source: String,
    /// Version of the plugin boundary and the way in; none for what is linked in.
    abi: Option<String>,
}

/// A library that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name, where that is known.
    pub name: String,
    /// Path of the library or manifest.
    pub source: String,
    /// Why, in words.
    pub reason: String,
}

impl Default for Registry {
    fn default() -> Self {
        let reference =
            Present { driver: Arc::new(ottava_reference::ReferenceDriver), source: BUILT_IN.into(), abi: None };
        Self { config: Config::default(), drivers: vec![reference], refused: Vec::new() }
    }
}

/// A device that is ready, under the application's name.
#[derive(Clone)]
pub struct OpenDevice {
    /// The application's name, or the driver's own id.
    pub id: String,
    /// The device.
    pub device: Arc<dyn Device>,
    /// Its driver.
    pub driver: DriverInfo,
    /// The options that it was opened with.
    pub options: Options,
}

/// A device that could be opened.
#[derive(Clone)]
pub struct NamedDevice {
    /// Its driver.
    pub driver: Arc<dyn Driver>,
    /// The driver's own id of the device.
    pub id: String,
    /// The options that the configuration gives it.
    pub options: Options,
    /// The library that the driver is from; none for what is linked in.
    pub library: Option<PathBuf>,
    /// Version of the plugin boundary and the way in; none for what is linked in.
    pub abi: Option<String>,
}

impl OpenDevice {
    /// The options that what a program compiles to may depend on: not how many threads run it, and how they share it.
    pub(crate) fn code_options(&self) -> Options {
        let is_code = |key: &str| !["threads", "grain"].contains(&key);
        self.options.iter().filter(|(key, _)| is_code(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}

/// What can be said about one driver.
pub struct DriverReport {
    /// Name and version.
    pub info: DriverInfo,
    /// Where it comes from: `built-in`, or the path of a library.
    pub source: String,
    /// Version of the plugin boundary and the way in; none for what is linked in.
    pub abi: Option<String>,
    /// Its devices, or why it has none.
    pub devices: Result<Vec<DeviceInfo>>,
    /// Whether the configuration uses it.
    pub enabled: bool,
    /// The options that its devices know.
    pub options: Vec<OptionSpec>,
}

/// Options of the command or caller that go to every device that knows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Worker threads.
    pub threads: Option<usize>,
    /// Instruction set.
    pub isa: Option<String>,
    /// What tuning found best, by the id of a device: for options that nothing else sets.
    pub tuned: BTreeMap<String, Options>,
}

impl Registry {
    /// The reference interpreter alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same drivers under another configuration. Libraries that it names are loaded by [`Self::load_libraries`].
    pub fn configured(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// Adds a driver; earlier ones are preferred.
    pub fn with(mut self, driver: Arc<dyn Driver>) -> Self {
        self.add(Present { driver, source: BUILT_IN.into(), abi: None });
        self
    }

    fn add(&mut self, driver: Present) {
        let before_reference = self.drivers.len() - 1;
        self.drivers.insert(before_reference, driver);
    }

    /// Every driver with its devices.
    pub fn report(&self) -> Vec<DriverReport> {
        let one = |d: &Present| {
            let info = d.driver.info();
            let devices = d.driver.devices().map_err(|e| Error::device(&info.name, e));
            let (source, abi) = (d.source.clone(), d.abi.clone());
            DriverReport { enabled: self.is_enabled(d), devices, info, source, abi, options: d.driver.option_schema() }
        };
        self.drivers.iter().map(one).collect()
    }

    /// Every file that is read because of the configuration, or is loaded: nothing may write over them.
    pub fn files_read(&self) -> Vec<PathBuf> {
        let libraries = self.drivers.iter().filter(|d| d.source != BUILT_IN).map(|d| PathBuf::from(&d.source));
        self.config.files().into_iter().chain(libraries).collect()
    }

    /// Libraries that were not taken, with the reasons.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Without a list every driver is used; with one, those that it names. The reference interpreter always is.
    fn is_enabled(&self, d: &Present) -> bool {
        let name = d.driver.info().name;
        if name == REFERENCE || d.source != BUILT_IN {
            return true;
        }
        let listed = |entry: &DriverEntry| matches!(entry, DriverEntry::Builtin(n) if *n == name);
        self.config.drivers.as_ref().is_none_or(|list| list.iter().any(listed))
    }

    /// Where a driver comes from: `built-in`, or the path of a library.
    pub(crate) fn source(&self, driver: &str) -> Option<&str> {
        let found = self.drivers.iter().find(|d| self.is_enabled(d) && d.driver.info().name == driver);
        found.map(|d| d.source.as_str())
    }

    /// The options that a driver knows.
    pub(crate) fn option_schema(&self, driver: &str) -> Vec<OptionSpec> {
        let found = self.enabled().find(|d| d.info().name == driver);
        found.map_or_else(Vec::new, |d| d.option_schema())
    }

    fn enabled(&self) -> impl Iterator<Item = &Arc<dyn Driver>> {
        self.drivers.iter().filter(|d| self.is_enabled(d)).map(|d| &d.driver)
    }

    /// Drivers that the configuration lists must be there.
    fn check_drivers(&self) -> Result<()> {
        let known: Vec<String> =
            self.drivers.iter().filter(|d| d.source == BUILT_IN).map(|d| d.driver.info().name).collect();
        for entry in self.config.drivers.iter().flatten() {
            let error = match entry {
                DriverEntry::Builtin(name) if !known.contains(name) => {
                    Error::invalid(codes::NO_DEVICE, format!("there is no built-in driver `{name}` in this version"))
                        .help(suggest::hint(name, known.iter().map(String::as_str)))
                }
                DriverEntry::Library { path, .. } => {
                    let source = path.display().to_string();
                    let Some(refused) = self.refused.iter().find(|r| r.source == source) else { continue };
                    let what = format!("the library `{source}` is not loaded: {}", refused.reason);
                    Error::invalid(codes::DRIVER_REFUSED, what)
                        .help("`ottava devices --why` shows every library that was looked at")
                }
                DriverEntry::Builtin(_) => continue,
            };
            return Err(self.in_config(error.at("key `drivers`")));
        }
        Ok(())
    }

    fn in_config(&self, e: Error) -> Error {
        match &self.config.file {
            Some(file) => e.in_file(file),
            None => e,
        }
    }
}
