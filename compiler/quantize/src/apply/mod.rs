//! From a canonical float graph, its calibration and a recipe to a quantized graph: an ordinary network of float operators
//! with QuantizeLinear and DequantizeLinear between them, the form that ONNX files use.
//!
//! | file | holds |
//! |---|---|
//! | `observe` | what to watch during calibration |
//! | `kinds` | what each operator is to the quantizer |
//! | `plan` | which nodes are quantized, what fuses, which values share parameters |
//! | `placement` | what the search for mixed precision asks about a plan |
//! | `blocked` | weights in blocks, which are stored as integers and computed with as floats |
//! | `groups` | the union-find behind shared parameters |
//! | `half` | nodes that compute in f16 or bf16 |
//! | `ranges` | from calibration to parameters |
//! | `learnable` | the products whose roundings can be learned |
//! | `products` | weights, biases and their correction |
//! | `emit` | carries the plan out |
//! | `tables` | tables of embeddings in 8 bits |
//! | `builder` | adds nodes and constants |
//! | `dynamic` | the other way: activations quantized at run time |
//! | `report` | what was done and what was not |

mod blocked;
#[cfg(test)]
mod blocked_tests;
mod builder;
mod dynamic;
mod emit;
mod groups;
mod half;
#[cfg(test)]
mod half_tests;
mod kinds;
mod learnable;
mod observe;
mod placement;
mod plan;
mod products;
mod ranges;
mod report;
mod tables;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transformer_tests;

use ottava_graph::{Diagnostic, Graph};
use std::collections::BTreeSet;

pub use blocked::has_no_block;
pub use dynamic::quantize_dynamic;
pub(crate) use kinds::is_float;
pub(crate) use learnable::{LearnableProduct, learnable_products};
pub use observe::{Observation, fingerprint, observations};
pub(crate) use placement::Placement;
pub(crate) use products::{WeightShape, nearest_weights};
pub use ranges::ValueParams;
pub use report::{FloatNode, Report};

use crate::calibration::Calibration;
use crate::corrections::{Learned, Prepared, prepare};
use crate::error::Result;
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
    /// Values whose channels were rescaled: they are not to be compared with those of the float network.
    pub rescaled: BTreeSet<String>,
}

/// Quantizes a canonical float graph statically.
///
/// The calibration must have been collected on this graph: see [`observations`] and [`fingerprint`].
pub fn quantize(graph: &Graph, calibration: &Calibration, recipe: &Recipe) -> Result<Quantized> {
    quantize_prepared(&prepare(graph, calibration, recipe)?, recipe, &Learned::default())
}

/// As [`quantize`], for a graph to which the corrections of the float network have been applied, with the roundings that
/// were learned on it.
pub fn quantize_learned(
    graph: &Graph,
    calibration: &Calibration,
    recipe: &Recipe,
    learned: &Learned,
) -> Result<Quantized> {
    quantize_prepared(&prepare(graph, calibration, recipe)?, recipe, learned)
}

/// The float graph with the group of one value alone in integers, with the weights of the products that read it; what
/// [`quantize_learned`] does to that group, and nothing else.
pub(crate) fn quantize_alone(
    graph: &Graph,
    calibration: &Calibration,
    recipe: &Recipe,
    learned: &Learned,
    value: ottava_hal::ValueId,
) -> Result<Graph> {
    let ranges = Ranges { graph, calibration, recipe };
    let plan = Plan::new(graph, recipe, &ranges);
    let params = ranges.group_params(&plan, &mut Vec::new())?;
    Emission { graph, plan: &plan, ranges: &ranges, params: &params, learned }.alone(plan.groups.find(value))
}

/// Quantizes a graph to which the corrections of the float network have been applied.
fn quantize_prepared(prepared: &Prepared, recipe: &Recipe, learned: &Learned) -> Result<Quantized> {
    let (graph, calibration) = (&prepared.graph, &prepared.calibration);
    calibration.expect_model(fingerprint(graph))?;
    let mut diagnostics = prepared.diagnostics.clone();
    diagnostics.extend(spoiled_tensors(calibration));
    diagnostics.extend(unlearned(recipe, learned));
    let ranges = Ranges { graph, calibration, recipe };
    let plan = Plan::new(graph, recipe, &ranges);
    let params = ranges.group_params(&plan, &mut diagnostics)?;
    let mut report = report::report(graph, &plan, &params, recipe.to_ron());
    if recipe.integer_only {
        report::expect_integer_only(&report)?;
    }
    if let Some(limit) = recipe.max_float_macs {
        report::expect_float_macs(graph, &report, limit)?;
    }
    let emission = Emission { graph, plan: &plan, ranges: &ranges, params: &params, learned };
    let graph = tables::quantize_tables(emission.run(&mut diagnostics)?, recipe, &mut report)?;
    Ok(Quantized { graph, report, diagnostics, rescaled: prepared.rescaled.clone() })
}

/// What there is to say about roundings that were to be learned.
fn unlearned(recipe: &Recipe, learned: &Learned) -> Vec<Diagnostic> {
    let asked = recipe.corrections.iter().any(|c| matches!(c, Correction::LearnedRounding { .. }));
    if asked && learned.is_empty() && learned.diagnostics.is_empty() {
        let message =
            "weights are rounded to the nearest integer: learning roundings takes the data, not statistics of it";
        return vec![Diagnostic::note("Q0107", "", message)];
    }
    learned.diagnostics.clone()
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
