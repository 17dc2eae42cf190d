//! The three ways to run a depthwise convolution (`npu.md` section 3).
//!
//! * per channel: one product after the other, the array almost empty;
//! * packed: several channels lie on the diagonal of a weight-stationary array, each with rows and columns of its own;
//! * vector: the vector unit multiplies and adds, one channel per lane.

use super::gemm_run::check_count;
use super::shape::product;
use super::{
    ArrayShape, Buffers, DIM_MAX, Dram, Fold, Gemm, Result, Run, SramAccesses, Traffic, TwoBuffers, compute_cycles,
    fold_cycles, gemm_run, in_range, narrow, sram_accesses,
};
use crate::config::{Dataflow, Depthwise as DepthwisePolicy};

/// A depthwise convolution: the product of one channel, and the number of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Depthwise {
    /// One channel: M output positions, N outputs per input channel (usually 1), K elements of the window.
    pub gemm: Gemm,
    /// Input channels.
    pub channels: u64,
}

/// How a layer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DepthwiseMapping {
    /// One channel after the other.
    PerChannel,
    /// So many channels at a time on the diagonal of the array.
    Packed {
        /// Channels of a full fold.
        per_fold: u64,
    },
    /// On the vector unit.
    Vector {
        /// Channels that run at a time.
        lanes: u64,
    },
}

/// The chosen way, its cycles and its accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DepthwiseCost {
    /// How the layer runs.
    pub mapping: DepthwiseMapping,
    /// Cycles of the array, or of the vector unit.
    pub cycles: u64,
    /// Scratchpad accesses.
    pub accesses: SramAccesses,
}

impl Depthwise {
    /// Cost under a policy, with a vector unit of `lanes` lanes.
    pub fn cost(&self, array: &ArrayShape, policy: DepthwisePolicy, lanes: u64) -> Result<DepthwiseCost> {
        let cost = |mapping| self.cost_of(array, mapping);
        let vector = DepthwiseMapping::Vector { lanes };
        let packed = match packed_channels(array, &self.gemm)? {
            0 => DepthwiseMapping::PerChannel,
            per_fold => DepthwiseMapping::Packed { per_fold },
        };
        match policy {
            DepthwisePolicy::PerChannel => cost(DepthwiseMapping::PerChannel),
            DepthwisePolicy::Packed => cost(packed),
            DepthwisePolicy::Vector => cost(vector),
            // The array goes before the vector unit where both take as long: it leaves the vector unit free.
            DepthwisePolicy::Best => {
                let (array, vector) = (cost(packed)?, cost(vector)?);
                let single = cost(DepthwiseMapping::PerChannel)?;
                let best = if array.cycles < single.cycles { array } else { single };
                Ok(if vector.cycles < best.cycles { vector } else { best })
            }
        }
    }

    /// Cost of one way.
    pub fn cost_of(&self, array: &ArrayShape, mapping: DepthwiseMapping) -> Result<DepthwiseCost> {
        in_range(self.channels, DIM_MAX, "number of channels")?;
        let (cycles, accesses) = match mapping {
            DepthwiseMapping::PerChannel => {
                let cycles = product(&[compute_cycles(array, &self.gemm)?, self.channels]);
                (cycles, sram_accesses(array, &self.gemm)?.repeat(self.channels)?)
            }
            DepthwiseMapping::Packed { per_fold } => {
                (self.packed_cycles(array, self.fitting(array, per_fold)?)?, self.once()?)
            }
            DepthwiseMapping::Vector { lanes } => {
                let groups = self.channels.div_ceil(in_range(lanes, DIM_MAX, "number of vector lanes")?);
                let macs = self.gemm.macs()?;
                (product(&[groups, macs]), self.on_lanes(macs)?)
            }
        };
        Ok(DepthwiseCost { mapping, cycles: narrow(cycles, "number of compute cycles")?, accesses })
    }

    /// `per_fold`, if so many channels fit the array at a time.
    fn fitting(&self, array: &ArrayShape, per_fold: u64) -> Result<u64> {
        in_range(per_fold, packed_channels(array, &self.gemm)?, "number of channels per fold")
    }

    /// Folds of a packed run: channels of each, full ones first, then the rest; with the number of such folds.
    fn groups(&self, per_fold: u64) -> [(u64, u64); 2] {
        [(per_fold, self.channels / per_fold), (self.channels % per_fold, 1)]
    }

    fn packed_cycles(&self, array: &ArrayShape, per_fold: u64) -> Result<u128> {
        let mut cycles = 0;
        let mut first = true;
        for (channels, n) in self.groups(per_fold).into_iter().filter(|&(channels, n)| channels > 0 && n > 0) {
            let later = u128::from(fold_cycles(array, &self.packed_fold(channels, false))?);
            let begin = u128::from(fold_cycles(array, &self.packed_fold(channels, first))?);
            cycles += begin + later * u128::from(n - 1);
            first = false;
        }
        Ok(cycles)
    }

    /// A fold of `channels` channels on the diagonal.
    fn packed_fold(&self, channels: u64, first: bool) -> Fold {
        Fold { row: 0, col: u64::from(!first), r: channels * self.gemm.k, c: channels * self.gemm.n, t: self.gemm.m }
    }

    /// Accesses when each element is needed once.
    fn once(&self) -> Result<SramAccesses> {
        let &Gemm { m, n, k } = self.gemm.check()?;
        let count = |factors: &[u64]| narrow(product(factors), "number of scratchpad accesses");
        let channels = self.channels;
        Ok(SramAccesses { a: count(&[m, k, channels])?, w: count(&[k, n, channels])?, o: count(&[m, n, channels])? })
    }

    /// Accesses of lanes, which keep nothing but their sum: both operands are read for each multiply-accumulate.
    fn on_lanes(&self, macs: u64) -> Result<SramAccesses> {
        let reads = narrow(product(&[macs, self.channels]), "number of scratchpad accesses")?;
        Ok(SramAccesses { a: reads, w: reads, ..self.once()? })
    }
}

/// `k`: channels that fit the diagonal of the array at a time; 0 where packing is not possible.
///
/// Only weights that stay can be laid out so: with another dataflow the channels would be added up.
pub fn packed_channels(array: &ArrayShape, gemm: &Gemm) -> Result<u64> {
    let &ArrayShape { rows, cols, dataflow, .. } = array.check()?;
    let &Gemm { n, k, .. } = gemm.check()?;
    Ok(if dataflow == Dataflow::Ws { (rows / k).min(cols / n) } else { 0 })
}

/// Runs a depthwise convolution, mapped as `mapping`, over a memory. A vector group is a fold of its own.
pub fn depthwise_run(
    array: &ArrayShape,
    layer: &Depthwise,
    mapping: DepthwiseMapping,
    buffers: &Buffers,
    dram: Dram,
) -> Result<Run> {
    let per_fold = match mapping {
        DepthwiseMapping::PerChannel => {
            in_range(layer.channels, DIM_MAX, "number of channels")?;
            return gemm_run(array, &layer.gemm, buffers, dram)?.repeat(layer.channels);
        }
        DepthwiseMapping::Packed { per_fold } => layer.fitting(array, per_fold)?,
        DepthwiseMapping::Vector { lanes } => in_range(lanes, DIM_MAX, "number of vector lanes")?,
    };
    check_count(layer.channels.div_ceil(per_fold).into())?;
    let mut state = TwoBuffers::new(dram);
    let mut first = true;
    for (channels, n) in layer.groups(per_fold).into_iter().filter(|&(channels, _)| channels > 0) {
        let traffic = Depthwise { channels, ..*layer }.once()?;
        let traffic = Traffic { a: traffic.a, w: traffic.w, out: traffic.o, ..Traffic::default() };
        for _ in 0..n {
            let cycles = match mapping {
                DepthwiseMapping::Vector { .. } => layer.gemm.macs()?,
                _ => fold_cycles(array, &layer.packed_fold(channels, first))?,
            };
            state.fold(cycles, &traffic)?;
            first = false;
        }
    }
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Timing;

    const WS: ArrayShape =
        ArrayShape { rows: 32, cols: 32, dataflow: Dataflow::Ws, timing: Timing::FoldSerial, ports: None };
    const LAYER: Depthwise = Depthwise { gemm: Gemm::new(100, 1, 9), channels: 64 };

    #[test]
    fn three_channels_of_nine_fit_thirty_two_rows() {
        assert_eq!(packed_channels(&WS, &LAYER.gemm).unwrap(), 3);
        let cost = LAYER.cost(&WS, DepthwisePolicy::Packed, 16).unwrap();
        assert_eq!(cost.cycles, 22 * (100 + 2 * 32 + 32 - 2));
        assert_eq!(cost.accesses, SramAccesses { a: 57600, w: 576, o: 6400 });
        let single = LAYER.cost(&WS, DepthwisePolicy::PerChannel, 16).unwrap();
        assert_eq!(single.cycles, 64 * (100 + 2 * 32 + 32 - 2));
        let vector = LAYER.cost(&WS, DepthwisePolicy::Vector, 16).unwrap();
        assert_eq!(vector.cycles, 4 * 100 * 9);
    }

    #[test]
    fn the_best_way_depends_on_the_vector_unit() {
        let best = |lanes| LAYER.cost(&WS, DepthwisePolicy::Best, lanes).unwrap().mapping;
        assert_eq!(best(16), DepthwiseMapping::Vector { lanes: 16 });
        assert_eq!(best(1), DepthwiseMapping::Packed { per_fold: 3 });
        // A window that does not fit the rows cannot be packed.
        let wide = Depthwise { gemm: Gemm::new(100, 1, 49), channels: 64 };
        let cost = wide.cost(&WS, DepthwisePolicy::Packed, 16).unwrap();
        assert_eq!(cost.mapping, DepthwiseMapping::PerChannel);
    }

    #[test]
    fn a_run_without_limits_takes_the_cycles_of_the_cost() {
        let buffers = Buffers { a_bytes: 1 << 18, w_bytes: 1 << 18, acc_bytes: 1 << 16 };
        for timing in [Timing::FoldSerial, Timing::EdgeTrim, Timing::Pipelined] {
            let array = ArrayShape { timing, ..WS };
            for policy in [DepthwisePolicy::PerChannel, DepthwisePolicy::Packed, DepthwisePolicy::Vector] {
                let cost = LAYER.cost(&array, policy, 24).unwrap();
                let run = depthwise_run(&array, &LAYER, cost.mapping, &buffers, Dram::UNLIMITED).unwrap();
                assert_eq!(run.compute, cost.cycles, "{timing:?} {policy:?}");
                assert_eq!((run.traffic.a, run.traffic.w, run.traffic.out), (57600, 576, 6400));
            }
        }
    }
}
