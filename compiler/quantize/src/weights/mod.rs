//! Quantizing weights: one scale per tensor, per output channel or per block ([`quantize_blocks`]), from the weights
//! themselves (numerics, sections 1 and 8).
//!
//! Weights are symmetric; those that share one scale may have a zero point instead, where that at least halves their
//! squared error. Weights that lie on a grid already keep its step ([`lattice_step`]).
//!
//! Guards: an all-zero channel takes the median scale of the others; no channel's scale is less than 1 % of the largest
//! one, because a tiny scale makes a huge integer bias and gains nothing. NaN and infinite weights are an error.

mod blocks;
mod lattice;

pub use blocks::{BlockLayout, BlockedWeights, Grids, quantize_blocks};
pub use lattice::lattice_step;

use crate::channels::ChannelLayout;
use crate::error::{Error, Result};
use crate::observers::{mse_factors, smallest};
use crate::params::{Grid, Params, Range, Target, params_for};

/// A channel's range is at least this share of the largest channel's.
pub const CHANNEL_FLOOR: f64 = 0.01;

/// How the range of a weight channel is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightMethod {
    /// The largest magnitude.
    #[default]
    MinMax,
    /// The range with the smallest squared error.
    Mse,
}

/// Where the zero point of weights lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightZero {
    /// In the middle, unless all weights share one scale, or are in blocks, and a free one at least halves their squared
    /// error.
    #[default]
    Auto,
    /// In the middle.
    Middle,
    /// Where the range wants it; weights that share one scale, or are in blocks.
    Free,
}

/// Integer weights and their scales.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedWeights {
    /// One integer per weight, in the weights' order.
    pub codes: Vec<i32>,
    /// One scale per channel; a single one for per-tensor weights.
    pub scales: Vec<f32>,
    /// The zero point of all channels.
    pub zero_point: i32,
    /// How the channels lie in `codes`.
    pub layout: ChannelLayout,
}

impl QuantizedWeights {
    /// The channel of element `idx`.
    pub fn channel_of(&self, idx: usize) -> usize {
        (idx / self.layout.inner) % self.layout.channels
    }

    /// The real value of element `idx` after quantization.
    pub fn dequantized(&self, idx: usize) -> f64 {
        f64::from(self.codes[idx] - self.zero_point) * f64::from(self.scales[self.channel_of(idx)])
    }

    /// The squared distance from the weights, summed in their order.
    pub fn squared_error(&self, weights: &[f32]) -> f64 {
        weights.iter().enumerate().fold(0.0, |sum, (idx, &w)| {
            let off = f64::from(w) - self.dequantized(idx);
            sum + off * off
        })
    }
}

/// Chooses scales for `weights` and quantizes them symmetrically. `layout` says where the channels are; per-tensor weights
/// have one.
pub fn quantize_weights(
    name: &str,
    weights: &[f32],
    layout: ChannelLayout,
    grid: Grid,
    method: WeightMethod,
) -> Result<QuantizedWeights> {
    let scales = weight_scales(name, weights, layout, grid, method)?;
    Ok(with_scales(weights, layout, grid, scales, grid.middle()))
}

/// As [`quantize_weights`], with the choice of a zero point. More than one channel keeps it in the middle.
pub fn quantize_weights_with_zero(
    name: &str,
    weights: &[f32],
    layout: ChannelLayout,
    grid: Grid,
    (method, zero): (WeightMethod, WeightZero),
) -> Result<QuantizedWeights> {
    let symmetric = quantize_weights(name, weights, layout, grid, method)?;
    if layout.channels > 1 || zero == WeightZero::Middle {
        return Ok(symmetric);
    }
    let free = free_params(weights, Target::asymmetric(grid), method);
    let free = with_scales(weights, layout, grid, vec![free.scale], free.zero_point);
    let is_better = || 2.0 * free.squared_error(weights) <= symmetric.squared_error(weights);
    // Equal errors of both keep the zero point that costs nothing.
    let take = zero == WeightZero::Free || (symmetric.squared_error(weights) > 0.0 && is_better());
    Ok(if take { free } else { symmetric })
}

/// Quantizes weights with scales and a zero point that are given.
pub fn with_scales(
    weights: &[f32],
    layout: ChannelLayout,
    grid: Grid,
    scales: Vec<f32>,
    zero_point: i32,
) -> QuantizedWeights {
    let mut quantized = QuantizedWeights { codes: Vec::new(), scales, zero_point, layout };
    quantized.codes = weights
        .iter()
        .enumerate()
        .map(|(idx, &w)| quantize(w, quantized.scales[quantized.channel_of(idx)], zero_point, grid))
        .collect();
    quantized
}

/// Quantize of numerics section 2 with an f32 scale.
fn quantize(w: f32, scale: f32, zero_point: i32, grid: Grid) -> i32 {
    ottava_hal::refmath::quantize::quantize_f32(w, scale, zero_point, grid.qmin, grid.qmax)
}

/// The scale of each channel.
pub fn weight_scales(
    name: &str,
    weights: &[f32],
    layout: ChannelLayout,
    grid: Grid,
    method: WeightMethod,
) -> Result<Vec<f32>> {
    let channels = split(name, weights, layout)?;
    let target = Target::symmetric(grid);
    let shared_step = lattice_step(weights);
    let reaches = channels.iter().map(|channel| {
        let own = || if channels.len() > 1 { lattice_step(channel) } else { None };
        let reach = max_abs(channel);
        let fits = |step: &f64| reach > 0.0 && reach <= (f64::from(grid.reach()) + 0.25) * step;
        // A scale that is the step of the weights' own grid reaches further than they do, and meets each of them.
        if let Some(step) = shared_step.filter(fits).or_else(|| own().filter(fits)) {
            return f64::from(grid.reach()) * step;
        }
        match method {
            WeightMethod::MinMax => reach,
            WeightMethod::Mse => smallest_error_reach(channel, target),
        }
    });
    Ok(guarded_scales(&reaches.collect::<Vec<_>>(), target))
}

/// The weights by channel, after checking that they are finite and fill the layout.
fn split(name: &str, weights: &[f32], layout: ChannelLayout) -> Result<Vec<Vec<f32>>> {
    let bad = |found: String, expected: &str| {
        Err(Error::BadWeights { tensor: name.to_owned(), found, expected: expected.to_owned() })
    };
    let period = layout.channels.checked_mul(layout.inner).filter(|p| *p > 0);
    if period.is_none_or(|p| weights.is_empty() || !weights.len().is_multiple_of(p)) {
        return bad(format!("{} weights", weights.len()), &format!("whole rows of {} channels", layout.channels));
    }
    if let Some(position) = weights.iter().position(|w| !w.is_finite()) {
        return bad(format!("weight {} at index {position}", weights[position]), "finite weights");
    }
    let mut channels = vec![Vec::with_capacity(weights.len() / layout.channels); layout.channels];
    for (idx, run) in weights.chunks_exact(layout.inner).enumerate() {
        channels[idx % layout.channels].extend_from_slice(run);
    }
    Ok(channels)
}

fn max_abs(weights: &[f32]) -> f64 {
    f64::from(weights.iter().fold(0.0f32, |max, w| max.max(w.abs())))
}

fn smallest_error_reach(weights: &[f32], target: Target) -> f64 {
    let reach = max_abs(weights);
    let error = |factor: f64| rounding_error(weights, Range { lo: 0.0, hi: factor * reach }, target);
    smallest(mse_factors(), error).unwrap_or(1.0) * reach
}

/// The squared error of the weights on the grid that covers `range`.
fn rounding_error(weights: &[f32], range: Range, target: Target) -> f64 {
    let params = params_for(range, target);
    weights.iter().fold(0.0, |sum, &w| {
        let off = f64::from(w) - params.round_trip(f64::from(w), target.grid);
        sum + off * off
    })
}

/// Scale and free zero point of weights that share them.
fn free_params(weights: &[f32], target: Target, method: WeightMethod) -> Params {
    let start = Range { lo: 0.0, hi: 0.0 };
    let full = weights.iter().fold(start, |r, &w| r.union(Range { lo: w.into(), hi: w.into() }));
    let shrunk = |lo: f64, hi: f64| Range { lo: lo * full.lo, hi: hi * full.hi };
    if let Some(step) = lattice_step(weights).filter(|step| (full.hi - full.lo) / step <= target.grid.steps().into()) {
        let hi = full.lo + f64::from(target.grid.steps()) * step;
        return params_for(Range { lo: full.lo, hi }, target);
    }
    if method == WeightMethod::MinMax {
        return params_for(full, target);
    }
    let error = |lo: f64, hi: f64| rounding_error(weights, shrunk(lo, hi), target);
    let both = smallest(mse_factors(), |a| error(a, a)).unwrap_or(1.0);
    let lo = smallest(mse_factors(), |a| error(a, both)).unwrap_or(both);
    let hi = smallest(mse_factors(), |a| error(lo, a)).unwrap_or(both);
    params_for(shrunk(lo, hi), target)
}

/// Scales for the largest magnitudes of the channels, with the guards applied.
fn guarded_scales(reaches: &[f64], target: Target) -> Vec<f32> {
    let largest = reaches.iter().copied().fold(0.0, f64::max);
    let params =
        |reach: f64| -> Params { params_for(Range { lo: 0.0, hi: reach.max(CHANNEL_FLOOR * largest) }, target) };
    let mut used: Vec<f32> = reaches.iter().filter(|r| **r > 0.0).map(|&r| params(r).scale).collect();
    used.sort_by(f32::total_cmp);
    // The lower one of two middle scales; 1 when every channel is zero.
    let median = if used.is_empty() { 1.0 } else { used[(used.len() - 1) / 2] };
    reaches.iter().map(|&reach| if reach > 0.0 { params(reach).scale } else { median }).collect()
}

#[cfg(test)]
mod tests;
