//! The description of one NPU: the `Npu(...)` file of a vendor, and the ten presets.
//!
//! Every omitted key takes the value of the preset `edge16`, which is what the `Default`s below spell out. A value of
//! [`NpuConfig`] that came through [`NpuConfig::parse`] or [`NpuConfig::preset`] has passed [`NpuConfig::check`]: sizes
//! are positive and bounded, banks divide their memory. Capability, verifier, machine and closed forms all read this
//! one value, so they cannot disagree about the device.

mod check;
mod defaults;
mod error;
mod explain;
mod parse;
mod places;
mod presets;
#[cfg(test)]
mod tests;

pub use error::ConfigError;
pub(crate) use explain::explain;
pub(crate) use places::Keys;
pub use presets::PRESETS;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One NPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Npu", default, deny_unknown_fields)]
pub struct NpuConfig {
    /// The name in reports and device ids.
    pub name: String,
    /// Array clock in hertz; the unit of every cycle count.
    pub clock_hz: u64,
    /// The processing elements.
    pub array: Array,
    /// Scratchpads and accumulators.
    pub sram: Sram,
    /// The vector unit.
    pub vector: Vector,
    /// The DMA engine.
    pub dma: Dma,
    /// The command processor.
    pub queues: Queues,
    /// The memory outside the NPU.
    pub dram: Dram,
    /// Operand types of the array.
    pub dtypes: Vec<NpuType>,
    /// Requantization modes of the accumulator read path.
    pub requant: Vec<RequantKind>,
    /// Energy per event; reports say "no energy table" without it.
    pub energy: Option<Energy>,
    /// Faults to inject, see [`crate::fault`].
    pub fault: Vec<FaultSpec>,
    /// Whether command streams carry a checksum that the command processor tests.
    pub crc: bool,
    /// Whether the on-chip memories have a parity bit per byte or accumulator, tested at each read.
    pub parity: bool,
    /// Whether the driver keeps values on the chip between layers where that is not slower.
    pub fusion: bool,
    /// Cycles after which a submission is given up.
    pub watchdog_cycles: Option<u64>,
    /// How the driver spends wall-clock time: `None` answers at once, `Some(x)` takes `x` times the modelled time.
    pub realtime: Option<f64>,
}

/// The systolic array.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Array {
    /// Processing elements in a column, 8..=256 (4 is allowed for the STONNE anchor).
    pub rows: u32,
    /// Processing elements in a row.
    pub cols: u32,
    /// Which operand stays.
    pub dataflow: Dataflow,
    /// How folds follow one another.
    pub timing: Timing,
    /// How a depthwise convolution is mapped.
    pub depthwise: Depthwise,
    /// Elements per cycle that enter the array; `None` is unlimited.
    pub ports: Option<u32>,
}

/// The stationary operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Dataflow {
    /// Outputs stay.
    Os,
    /// Weights stay.
    Ws,
    /// Inputs stay.
    Is,
}

/// The model of array time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Timing {
    /// Every fold takes the whole array and starts after the one before.
    FoldSerial,
    /// As `FoldSerial`, with a fold's actual rows and columns.
    EdgeTrim,
    /// Folds overlap: operands and outputs are double-buffered in the elements.
    Pipelined,
}

/// The mapping of depthwise convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Depthwise {
    /// One product per channel on the array.
    PerChannel,
    /// Block-diagonal weights: several channels per fold.
    Packed,
    /// On the vector unit.
    Vector,
    /// The cheapest of the three.
    Best,
}

/// The on-chip memories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sram {
    /// Scratchpad of the activations.
    pub a: Scratchpad,
    /// Scratchpad of the weights and tables.
    pub w: Scratchpad,
    /// The accumulators.
    pub acc: Accumulator,
}

/// One scratchpad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scratchpad {
    /// Capacity.
    pub bytes: u32,
    /// Banks; divides `bytes`.
    pub banks: u32,
    /// Accesses per bank and cycle.
    pub ports: u32,
    /// Width of one access.
    pub port_bytes: u32,
}

/// The accumulator memory, of four-byte elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Accumulator {
    /// Capacity in bytes, a multiple of four.
    pub bytes: u32,
    /// Banks; divides `bytes`.
    pub banks: u32,
}

/// The vector unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vector {
    /// Elements per operation.
    pub lanes: u32,
    /// Cycles per operation by name; a name that is not listed takes one cycle.
    pub cycles: BTreeMap<String, u32>,
}

/// The DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dma {
    /// Channels that move data at the same time.
    pub channels: u32,
    /// Transfers whose latencies overlap, per channel.
    pub in_flight: u32,
    /// Longest burst in bytes.
    pub max_burst: u32,
    /// Whether transfers run beside the array.
    pub overlap: Overlap,
}

/// Overlap of transfers and arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Overlap {
    /// A transfer and the array never work at the same time.
    None,
    /// The next tile is loaded while this one is computed.
    DoubleBuffer,
}

/// The command processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Queues {
    /// Instructions that each queue holds.
    pub depth: Depth,
    /// Cycles to decode one instruction.
    pub decode_cycles: u32,
}

/// Queue depths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Depth {
    /// Loads.
    pub ld: u32,
    /// The array.
    pub ex: u32,
    /// The vector unit.
    pub vec: u32,
    /// Stores.
    pub st: u32,
}

/// The memory outside the NPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Dram {
    /// A rate and a latency.
    Simple {
        /// Bytes per array cycle.
        bytes_per_cycle: f64,
        /// Cycles from the request to the first byte.
        latency: u64,
    },
    /// Channels and banks with rows that are open or not.
    Banked {
        /// Bytes per array cycle of all channels together, at best.
        bytes_per_cycle: f64,
        /// Cycles from the request to the first byte of an open row.
        latency: u64,
        /// Channels, which work at the same time.
        channels: u32,
        /// Banks of a channel; each has one row open.
        banks: u32,
        /// Bytes in one channel before the next one follows.
        #[serde(default = "interleave")]
        interleave: u32,
        /// Bytes of a row.
        row_bytes: u32,
        /// Cycles to close a row and open another.
        row_miss: u32,
        /// Cycles in which a channel changes between reading and writing.
        turnaround: u32,
    },
}

/// Types of array operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the types")]
pub enum NpuType {
    S8,
    U8,
    S4,
    S16,
    F16,
    Bf16,
}

/// Requantization modes, by the names of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the modes of the numeric contract")]
pub enum RequantKind {
    Fp32Rne,
    Q31Double,
    Q31Single,
}

/// Picojoules per event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are the events")]
pub struct Energy {
    /// Where the figures come from; printed with every result.
    pub source: String,
    pub mac_s8: f64,
    #[serde(default)]
    pub mac_s16: f64,
    #[serde(default)]
    pub mac_f16: f64,
    pub sram_rd_byte: f64,
    pub sram_wr_byte: f64,
    pub acc_rd: f64,
    pub acc_wr: f64,
    pub dram_byte: f64,
    pub vec_op: f64,
    pub instr: f64,
    pub static_per_cycle: f64,
}

/// A fault to inject: kind, place, cycle, seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSpec(pub String, pub String, pub u64, pub u64);

impl NpuConfig {
    /// Processing elements.
    pub fn n_elements(&self) -> u64 {
        u64::from(self.array.rows) * u64::from(self.array.cols)
    }

    /// Bytes of all on-chip memories together.
    pub fn sram_bytes(&self) -> u64 {
        let sram = &self.sram;
        u64::from(sram.a.bytes) + u64::from(sram.w.bytes) + u64::from(sram.acc.bytes)
    }

    /// Elements (of four bytes) of the accumulator memory.
    pub fn acc_elements(&self) -> u32 {
        self.sram.acc.bytes / 4
    }

    /// Cycles per vector operation `op` (`"add"`, `"lut8"`, ...).
    pub fn vector_cycles(&self, op: &str) -> u64 {
        self.vector.cycles.get(op).map_or(1, |&c| u64::from(c))
    }

    /// Whether the accumulator read path implements `mode`.
    pub fn has_requant(&self, mode: ottava_hal::refmath::RequantMode) -> bool {
        self.requant.iter().any(|r| r.mode() == mode)
    }

    /// A number that differs, for all practical purposes, between different configurations.
    ///
    /// FNV-1a over the canonical text; name, pacing (`realtime`), energies and injected faults do not change what a
    /// stream means and stay out.
    pub fn hash64(&self) -> u64 {
        let plain = Self { name: String::new(), realtime: None, energy: None, fault: Vec::new(), ..self.clone() };
        let text = ron::to_string(&plain).unwrap_or_default();
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
    }
}

impl RequantKind {
    /// The mode of the numeric contract.
    pub fn mode(self) -> ottava_hal::refmath::RequantMode {
        use ottava_hal::refmath::RequantMode as Mode;
        match self {
            Self::Fp32Rne => Mode::Fp32Rne,
            Self::Q31Double => Mode::Q31Double,
            Self::Q31Single => Mode::Q31Single,
        }
    }
}

/// What a burst moves: controllers interleave by 64 bytes to some kilobytes.
fn interleave() -> u32 {
    64
}

impl Dram {
    /// Bytes per cycle at best.
    pub fn bytes_per_cycle(&self) -> f64 {
        match self {
            Self::Simple { bytes_per_cycle, .. } | Self::Banked { bytes_per_cycle, .. } => *bytes_per_cycle,
        }
    }

    /// Cycles before the first byte of a transfer, in an open row where there are rows.
    pub fn latency(&self) -> u64 {
        match self {
            Self::Simple { latency, .. } | Self::Banked { latency, .. } => *latency,
        }
    }
}
