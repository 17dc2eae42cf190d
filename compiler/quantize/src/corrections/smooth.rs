//! Smoothing (Xiao et al. 2022, "SmoothQuant"): channel `c` of what matrix products read is divided by
//! `max|X_c|^alpha / max|W_c|^(1-alpha)` and their weights are multiplied by it. Outliers of
//! single channels move into the weights, which have a scale per output channel.
//!
//! The division is folded into what computes the value: gamma and beta of a LayerNormalization, or weights and bias of a
//! linear layer. Where the value has other readers too, a residual sum say, there is nowhere to fold it, and it stays.

use super::equalize::{note, reader_reaches, site_of};
use super::rescale::{Rewrite, Site, Source};
use crate::channels::ChannelLayout;
use crate::error::Result;
use crate::recipe::{Correction, Recipe};

pub(super) fn smooth(rewrite: &mut Rewrite, recipe: &Recipe, correction: Correction) -> Result<()> {
    let Correction::Smooth { alpha } = correction else { return Ok(()) };
    for node in 0..rewrite.graph.nodes.len() {
        let site = norm_site(rewrite, node).or_else(|| site_of(rewrite, recipe, node));
        let is_matrix = |site: &Site| site.readers.iter().all(|r| rewrite.graph.nodes[r.node].op != "Conv");
        let Some(site) = site.filter(is_matrix) else { continue };
        let factors = site.allowed(&factors(rewrite, &site, alpha));
        if factors.iter().any(|f| *f != 1.0) {
            note(rewrite, &site, &factors);
            rewrite.apply(&site, &factors);
        }
    }
    Ok(())
}

/// The site behind a LayerNormalization over its last axis.
fn norm_site(rewrite: &Rewrite, idx: usize) -> Option<Site> {
    let node = &rewrite.graph.nodes[idx];
    let rank = rewrite.graph.ty(*node.outputs.first()?).shape.rank();
    let axis = node.attrs.int("axis", -1).ok()?;
    let over_last = axis == -1 || usize::try_from(axis).is_ok_and(|axis| axis + 1 == rank);
    if node.op != "LayerNormalization" || !node.domain.is_empty() || node.outputs.len() != 1 || !over_last {
        return None;
    }
    let constants = [node.input(1), node.input(2)].into_iter().flatten();
    let sources = constants.map(|constant| {
        let channels = rewrite.floats(constant)?.len();
        Some(Source { constant, layout: ChannelLayout { channels, inner: 1 } })
    });
    let sources: Vec<Source> = sources.collect::<Option<_>>()?;
    let channels = sources.first()?.layout.channels;
    sources.iter().all(|s| s.layout.channels == channels).then_some(())?;
    rewrite.site(idx, sources, rank.checked_sub(1)?)
}

/// The inverse smoothing factors, about their geometric mean: a common factor changes nothing.
fn factors(rewrite: &Rewrite, site: &Site, alpha: f64) -> Vec<f64> {
    let weights = reader_reaches(rewrite, site);
    let log = |(x, w): (f64, f64)| match x > 0.0 && w > 0.0 {
        true => alpha * libm::log2(x) - (1.0 - alpha) * libm::log2(w),
        false => 0.0,
    };
    let logs: Vec<f64> = site.reaches().into_iter().zip(weights).map(log).collect();
    let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
    logs.iter().map(|log| libm::exp2(mean - log)).collect()
}
