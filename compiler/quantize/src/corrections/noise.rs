//! How much noise quantization puts on the outputs of the products that read a rescaled value. It serves to compare
//! scales, so rounding errors count as independent and activations in between as passed through.

use super::rescale::{Reader, Rewrite, Site};
use crate::apply::WeightShape;
use crate::channels::ChannelLayout;
use crate::error::Result;
use crate::histogram::Histogram;
use crate::recipe::{Granularity, Recipe};
use crate::weights::{WeightMethod, quantize_weights_with_zero};

/// The parts of a site that do not depend on the scales.
pub(crate) struct Noise<'a> {
    rewrite: &'a Rewrite,
    recipe: &'a Recipe,
    site: &'a Site,
    /// Mean square of each channel of the value.
    power: Vec<f64>,
    /// Mean square of what the source reads; 0 for a source without weights.
    source_power: f64,
    /// Squared weights behind each channel, over all readers.
    gain: Vec<f64>,
}

impl<'a> Noise<'a> {
    pub(crate) fn new(rewrite: &'a Rewrite, recipe: &'a Recipe, site: &'a Site) -> Self {
        let reaches = site.reaches();
        let squares: f64 = reaches.iter().map(|r| r * r).sum();
        let mean = rewrite.stats(site.value()).map_or(0.0, |stats| mean_square(&stats.histogram));
        // The histogram knows the power of all channels together; each takes the share of its squared range.
        let share = if squares > 0.0 { mean * reaches.len() as f64 / squares } else { 0.0 };
        let source = &rewrite.graph.nodes[site.node];
        let weighted = matches!(source.op.as_str(), "Conv" | "Gemm" | "MatMul");
        let input = source.input(0).filter(|_| weighted).and_then(|x| rewrite.stats(x));
        let mut gain = vec![0.0; reaches.len()];
        for reader in &site.readers {
            for (idx, w) in rewrite.floats(reader.weights).unwrap_or_default().into_iter().enumerate() {
                gain[reader.shape.in_channel(idx, reader.shape.out_of(idx))] += f64::from(w) * f64::from(w);
            }
        }
        Self {
            rewrite,
            recipe,
            site,
            power: reaches.iter().map(|r| r * r * share).collect(),
            source_power: input.map_or(0.0, |stats| mean_square(&stats.histogram)),
            gain,
        }
    }

    /// The noise with these factors.
    pub(crate) fn of(&self, factors: &[f64]) -> Result<f64> {
        let mut noise = self.activations(factors);
        for reader in &self.site.readers {
            noise += self.reader(reader, factors)?;
        }
        Ok(noise + self.source(factors)?)
    }

    /// Rounding of the value itself: one step for all channels, and each channel's share reaches the outputs as far as
    /// the weights behind it.
    fn activations(&self, factors: &[f64]) -> f64 {
        let node = &self.rewrite.graph.nodes[self.site.readers[0].node].name;
        let steps = self.recipe.for_node(node).activations.and_then(|a| a.target()).map(|t| t.grid.steps());
        let Some(steps) = steps else { return 0.0 };
        let reaches = self.site.reaches().into_iter().zip(factors);
        let step = reaches.map(|(r, f)| r * f).fold(0.0, f64::max) / f64::from(steps);
        let each = self.gain.iter().zip(factors).map(|(g, f)| g / (f * f));
        step * step / 12.0 * each.sum::<f64>()
    }

    /// Rounding of a reader's weights, driven by the power of the channels.
    fn reader(&self, reader: &Reader, factors: &[f64]) -> Result<f64> {
        let channel = |idx: usize| reader.shape.in_channel(idx, reader.shape.out_of(idx));
        let power = |idx: usize| self.power[channel(idx)] * factors[channel(idx)] * factors[channel(idx)];
        let scaled = |idx: usize| 1.0 / factors[channel(idx)];
        self.weights(reader.node, reader.weights, reader.shape, scaled, power)
    }

    /// Rounding of the source's weights, which reaches the readers' outputs.
    fn source(&self, factors: &[f64]) -> Result<f64> {
        let node = &self.rewrite.graph.nodes[self.site.node];
        let (Some(weights), Some(shape)) = (node.input(1), WeightShape::of(&self.rewrite.graph, node)) else {
            return Ok(0.0);
        };
        if self.source_power == 0.0 {
            return Ok(0.0);
        }
        let channel = |idx: usize| shape.out_of(idx);
        let squared = |idx: usize| factors[channel(idx)] * factors[channel(idx)];
        let power = |idx: usize| self.source_power * self.gain[channel(idx)] / squared(idx);
        self.weights(self.site.node, weights, shape, |idx| factors[channel(idx)], power)
    }

    /// The squared rounding errors of weights that are scaled by a factor, each times its power.
    fn weights(
        &self,
        node: usize,
        id: ottava_hal::ValueId,
        shape: WeightShape,
        factor: impl Fn(usize) -> f64,
        power: impl Fn(usize) -> f64,
    ) -> Result<f64> {
        let node = &self.rewrite.graph.nodes[node].name;
        let choice = self.recipe.for_node(node).weights;
        let values = self.rewrite.floats(id).unwrap_or_default();
        let scaled: Vec<f32> = values.iter().enumerate().map(|(idx, &w)| (f64::from(w) * factor(idx)) as f32).collect();
        let layout = match choice.granularity {
            Granularity::PerTensor => ChannelLayout { channels: 1, inner: scaled.len() },
            _ => shape.layout,
        };
        let how = (WeightMethod::MinMax, choice.zero_point);
        let q = quantize_weights_with_zero(self.rewrite.graph.name_of(id), &scaled, layout, choice.grid(), how)?;
        let error = |(idx, &w): (usize, &f32)| {
            let off = f64::from(w) - q.dequantized(idx);
            off * off * power(idx)
        };
        Ok(scaled.iter().enumerate().map(error).sum())
    }
}

/// The mean square of the finite values, from bin centres.
fn mean_square(histogram: &Histogram) -> f64 {
    let width = histogram.bin_width();
    let square = |(bin, count): (i32, u64)| {
        let centre = (f64::from(bin) + 0.5) * width;
        count as f64 * centre * centre
    };
    histogram.bins().map(square).sum::<f64>() / (histogram.finite() as f64).max(1.0)
}
