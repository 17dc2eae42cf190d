//! What a simulated list says: the document of `--json`, and the sums in it.

use super::LayersError;
use crate::analytic::{self, Traffic, utilization};
use crate::sweep::Figures;
use crate::timing::Reason;
use crate::{Counters, NpuConfig, energy};
use serde::{Serialize, Serializer};

/// A simulated list of layers. Keys are stable; sums count a layer as often as its network has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Sums over everything.
    #[serde(flatten)]
    pub totals: Totals,
    /// Array rows.
    pub array_rows: u64,
    /// Array columns.
    pub array_cols: u64,
    /// Dataflow: `os`, `ws`, `is`.
    pub dataflow: &'static str,
    /// Timing mode: `fold_serial`, `edge_trim`, `pipelined`.
    pub mode: &'static str,
    /// Sums per network, in the order of the list.
    pub networks: Vec<NetworkReport>,
    /// One entry per row of the list.
    pub layers: Vec<LayerReport>,
    /// What a reader should doubt.
    pub warnings: Vec<String>,
}

/// Sums over layers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct Totals {
    /// Cycles, waiting included.
    pub total_cycles: u64,
    /// Cycles in which the array, or the vector unit in its place, was busy.
    pub compute_cycles: u64,
    /// Cycles of waiting, by reason; with the busy ones they make the total.
    pub stall_cycles: Stalls,
    /// Bytes between chip and memory, both ways.
    pub dram_bytes: u64,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Multiply-accumulates per cycle and processing element, 0 to 1.
    pub utilization: f64,
}

/// Cycles of waiting, by reason. The document has every [`Reason`]; those that closed forms do not know are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stalls {
    /// For operands.
    pub dma_in: u64,
    /// For stores that were before the operands.
    pub dma_out: u64,
    /// For the last stores.
    pub drain: u64,
}

/// Sums over the layers of one network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkReport {
    /// Name of the network.
    pub name: String,
    /// Its sums.
    #[serde(flatten)]
    pub totals: Totals,
}

/// One layer, once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerReport {
    /// The network that it belongs to.
    pub network: String,
    /// Its name.
    pub name: String,
    /// `conv`, `dw` or `gemm`.
    pub kind: &'static str,
    /// How it runs: `array`, `per_channel`, `packed(k)`, `vector(lanes)`.
    pub mapping: String,
    /// M of the product of one channel.
    pub m: u64,
    /// N.
    pub n: u64,
    /// K.
    pub k: u64,
    /// Channels or groups.
    pub channels: u64,
    /// How often the network has it; the figures here are for one.
    pub count: u64,
    /// Cycles, accesses of memory and utilisation.
    #[serde(flatten)]
    pub totals: Totals,
    /// Array cycles of one channel alone.
    pub channel_cycles: u64,
    /// Share of the array that the folds fill, 0 to 1.
    pub mapping_efficiency: f64,
    /// Scratchpad reads of the left operand, in elements.
    pub sram_a_reads: u64,
    /// Scratchpad reads of the weights, in elements.
    pub sram_w_reads: u64,
    /// Scratchpad and accumulator writes of outputs and partial sums, in elements.
    pub sram_o_writes: u64,
    /// Bytes between chip and memory, by what they are.
    pub dram: TrafficReport,
}

/// Bytes between chip and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TrafficReport {
    /// Left operand, read.
    pub a_reads: u64,
    /// Weights, read.
    pub w_reads: u64,
    /// Partial sums, read.
    pub psum_reads: u64,
    /// Outputs, written.
    pub o_writes: u64,
    /// Partial sums, written.
    pub psum_writes: u64,
}

impl From<Traffic> for TrafficReport {
    fn from(Traffic { a, w, psum_in, out, psum_out }: Traffic) -> Self {
        Self { a_reads: a, w_reads: w, psum_reads: psum_in, o_writes: out, psum_writes: psum_out }
    }
}

impl LayerReport {
    /// What one layer counts: loads fill scratchpads, stores empty accumulators.
    pub fn counters(&self) -> Counters {
        let t = &self.dram;
        let (loads, stores) = (t.a_reads.saturating_add(t.w_reads), t.o_writes);
        Counters {
            macs: self.totals.macs,
            sram_bytes_read: self.sram_a_reads.saturating_add(self.sram_w_reads),
            sram_bytes_written: loads,
            acc_read: stores.saturating_add(t.psum_writes / 4),
            acc_written: self.sram_o_writes,
            dram_bytes_read: loads.saturating_add(t.psum_reads),
            dram_bytes_written: stores.saturating_add(t.psum_writes),
            ..Counters::default()
        }
    }
}

impl Report {
    /// Femtojoules of everything; `None` without a table.
    pub fn energy_fj(&self, config: &NpuConfig) -> Option<u128> {
        let table = config.energy.as_ref()?;
        let one = |l: &LayerReport| {
            let all = energy::bill(table, &l.counters(), l.totals.total_cycles).total_fj();
            all.saturating_mul(l.count.into())
        };
        Some(self.layers.iter().map(one).fold(0, u128::saturating_add))
    }

    /// The figures of a sweep's row.
    pub fn figures(&self, config: &NpuConfig) -> Figures {
        let t = &self.totals;
        let stalls = Reason::ALL.map(|r| t.stall_cycles.of(r));
        Figures {
            total_cycles: t.total_cycles,
            compute_cycles: t.compute_cycles,
            stalls,
            macs: t.macs,
            sram_bytes: config.sram_bytes(),
            dram_bytes: t.dram_bytes,
            energy_fj: self.energy_fj(config),
            elsewhere: 0,
        }
    }
}

impl Serialize for Stalls {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Reason::ALL.iter().map(|r| (r.name(), self.of(*r))))
    }
}

impl Stalls {
    /// The cycles of a reason.
    pub fn of(&self, reason: Reason) -> u64 {
        match reason {
            Reason::DmaIn => self.dma_in,
            Reason::DmaOut => self.dma_out,
            Reason::Drain => self.drain,
            Reason::DepToken | Reason::Bank | Reason::Issue | Reason::Vector => 0,
        }
    }

    /// All reasons together.
    pub fn sum(&self) -> u64 {
        self.dma_in.saturating_add(self.dma_out).saturating_add(self.drain)
    }
}

impl Totals {
    /// Sums over layers, each as often as it occurs, on an array of this size.
    pub(super) fn over<'a>(
        name: &str,
        layers: impl Iterator<Item = &'a LayerReport>,
        array: (u64, u64),
    ) -> Result<Self, LayersError> {
        let mut sum = Self::default();
        for layer in layers {
            sum = sum.plus(&layer.totals, layer.count).ok_or_else(|| LayersError::Sum {
                network: crate::suggest::excerpt(name),
                source: analytic::Error::Overflow { what: "the sum over the layers" },
            })?;
        }
        sum.utilization = utilization(sum.macs, sum.total_cycles, array.0, array.1);
        Ok(sum)
    }

    /// This and `count` times `other`; utilisation is left as it is.
    fn plus(&self, other: &Self, count: u64) -> Option<Self> {
        let add = |sum: u64, term: u64| term.checked_mul(count)?.checked_add(sum);
        let (stalls, more) = (&self.stall_cycles, &other.stall_cycles);
        Some(Self {
            total_cycles: add(self.total_cycles, other.total_cycles)?,
            compute_cycles: add(self.compute_cycles, other.compute_cycles)?,
            stall_cycles: Stalls {
                dma_in: add(stalls.dma_in, more.dma_in)?,
                dma_out: add(stalls.dma_out, more.dma_out)?,
                drain: add(stalls.drain, more.drain)?,
            },
            dram_bytes: add(self.dram_bytes, other.dram_bytes)?,
            macs: add(self.macs, other.macs)?,
            utilization: self.utilization,
        })
    }
}
