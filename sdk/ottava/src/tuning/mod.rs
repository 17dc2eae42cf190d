//! Tuning: what this machine measured for a model, kept in a file that the compiler reads.
//!
//! ```text
//! measure   `tune`: runs the model on each device in turn, under the options worth comparing; times per node
//! keys      what a measurement holds for: this processor, these drivers, this model
//! wire      the RON file, and what is refused in it
//! apply     a file that fits: options for the devices, costs for the partitioner
//! ```
//!
//! A file is damaged (an error that names file and key), or made for something else (a warning that names both sides;
//! the static model is used), or used (a note). It is never used in part: costs that were measured on one device would
//! otherwise be compared with estimates for another that has changed since.

mod apply;
mod keys;
mod measure;
mod wire;

pub use apply::{TuningReport, TuningState};
pub(crate) use apply::{of_devices, of_model};
pub(crate) use keys::model as model_key;
pub use measure::{TuneOptions, tune};

use crate::error::{Error, Result, codes};
use ottava_hal::Options;
use std::collections::BTreeMap;
use std::path::Path;

/// A processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Who makes it.
    pub vendor: String,
    /// Its name, with the maker's numbers for it.
    pub model: String,
    /// Extensions of its instruction set that kernels may use, sorted.
    pub features: Vec<String>,
}

/// A model as it is bound and canonical.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelKey {
    /// Its name, for people.
    pub name: String,
    /// SHA-256 of the canonical graph, its constants included.
    pub sha256: String,
}

/// A driver with what its speed depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceKey {
    /// Name of the driver.
    pub driver: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of its library; none where it is linked in.
    pub library: Option<String>,
    /// Instruction set or hardware revision.
    pub isa: String,
    /// The options that were given.
    pub options: Options,
}

/// Times of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The least; what the partitioner uses.
    pub best_ns: u64,
    /// The middle one.
    pub median_ns: u64,
    /// How many there were.
    pub runs: usize,
}

/// Options of a device that were compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// What was set beyond [`DeviceKey::options`].
    pub options: Options,
    /// Time of all nodes of the model on the device.
    pub time: Timing,
}

/// A device that was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunedDevice {
    /// Its id in the configuration.
    pub id: String,
    /// What the measurement holds for.
    pub key: DeviceKey,
    /// The best options found, beyond those that were given.
    pub chosen: Options,
    /// Everything that was compared, in the order of the comparison.
    pub variants: Vec<Variant>,
}

/// Nodes of a model that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunedNodes {
    /// What their cost depends on.
    pub signature: String,
    /// Their operator.
    pub op: String,
    /// Their names.
    pub nodes: Vec<String>,
    /// Time of one of them, by the id of a device.
    pub costs: BTreeMap<String, Timing>,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuning {
    /// The processor.
    pub machine: Machine,
    /// The model.
    pub model: ModelKey,
    /// The devices, in the order of the configuration.
    pub devices: Vec<TunedDevice>,
    /// The nodes, in the order of the model.
    pub nodes: Vec<TunedNodes>,
}

/// A tuning file of a model with some hundred thousand nodes would be this large.
const MAX_BYTES: u64 = 32 << 20;

impl Tuning {
    /// Reads a tuning file. Whether it fits machine, drivers and model is not looked at.
    pub fn load(path: &Path) -> Result<Self> {
        let failed = |e| Error::reading(codes::TUNING, path, &e);
        let data = std::fs::metadata(path).map_err(failed)?;
        let refused = |what: &str| Error::invalid(codes::TUNING, what).in_file(path);
        // A pipe or device would be waited for, and what a system makes up as it is read has no size.
        if !data.is_file() || data.len() == 0 {
            return Err(refused("this is no regular file, or it is empty").help(AGAIN));
        }
        if data.len() > MAX_BYTES {
            let e = refused("this is too large for a tuning file").found(data.len());
            return Err(e.expected(format!("at most {MAX_BYTES} bytes")));
        }
        let mut text = String::new();
        let mut file = std::io::Read::take(std::fs::File::open(path).map_err(failed)?, MAX_BYTES);
        std::io::Read::read_to_string(&mut file, &mut text).map_err(failed)?;
        Self::from_ron(&text).map_err(|e| match &e.detail().help {
            Some(_) => e.in_file(path),
            None => e.in_file(path).help(AGAIN),
        })
    }

    /// Reads the text of a tuning file.
    pub fn from_ron(text: &str) -> Result<Self> {
        wire::parse(text)
    }

    /// The text of a tuning file; equal measurements give equal texts.
    pub fn to_ron(&self) -> Result<String> {
        wire::print(self)
    }
}

/// What to do about a file that cannot be used.
const AGAIN: &str = "measure again: `ottava bench MODEL --tune FILE`";
