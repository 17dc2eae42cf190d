//! Weights in blocks: so many consecutive ones along the reduction share a scale (numerics, section 1).
//!
//! No integer sum has room for such scales, so blocked weights are stored as integers and computed with as floats: the
//! guards that keep an integer bias small do not apply. A block of zeros takes scale 1.

use super::{WeightMethod, WeightZero, free_params, max_abs, smallest_error_reach};
use crate::error::{Error, Result};
use crate::params::{Grid, Params, Range, Target, params_for};
use ottava_hal::refmath::quantize::quantize_f32;

/// How the blocks of a tensor lie: element `i` is number `(i / inner) % extent` along the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLayout {
    /// Elements along the axis, at least 1.
    pub extent: usize,
    /// Elements between two of them, at least 1.
    pub inner: usize,
    /// Consecutive ones that share a scale, at least 1.
    pub block: usize,
}

impl BlockLayout {
    /// The blocks along `axis` of a tensor; `None` where there is no such axis or no element.
    pub fn of(shape: &[usize], axis: usize, block: usize) -> Option<Self> {
        let extent = *shape.get(axis)?;
        let inner = shape[axis + 1..].iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        (extent > 0 && inner > 0 && block > 0).then_some(Self { extent, inner, block })
    }

    /// Blocks along the axis; the last one may be shorter.
    pub fn n_blocks(&self) -> usize {
        self.extent.div_ceil(self.block)
    }

    /// The block of element `idx`, in the order of the scales: that of the weights, with the axis divided by the block.
    pub fn block_of(&self, idx: usize) -> usize {
        let along = idx / self.inner;
        let (outer, block) = (along / self.extent, along % self.extent / self.block);
        (outer * self.n_blocks() + block) * self.inner + idx % self.inner
    }
}

/// Integer weights with a scale and a zero point for each block.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockedWeights {
    /// One integer per weight, in the weights' order.
    pub codes: Vec<i32>,
    /// One scale per block.
    pub scales: Vec<f32>,
    /// One zero point per block.
    pub zero_points: Vec<i32>,
    /// Where the blocks lie.
    pub layout: BlockLayout,
}

impl BlockedWeights {
    /// The real value of element `idx` after quantization (numerics, section 2).
    pub fn dequantized(&self, idx: usize) -> f32 {
        let block = self.layout.block_of(idx);
        (self.codes[idx] - self.zero_points[block]) as f32 * self.scales[block]
    }

    /// The squared distance from the weights, summed in their order.
    pub fn squared_error(&self, weights: &[f32]) -> f64 {
        weights.iter().enumerate().fold(0.0, |sum, (idx, &w)| {
            let off = f64::from(w) - f64::from(self.dequantized(idx));
            sum + off * off
        })
    }
}

/// The integers of one storage: those of symmetric weights, and all of them for a free zero point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grids {
    /// Symmetric about the middle.
    pub symmetric: Grid,
    /// The whole storage.
    pub whole: Grid,
}

/// Quantizes weights block by block. `WeightZero::Auto` gives the blocks zero points of their own where this at least
/// halves the squared error of the tensor.
pub fn quantize_blocks(
    name: &str,
    weights: &[f32],
    layout: BlockLayout,
    grids: Grids,
    (method, zero): (WeightMethod, WeightZero),
) -> Result<BlockedWeights> {
    let blocks = split(name, weights, layout)?;
    let middle = || {
        let params = blocks.iter().map(|block| symmetric_params(block, Target::symmetric(grids.symmetric), method));
        with_params(weights, layout, grids.symmetric, params.collect())
    };
    let free = || {
        let params = blocks.iter().map(|block| free_params(block, Target::asymmetric(grids.whole), method));
        with_params(weights, layout, grids.whole, params.collect())
    };
    Ok(match zero {
        WeightZero::Middle => middle(),
        WeightZero::Free => free(),
        WeightZero::Auto => {
            let (middle, free) = (middle(), free());
            let [plain, better] = [&middle, &free].map(|q| q.squared_error(weights));
            if plain > 0.0 && 2.0 * better <= plain { free } else { middle }
        }
    })
}

/// A block of zeros has no scale; 1 stands in, and the zero point stays where symmetric weights have it.
fn symmetric_params(block: &[f32], target: Target, method: WeightMethod) -> Params {
    let reach = match method {
        WeightMethod::MinMax => max_abs(block),
        WeightMethod::Mse => smallest_error_reach(block, target),
    };
    let params = params_for(Range { lo: 0.0, hi: reach }, target);
    Params { zero_point: target.grid.middle(), ..params }
}

fn with_params(weights: &[f32], layout: BlockLayout, grid: Grid, params: Vec<Params>) -> BlockedWeights {
    let code = |(idx, &w): (usize, &f32)| {
        let p = params[layout.block_of(idx)];
        quantize_f32(w, p.scale, p.zero_point, grid.qmin, grid.qmax)
    };
    let codes = weights.iter().enumerate().map(code).collect();
    let (scales, zero_points) = params.iter().map(|p| (p.scale, p.zero_point.clamp(grid.qmin, grid.qmax))).unzip();
    BlockedWeights { codes, scales, zero_points, layout }
}

/// The weights by block, after checking that they are finite and fill the layout.
fn split(name: &str, weights: &[f32], layout: BlockLayout) -> Result<Vec<Vec<f32>>> {
    let bad = |found: String, expected: String| Err(Error::BadWeights { tensor: name.to_owned(), found, expected });
    let period = layout.extent.checked_mul(layout.inner).filter(|p| *p > 0 && layout.block > 0);
    let Some(period) = period.filter(|p| !weights.is_empty() && weights.len().is_multiple_of(*p)) else {
        return bad(format!("{} weights", weights.len()), format!("whole rows of {} weights", layout.extent));
    };
    if let Some(position) = weights.iter().position(|w| !w.is_finite()) {
        return bad(format!("weight {} at index {position}", weights[position]), "finite weights".to_owned());
    }
    let n = weights.len() / period * layout.n_blocks() * layout.inner;
    let mut blocks = vec![Vec::with_capacity(layout.block.min(layout.extent)); n];
    weights.iter().enumerate().for_each(|(idx, &w)| blocks[layout.block_of(idx)].push(w));
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S4: Grids = Grids { symmetric: Grid::S4_WEIGHTS, whole: Grid { qmin: -8, qmax: 7 } };
    const U4: Grids = Grids { symmetric: Grid::U4_WEIGHTS, whole: Grid { qmin: 0, qmax: 15 } };

    fn blocks(weights: &[f32], layout: BlockLayout, grids: Grids, zero: WeightZero) -> BlockedWeights {
        quantize_blocks("w", weights, layout, grids, (WeightMethod::MinMax, zero)).unwrap()
    }

    #[test]
    fn blocks_along_the_first_axis_of_a_matrix_with_a_shorter_last_one() {
        // Three rows, two columns; blocks of two rows.
        let layout = BlockLayout::of(&[3, 2], 0, 2).unwrap();
        let weights = [0.7, 14.0, -0.35, 7.0, 70.0, 0.0];
        let q = blocks(&weights, layout, S4, WeightZero::Middle);
        assert_eq!(q.scales, [0.7f32 / 7.0, 2.0, 10.0, 1.0]);
        assert_eq!(q.codes, [7, 7, -4, 4, 7, 0]);
        assert_eq!(q.zero_points, [0; 4]);
        let unsigned = blocks(&weights, layout, U4, WeightZero::Middle);
        assert_eq!((unsigned.codes, unsigned.zero_points), (vec![15, 15, 4, 12, 15, 8], vec![8; 4]));
    }

    #[test]
    fn a_free_zero_point_reaches_both_ends_of_each_block() {
        let layout = BlockLayout::of(&[2, 4], 1, 2).unwrap();
        let weights = [1.5, 0.0, -3.0, 0.0, 15.0, 1.0, 0.1, 0.1];
        let q = blocks(&weights, layout, U4, WeightZero::Free);
        assert_eq!(q.zero_points, [0, 15, 0, 0]);
        assert_eq!(q.scales, [0.1, 0.2, 1.0, (f64::from(0.1f32) / 15.0) as f32]);
        assert_eq!(blocks(&weights, layout, U4, WeightZero::Auto), q, "one-sided blocks gain a bit");
        let even = [1.0, -1.0, 0.9, -0.95, 2.0, -2.0, 0.3, -0.3];
        assert_eq!(blocks(&even, layout, S4, WeightZero::Auto), blocks(&even, layout, S4, WeightZero::Middle));
    }

    #[test]
    fn broken_weights_are_named() {
        let layout = BlockLayout::of(&[2, 4], 1, 2).unwrap();
        let error = |w: &[f32]| {
            let how = (WeightMethod::MinMax, WeightZero::Auto);
            quantize_blocks("fc.w", w, layout, S4, how).unwrap_err().to_string()
        };
        assert!(error(&[1.0; 7]).contains("`fc.w`: 7 weights"));
        assert!(error(&[1.0, 1.0, f32::INFINITY, 1.0]).contains("inf at index 2"));
        assert_eq!(BlockLayout::of(&[2], 1, 2), None);
    }

    proptest! {
        /// Every weight comes back to within half a step of its block, and the map of elements to scales is that of the
        /// operator that reads them.
        #[test]
        fn weights_come_back_to_half_a_step(
            shape in prop::collection::vec(1usize..6, 1..4), axis in 0usize..3, block in 1usize..5, seed in any::<u64>(),
            free in any::<bool>(),
        ) {
            prop_assume!(axis < shape.len());
            let layout = BlockLayout::of(&shape, axis, block).unwrap();
            let mut state = seed;
            let weights: Vec<f32> = (0..shape.iter().product::<usize>()).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f32 / 8_388_608.0 - 1.0
            }).collect();
            let zero = if free { WeightZero::Free } else { WeightZero::Middle };
            let q = blocks(&weights, layout, S4, zero);
            let params = ottava_hal::QuantParams {
                scheme: ottava_hal::Scheme::Blocked { axis, block },
                scales: q.scales.clone(),
                zero_points: q.zero_points.clone(),
            };
            prop_assert!(params.check(ottava_hal::DataType::S4, Some(&shape)).is_ok());
            let index = ottava_ops::quant::channel_index(&params, &shape);
            for (idx, w) in weights.iter().enumerate() {
                prop_assert_eq!(index.of(idx), layout.block_of(idx));
                let step = q.scales[layout.block_of(idx)];
                prop_assert!((q.dequantized(idx) - w).abs() <= step * 0.5001, "{} {}", q.dequantized(idx), w);
            }
        }
    }
}
