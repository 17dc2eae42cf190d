//! From a canonical float graph, its calibration and a recipe to a quantized graph: an ordinary network of float operators
//! with QuantizeLinear and DequantizeLinear between them, the form that ONNX files use.
//!
//! | file | holds |
//! |---|---|
//! | `observe` | what to watch during calibration |
//! | `kinds` | what each operator is to the quantizer |
//! | `plan` | which nodes are quantized, what fuses, which values share parameters |
//! | `placement` | what the search for mixed precision asks about a plan |
//! | `groups` | the union-find behind shared parameters |
//! | `ranges` | from calibration to parameters |
//! | `products` | weights, biases and their correction |
//! | `emit` | carries the plan out |
//! | `builder` | adds nodes and constants |
//! | `dynamic` | the other way: activations quantized at run time |
//! | `report` | what was done and what was not |

mod builder;
mod dynamic;
mod emit;
mod groups;
mod kinds;
mod observe;
mod placement;
mod plan;
mod products;
mod ranges;
mod report;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use ottava_graph::{Diagnostic, Graph};

pub use dynamic::quantize_dynamic;
pub use observe::{Observation, fingerprint, observations};
pub(crate) use placement::Placement;
pub use ranges::ValueParams;
pub use report::{FloatNode, Report};

use crate::calibration::Calibration;
use crate::error::{Error, Result};
use crate::recipe::{Correction, Recipe};
use emit::Emission;
use plan::Plan;
use ranges::Ranges;

/// A quantized graph and the account of how it came about.
#[derive(Debug, Clone)]
pub struct Quantized {
    /// The graph with Q/DQ nodes; same inputs, outputs and phase as the float graph.
    pub graph: Graph,
    /// What was quantized, what was not, and why.
    pub report: Report,
    /// Findings worth a look.
    pub diagnostics: Vec<Diagnostic>,
}

/// Quantizes a canonical float graph statically.
///
/// The calibration must have been collected on this graph: see [`observations`] and [`fingerprint`].
pub fn quantize(graph: &Graph, calibration: &Calibration, recipe: &Recipe) -> Result<Quantized> {
    calibration.expect_model(fingerprint(graph))?;
    check_requests(recipe)?;
    let mut diagnostics = spoiled_tensors(calibration);
    let ranges = Ranges { graph, calibration, recipe };
    let plan = Plan::new(graph, recipe, &ranges);
    let params = ranges.group_params(&plan, &mut diagnostics)?;
    let report = report::report(graph, &plan, &params, recipe.to_ron());
    if recipe.integer_only {
        report::expect_integer_only(&report)?;
    }
    if let Some(limit) = recipe.max_float_macs {
        report::expect_float_macs(graph, &report, limit)?;
    }
    let emission = Emission { graph, plan: &plan, ranges: &ranges, params: &params };
    let graph = emission.run(&mut diagnostics)?;
    Ok(Quantized { graph, report, diagnostics })
}

/// What this version does not carry out is refused, never skipped.
fn check_requests(recipe: &Recipe) -> Result<()> {
    let unsupported = |what: String, reason: &str| {
        let help = "take it out of the recipe".to_owned();
        Err(Error::Unsupported { what, reason: reason.to_owned(), help })
    };
    if let Some(correction) = recipe.corrections.iter().find(|c| **c != Correction::BiasCorrection) {
        return unsupported(format!("correction {}", correction.name()), "the quantizer carries out BiasCorrection");
    }
    Ok(())
}

/// Warnings about tensors with NaN or infinities, and notes about those that an outlier left with few bins.
fn spoiled_tensors(calibration: &Calibration) -> Vec<Diagnostic> {
    const FEW_BINS: f64 = 64.0;
    let bad = calibration.non_finite().into_iter().map(|bad| {
        let message = format!(
            "{} NaN and {} infinite values were observed, first in sample {}; they are left out of its range",
            bad.nan, bad.infinite, bad.first_sample
        );
        Diagnostic::warning("Q0104", bad.tensor, message).with_help("check the calibration data and the model")
    });
    let coarse = calibration.tensors().filter_map(|(name, stats)| {
        let bins = stats.histogram.resolution()?;
        let spread = stats.histogram.bins().nth(1).is_some();
        let message = format!("an outlier leaves {bins:.0} of 4096 bins for 99.9 % of its values");
        (bins < FEW_BINS && spread).then(|| Diagnostic::note("Q0105", name, message))
    });
    bad.chain(coarse).collect()
}
