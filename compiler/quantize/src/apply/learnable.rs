//! The products whose roundings can be learned, and what bias correction knows of their inputs.

use ottava_graph::Graph;
use ottava_hal::ValueId;

use super::fingerprint;
use super::kinds::Kind;
use super::plan::{Fate, Plan};
use super::products::WeightShape;
use super::ranges::Ranges;
use crate::calibration::Calibration;
use crate::error::Result;
use crate::recipe::{Correction, Recipe};

/// A product with constant weights that becomes an integer operator.
pub(crate) struct LearnableProduct {
    /// Index of the node.
    pub(crate) node: usize,
    /// What it reads.
    pub(crate) x: ValueId,
    /// How its weights lie.
    pub(crate) shape: WeightShape,
    /// Mean of each input channel, if the mean error will be corrected in the bias.
    pub(crate) means: Option<Vec<f64>>,
}

/// The products that a recipe quantizes, in the graph's order.
pub(crate) fn learnable_products(
    graph: &Graph,
    calibration: &Calibration,
    recipe: &Recipe,
) -> Result<Vec<LearnableProduct>> {
    calibration.expect_model(fingerprint(graph))?;
    let ranges = Ranges { graph, calibration, recipe };
    let plan = Plan::new(graph, recipe, &ranges);
    let of = |idx: usize| {
        let node = &graph.nodes[idx];
        let quantized = plan.fates[idx] == Fate::Quantized && plan.kinds[idx] == Kind::Product;
        let x = node.input(0).filter(|x| quantized && graph.constant(*x).is_none())?;
        let shape = WeightShape::of(graph, node)?;
        Some(LearnableProduct { node: idx, x, shape, means: product_means(&plan, &ranges, idx) })
    };
    Ok((0..graph.nodes.len()).filter_map(of).collect())
}

/// The mean of each channel that a product reads, if the mean error of its weights is to be corrected. A MatMul has no
/// place for a bias unless an Add follows.
pub(super) fn product_means(plan: &Plan, ranges: &Ranges<'_>, idx: usize) -> Option<Vec<f64>> {
    let node = &ranges.graph.nodes[idx];
    let added = || plan.biases.iter().any(|(product, ..)| *product == idx);
    let correct = ranges.recipe.corrections.contains(&Correction::BiasCorrection) && (node.op != "MatMul" || added());
    let stats = ranges.calibration.get(ranges.graph.name_of(node.input(0)?))?;
    correct.then(|| stats.channels.means())
}
