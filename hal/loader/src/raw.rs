//! The tables of a library as they are, for the conformance suite, which asks what the adapter never asks.
//!
//! Everything about the file and the tables has been checked as for any other driver, and the same library is the same
//! driver: only the policy is not asked, since the caller names one file.

use crate::refusal::Result;
use crate::{note, plugin};
use ottava_abi::{DeviceVtblV1, DriverV1};
use ottava_hal::Options;
use std::path::Path;

/// Functions of a driver and of its devices; none of them is NULL. They live as long as the process.
#[derive(Clone, Copy)]
pub struct RawTables {
    /// Functions of the driver.
    pub driver: DriverV1,
    /// Functions of its devices.
    pub device: DeviceVtblV1,
}

/// Loads a library, if it is not loaded already, and shows its tables.
pub fn tables(library: &Path) -> Result<RawTables> {
    let plugin = plugin::load(library, &note::read(library)?, &Options::new())?;
    Ok(RawTables { driver: plugin.tables.driver, device: plugin.tables.device })
}
