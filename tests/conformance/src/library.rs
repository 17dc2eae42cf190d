//! The driver under test as a library that the loader takes, under the policy of the application.

use crate::Subject;
use ottava_hal::Options;
use ottava_loader::{DRIVER_FILES, DRIVER_PATH, Environment, LibrarySpec, LoadOptions, Search, load_all};
use std::path::Path;

pub use ottava_loader::{Policy, Rule};

impl Subject {
    /// Loads a library (or the one that a manifest names) and takes its first device. The reason of the loader in words if
    /// it is refused. Libraries that the environment names are not loaded.
    pub fn load(path: &Path, policy: Policy) -> Result<Self, String> {
        let mut environment = Environment::from_process();
        [DRIVER_FILES, DRIVER_PATH].into_iter().for_each(|name| drop(environment.variables.remove(name)));
        let search = Search { user: false, system: false };
        let libraries = vec![LibrarySpec::new(path)];
        let found = load_all(&LoadOptions { libraries, policy, search, environment });
        let candidate = found.into_iter().next().ok_or_else(|| "the loader found nothing".to_owned())?;
        let Some(driver) = candidate.driver else {
            return Err(candidate.reason.unwrap_or_else(|| "the loader gave no reason".to_owned()));
        };
        let devices = driver.devices().map_err(|e| format!("its devices cannot be listed: {e}"))?;
        let device = devices.into_iter().next().map(|d| d.id);
        let device = device.ok_or_else(|| "it finds no device here; nothing can be tested".to_owned())?;
        Ok(Self {
            device,
            driver,
            options: Options::new(),
            library: Some(candidate.path),
            abi: candidate.abi.unwrap_or_default(),
            oracle: None,
            seed: 1,
            stress: false,
        })
    }
    /// The same driver with another of its devices.
    pub fn with_device(self, id: &str) -> Result<Self, String> {
        let devices = self.driver.devices().map_err(|e| format!("its devices cannot be listed: {e}"))?;
        let ids: Vec<&str> = devices.iter().map(|d| d.id.as_str()).collect();
        match ids.contains(&id) {
            true => Ok(Self { device: id.to_owned(), ..self }),
            false => Err(format!("the driver has no device `{id}`; it has: {}", ids.join(", "))),
        }
    }
}
