//! Quantizing weights: symmetric, one scale per tensor or per output channel, from the weights themselves (numerics,
//! sections 1 and 8).
//!
//! Guards: an all-zero channel takes the median scale of the others; no channel's scale is less than 1 % of the largest
//! one, because a tiny scale makes a huge integer bias and gains nothing. NaN and infinite weights are an error.

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
}

/// Chooses scales for `weights` and quantizes them. `layout` says where the channels are; per-tensor weights have one.
pub fn quantize_weights(
    name: &str,
    weights: &[f32],
    layout: ChannelLayout,
    grid: Grid,
    method: WeightMethod,
) -> Result<QuantizedWeights> {
    let scales = weight_scales(name, weights, layout, grid, method)?;
    Ok(with_scales(weights, layout, grid, scales))
}

/// Quantizes weights with scales that are given.
pub fn with_scales(weights: &[f32], layout: ChannelLayout, grid: Grid, scales: Vec<f32>) -> QuantizedWeights {
    let zero_point = grid.middle();
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
    let reaches = channels.iter().map(|channel| match method {
        WeightMethod::MinMax => max_abs(channel),
        WeightMethod::Mse => smallest_error_reach(channel, target),
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
    let error = |factor: f64| {
        let params = params_for(Range { lo: 0.0, hi: factor * reach }, target);
        weights.iter().fold(0.0, |sum, &w| {
            let off = f64::from(w) - params.round_trip(f64::from(w), target.grid);
            sum + off * off
        })
    };
    smallest(mse_factors(), error).unwrap_or(1.0) * reach
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONV: ChannelLayout = ChannelLayout { channels: 3, inner: 2 };

    fn minmax(weights: &[f32], layout: ChannelLayout) -> QuantizedWeights {
        quantize_weights("w", weights, layout, Grid::S8_WEIGHTS, WeightMethod::MinMax).unwrap()
    }

    #[test]
    fn each_channel_uses_its_full_range() {
        let q = minmax(&[1.27, -0.635, 2.54, 0.0, -12.7, 6.35], CONV);
        assert_eq!(q.scales, [1.27 / 127.0, 2.54 / 127.0, 12.7 / 127.0]);
        // -0.635 / 0.01 is just below the tie.
        assert_eq!(q.codes, [127, -64, 127, 0, -127, 64]);
        assert_eq!(q.zero_point, 0);
    }

    #[test]
    fn the_channel_axis_may_be_the_last_one() {
        let q = minmax(&[1.0, 10.0, -0.5, 5.0], ChannelLayout { channels: 2, inner: 1 });
        assert_eq!(q.codes, [127, 127, -64, 64]);
    }

    #[test]
    fn a_zero_channel_takes_the_median_and_a_tiny_one_the_floor() {
        let weights = [1.0, 1.0, 0.0, 0.0, 1e-9, 0.0];
        let q = minmax(&weights, CONV);
        let (full, floor) = ((1.0 / 127.0) as f32, (0.01 / 127.0) as f32);
        assert_eq!(q.scales, [full, floor, floor]);
        assert_eq!(q.codes, [127, 127, 0, 0, 0, 0]);
        assert_eq!(minmax(&[0.0; 6], CONV).scales, [1.0; 3]);
    }

    #[test]
    fn unsigned_weights_are_symmetric_about_128() {
        let one = ChannelLayout { channels: 1, inner: 3 };
        let q = quantize_weights("w", &[-1.0, 0.0, 1.0], one, Grid::U8_WEIGHTS, WeightMethod::MinMax).unwrap();
        assert_eq!((q.codes, q.zero_point), (vec![1, 128, 255], 128));
    }

    #[test]
    fn broken_weights_are_named() {
        let error = |w: &[f32]| weight_scales("conv.w", w, CONV, Grid::S8_WEIGHTS, WeightMethod::Mse).unwrap_err();
        assert!(error(&[1.0; 5]).to_string().contains("`conv.w`: 5 weights"));
        assert!(error(&[1.0, 2.0, f32::NAN, 0.0, 0.0, 0.0]).to_string().contains("NaN at index 2"));
    }

    proptest! {
        #[test]
        fn mse_is_never_worse_than_min_max_and_equals_brute_force(weights in prop::collection::vec(-1.0f32..1.0, 1..60)) {
            let one = ChannelLayout { channels: 1, inner: weights.len() };
            let error = |q: &QuantizedWeights| -> f64 {
                weights.iter().enumerate().map(|(i, &w)| (f64::from(w) - q.dequantized(i)).powi(2)).sum()
            };
            let mse = quantize_weights("w", &weights, one, Grid::S8_WEIGHTS, WeightMethod::Mse).unwrap();
            let reach = max_abs(&weights);
            let best = (20..=100)
                .map(|p| ((f64::from(p) / 100.0 * reach / 127.0) as f32).max(f32::MIN_POSITIVE))
                .map(|s| error(&with_scales(&weights, one, Grid::S8_WEIGHTS, vec![s])))
                .fold(f64::INFINITY, f64::min);
            prop_assert!(error(&mse) <= best * 1.001 + 1e-12);
            prop_assert!(error(&mse) <= error(&minmax(&weights, one)) * 1.001 + 1e-12);
        }
    }
}
