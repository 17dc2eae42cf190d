//! Format 1. These types never change; a new format is a new module.

use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes in the encoding of [`ottava_hal::wire`].
#[derive(Default)]
pub(super) struct Raw(pub(super) Vec<u8>);

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Raw, E> {
                Ok(Raw(bytes.to_vec()))
            }
        }
        d.deserialize_bytes(Bytes)
    }
}

/// The first section of a file.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct File {
    /// Number 0 is the plan of the file.
    pub(super) plans: Vec<Plan>,
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) slots: Vec<Slot>,
    pub(super) partitions: Vec<Partition>,
    pub(super) inputs: Vec<usize>,
    pub(super) outputs: Vec<usize>,
    /// Slot and tensor.
    pub(super) constants: Vec<(usize, Raw)>,
    pub(super) devices: Vec<Device>,
    pub(super) steps: Vec<Step>,
    pub(super) arenas: Vec<Arena>,
    pub(super) states: Vec<State>,
    pub(super) placed: Vec<Placed>,
    /// Lost device and number of the plan without it.
    pub(super) alternatives: Vec<(String, usize)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Slot {
    pub(super) name: String,
    /// Tensor type.
    pub(super) ty: Raw,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Partition {
    pub(super) device: String,
    pub(super) program: Raw,
    pub(super) inputs: Vec<usize>,
    pub(super) outputs: Vec<usize>,
    pub(super) bridges: usize,
    pub(super) est_ns: u64,
    pub(super) blobs: Vec<Blob>,
}

/// A blob's length and SHA-256 are those of its section.
#[derive(Serialize, Deserialize)]
pub(super) struct Blob {
    pub(super) driver: String,
    pub(super) driver_version: String,
    pub(super) uuid: [u8; 16],
    pub(super) hw_rev: u32,
    pub(super) ir_version: u32,
    pub(super) core_hash: u64,
    pub(super) ops_hash: u64,
    pub(super) program_hash: u64,
    pub(super) quant_hash: u64,
    pub(super) options_hash: u64,
    pub(super) section: usize,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Device {
    pub(super) id: String,
    pub(super) uuid: [u8; 16],
    pub(super) hw_rev: u32,
    pub(super) isa: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) work: Work,
    pub(super) waits: Vec<usize>,
}

/// Places are `None` for the host, else the index of a device; plans are numbers.
#[derive(Serialize, Deserialize)]
pub(super) enum Work {
    Run { partition: usize },
    Copy { slot: usize, from: Option<usize>, to: Option<usize> },
    If { condition: usize, then: usize, otherwise: usize, inputs: Vec<usize>, outputs: Vec<usize> },
    Loop { max_trips: Option<usize>, condition: Option<usize>, body: usize, inputs: Vec<usize>, outputs: Vec<usize> },
    Scan { scanned: usize, body: usize, inputs: Vec<usize>, outputs: Vec<usize> },
}

#[derive(Serialize, Deserialize)]
pub(super) struct Arena {
    pub(super) bytes: usize,
    pub(super) sum_bytes: usize,
    pub(super) lower_bound: usize,
    pub(super) slots: Vec<(usize, usize)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) input: usize,
    pub(super) output: usize,
    /// Tensor.
    pub(super) initial: Raw,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Placed {
    pub(super) node: String,
    pub(super) op: String,
    pub(super) device: String,
    pub(super) partition: usize,
    pub(super) bridge: bool,
    pub(super) reason: String,
    pub(super) opinions: Vec<Opinion>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Opinion {
    pub(super) device: String,
    /// Sum of [`CAN`] and [`MEASURED`]. One byte, as the truth value was that stood here alone.
    pub(super) state: u8,
    pub(super) code: String,
    pub(super) text: String,
    pub(super) cost_ns: u64,
}

/// The device could run the node.
pub(super) const CAN: u8 = 1;
/// The cost was measured.
pub(super) const MEASURED: u8 = 2;
