//! Cross-layer equalization (Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias
//! Correction"): a scale moves from one layer into the next, so that the channels in between reach equally far and one
//! step serves them all.
//!
//! The paper evens out weight ranges, which matter where a whole tensor has one scale. Here activation ranges count as
//! well, and sets of factors are compared by the noise that they leave ([`super::noise`]), activations and weights
//! together. Layers whose noise falls by less than a tenth stay as they are.

use ottava_graph::Diagnostic;
use ottava_hal::ValueId;

use super::noise::Noise;
use super::rescale::{Rewrite, Site, Source};
use crate::apply::{WeightShape, is_float};
use crate::channels::ChannelLayout;
use crate::error::Result;
use crate::recipe::{Correction, Granularity, Recipe};

/// What of the noise may be left for a change to be worth it.
const WORTH: f64 = 0.9;
/// How much of the difference between activation ranges is evened out, in logarithms, where the weights behind lose what
/// a channel gains. Depthwise weights with a scale per channel lose nothing: there it is all.
const SHARE: f64 = 0.5;
/// A channel grows by at most this, so as to use the range of its value, for every so many samples. One that the data
/// hardly reach may reach much further on new data, the more so the fewer samples there were; and there it would leave the
/// range as many times further as it has grown.
const SAMPLES_PER_GROWTH: f64 = 4.0;
/// What a channel may grow by, however few samples there are.
const LEAST_GROWTH: f64 = 2.0;

pub(super) fn equalize(rewrite: &mut Rewrite, recipe: &Recipe, _: Correction) -> Result<()> {
    // With one scale for a whole tensor, what a layer gains depends on its neighbours: a second round follows them.
    let rounds = if recipe.weights.granularity == Granularity::PerTensor { 2 } else { 1 };
    for _ in 0..rounds {
        for node in 0..rewrite.graph.nodes.len() {
            let Some(site) = site_of(rewrite, recipe, node) else { continue };
            let Some(factors) = best(rewrite, recipe, &site)? else { continue };
            note(rewrite, &site, &factors);
            rewrite.apply(&site, &factors);
        }
    }
    Ok(())
}

/// The site behind a product with constant weights.
pub(super) fn site_of(rewrite: &Rewrite, recipe: &Recipe, idx: usize) -> Option<Site> {
    let node = &rewrite.graph.nodes[idx];
    let known = node.domain.is_empty() && matches!(node.op.as_str(), "Conv" | "Gemm" | "MatMul");
    let shape = WeightShape::of(&rewrite.graph, node).filter(|_| known)?;
    recipe.for_node(&node.name).activations?;
    let out = *node.outputs.first().filter(|out| is_float(&rewrite.graph, **out))?;
    let weights: ValueId = node.input(1).filter(|w| rewrite.floats(*w).is_some())?;
    let mut sources = vec![Source { constant: weights, layout: shape.layout }];
    if let Some(bias) = node.input(2) {
        let values = rewrite.floats(bias)?;
        // A Gemm may add the same scalar to every channel.
        (values.len() == shape.out_channels).then_some(())?;
        sources.push(Source { constant: bias, layout: ChannelLayout { channels: values.len(), inner: 1 } });
    }
    let axis = if node.op == "Conv" { 1 } else { rewrite.graph.ty(out).shape.rank().checked_sub(1)? };
    rewrite.site(idx, sources, axis)
}

/// The candidate with the least noise; `None` if all factors are best left at 1.
fn best(rewrite: &Rewrite, recipe: &Recipe, site: &Site) -> Result<Option<Vec<f64>>> {
    let noise = Noise::new(rewrite, recipe, site);
    let mut best = (noise.of(&vec![1.0; site.extremes.len()])? * WORTH, None);
    for candidate in candidates(rewrite, recipe, site) {
        let candidate = site.allowed(&candidate);
        let left = noise.of(&candidate)?;
        if left < best.0 {
            best = (left, Some(candidate));
        }
    }
    Ok(best.1)
}

/// Factors to compare: with a scale per channel, weight ranges need no evening out.
fn candidates(rewrite: &Rewrite, recipe: &Recipe, site: &Site) -> Vec<Vec<f64>> {
    let granularity = |node: usize| recipe.for_node(&rewrite.graph.nodes[node].name).weights.granularity;
    let per_tensor = site.readers.iter().any(|r| granularity(r.node) == Granularity::PerTensor);
    let depthwise = site.readers.iter().all(|r| r.shape.is_depthwise());
    let share = if depthwise && !per_tensor { 1.0 } else { SHARE };
    let reaches = site.reaches();
    let growth = (rewrite.samples() as f64 / SAMPLES_PER_GROWTH).max(LEAST_GROWTH);
    let most = libm::log2(growth) / share;
    let even = log_ratio(&vec![max(&reaches); reaches.len()], &reaches);
    let even: Vec<f64> = even.into_iter().map(|e| e.min(most)).collect();
    let weights = log_ratio(&reader_reaches(rewrite, site), &source_reaches(rewrite, site));
    let factors = |log: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let factors: Vec<f64> = (0..reaches.len()).map(|c| libm::exp2(log(c))).collect();
        // A common factor changes nothing; without one the channel that reaches furthest stays where it is.
        let furthest = reaches.iter().zip(&factors).map(|(r, f)| r * f).fold(0.0, f64::max);
        let common = if furthest > 0.0 { max(&reaches) / furthest } else { 1.0 };
        factors.iter().map(|f| f * common).collect()
    };
    let mut all = vec![factors(&|c| share * even[c])];
    if per_tensor {
        all.push(factors(&|c| weights[c] / 2.0));
        all.push(factors(&|c| (weights[c] / 2.0 + share * even[c]) / 2.0));
    }
    all
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// `log2(a / b)` by channel; 0 where either is 0.
fn log_ratio(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| if *a > 0.0 && *b > 0.0 { libm::log2(a / b) } else { 0.0 }).collect()
}

/// The largest weight that computes each channel.
fn source_reaches(rewrite: &Rewrite, site: &Site) -> Vec<f64> {
    let Source { constant, layout } = site.sources[0];
    let mut reaches = vec![0.0f64; layout.channels];
    for (idx, w) in rewrite.floats(constant).unwrap_or_default().into_iter().enumerate() {
        let reach = &mut reaches[(idx / layout.inner) % layout.channels];
        *reach = reach.max(f64::from(w.abs()));
    }
    reaches
}

/// The largest weight that reads each channel.
pub(super) fn reader_reaches(rewrite: &Rewrite, site: &Site) -> Vec<f64> {
    let mut reaches = vec![0.0f64; site.extremes.len()];
    for reader in &site.readers {
        for (idx, w) in rewrite.floats(reader.weights).unwrap_or_default().into_iter().enumerate() {
            let reach = &mut reaches[reader.shape.in_channel(idx, reader.shape.out_of(idx))];
            *reach = reach.max(f64::from(w.abs()));
        }
    }
    reaches
}

/// Says what was rescaled, and that a Clip on the way rests on the data.
pub(super) fn note(rewrite: &mut Rewrite, site: &Site, factors: &[f64]) {
    let changed = factors.iter().filter(|f| **f != 1.0).count();
    let clip = match site.clip {
        Some(bound) => format!("; they stay below the bound {bound} of its Clip on the calibration data"),
        None => String::new(),
    };
    let message = format!("{changed} of {} channels are rescaled before its readers{clip}", factors.len());
    let name = rewrite.graph.nodes[site.node].name.clone();
    rewrite.diagnostics.push(Diagnostic::note("Q0106", name, message));
}
