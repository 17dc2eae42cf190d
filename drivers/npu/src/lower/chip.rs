//! What lowering asks of a chip's configuration.

use ottava_hal::{DataType, RequantMode};
use ottava_npu::NpuConfig;
use ottava_npu::analytic::{ArrayShape, Depthwise, Gemm};
use ottava_npu::config::{Depthwise as Policy, NpuType};

/// The sizes and abilities of one chip.
#[derive(Debug, Clone)]
pub(crate) struct Chip {
    /// Bytes of the activations' scratchpad.
    pub a: usize,
    /// Bytes of the weights' scratchpad.
    pub w: usize,
    /// Accumulators.
    pub acc: usize,
    /// The array.
    pub array: ArrayShape,
    /// Bytes per cycle from memory.
    pub bandwidth: f64,
    /// Cycles before the first byte.
    pub latency: f64,
    /// Bytes per cycle of moves on the chip, in the slower scratchpad.
    pub moves: f64,
    depthwise: Policy,
    lanes: u64,
    /// Cycles of a multiplication on the vector unit.
    mac_cycles: u64,
    types: Vec<NpuType>,
    modes: Vec<RequantMode>,
}

impl Chip {
    /// The chip of a checked configuration.
    pub(crate) fn new(config: &NpuConfig) -> Self {
        Self {
            a: config.sram.a.bytes as usize,
            w: config.sram.w.bytes as usize,
            acc: config.acc_elements() as usize,
            array: ArrayShape::from(&config.array),
            bandwidth: config.dram.bytes_per_cycle(),
            latency: config.dram.latency() as f64,
            moves: [&config.sram.a, &config.sram.w]
                .map(|pad| f64::from(pad.ports.saturating_mul(pad.port_bytes).max(1)))
                .into_iter()
                .fold(f64::INFINITY, f64::min),
            depthwise: config.array.depthwise,
            lanes: config.vector.lanes.into(),
            mac_cycles: config.vector_cycles("mac"),
            types: config.dtypes.clone(),
            modes: config.requant.iter().map(|r| r.mode()).collect(),
        }
    }

    /// The 8-bit types of activations.
    pub(crate) fn bytes(&self) -> Vec<DataType> {
        let pairs = [(NpuType::S8, DataType::S8), (NpuType::U8, DataType::U8)];
        pairs.into_iter().filter(|(npu, _)| self.types.contains(npu)).map(|(_, ty)| ty).collect()
    }

    /// The types of elements of the vector unit.
    pub(crate) fn elements(&self) -> Vec<DataType> {
        let mut types = self.bytes();
        types.extend(self.types.contains(&NpuType::S16).then_some(DataType::S16));
        types
    }

    /// The types of weights.
    pub(crate) fn weights(&self) -> Vec<DataType> {
        let mut types = self.bytes();
        types.extend(self.types.contains(&NpuType::S4).then_some(DataType::S4));
        types
    }

    /// Whether a depthwise convolution runs on the vector unit: by the policy, or where it is faster there.
    pub(crate) fn depthwise_on_vector(&self, pixels: usize, taps: usize, channels: usize) -> bool {
        let layer = Depthwise { gemm: Gemm::new(pixels as u64, 1, taps as u64), channels: channels as u64 };
        // A layer whose cycles do not fit 64 bits is on neither unit's side.
        let cycles = |policy| layer.cost(&self.array, policy, self.lanes).map_or(u64::MAX, |c| c.cycles);
        match self.depthwise {
            Policy::Vector => true,
            Policy::PerChannel | Policy::Packed => false,
            Policy::Best => {
                let vector = cycles(Policy::Vector).saturating_mul(self.mac_cycles);
                vector < cycles(Policy::PerChannel).min(cycles(Policy::Packed))
            }
        }
    }

    /// Elements that the vector unit works on at a time.
    pub(crate) fn lanes(&self) -> u64 {
        self.lanes
    }

    /// The rounding modes of the requantizer.
    pub(crate) fn modes(&self) -> &[RequantMode] {
        &self.modes
    }
}
