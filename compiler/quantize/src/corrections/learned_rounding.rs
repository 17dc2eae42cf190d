//! Learned rounding: the integers of a layer's weights are chosen together, so that what the layer computes on the
//! calibration data changes least (Frantar et al. 2022). There are no labels and no training: [`Learning`] names the values
//! that layers read, takes what the caller observes of them, and leaves the integers in [`Learned`].
//!
//! Layers are worked on in rounds that share a memory budget. Scales and zero points stay those of nearest rounding; a
//! layer that is too wide, or that the data never reach, keeps its nearest integers, and a note says so. Where the mean
//! error is corrected in the bias, only the rest of the error counts here.

use std::collections::BTreeMap;

use ottava_graph::{Diagnostic, Graph};
use ottava_hal::{Node, Tensor, ValueId};

use super::gram::{Gram, Reader};
use super::rounding::Problem;
use crate::apply::{LearnableProduct, WeightShape, learnable_products, nearest_weights};
use crate::calibration::Calibration;
use crate::error::Result;
use crate::recipe::{Correction, Recipe, Weights};
use crate::weights::QuantizedWeights;

/// The longest sum of products whose Gram matrix is collected.
const MAX_K: usize = 2304;
/// Bytes of Gram matrices that exist at once.
const BUDGET: usize = 128 << 20;
/// Rows that a layer's Gram matrix is the sum of, over all samples.
const ROWS: usize = 4096;

/// Integers of weights by layer; empty where nothing was learned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Learned {
    layers: BTreeMap<String, (Weights, QuantizedWeights)>,
    /// Notes on layers that keep their nearest integers.
    pub diagnostics: Vec<Diagnostic>,
}

impl Learned {
    /// The integers of the layer that computes a value, if they were learned for this choice of weights.
    pub(crate) fn get(&self, value: &str, weights: Weights) -> Option<&QuantizedWeights> {
        self.layers.get(value).filter(|(choice, _)| *choice == weights).map(|(_, codes)| codes)
    }

    /// How many layers have learned integers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
}

/// A layer on its way.
struct Layer {
    product: LearnableProduct,
    reader: Reader,
    k: usize,
    groups: usize,
    /// Distance of neighbouring output channels and of neighbouring elements of a row, in the weights.
    steps: (usize, usize),
}

/// Learns the roundings of a network, round by round: [`Self::next_round`], then [`Self::observe`] for every batch, then
/// [`Self::finish_round`].
pub struct Learning<'a> {
    graph: &'a Graph,
    recipe: &'a Recipe,
    sweeps: u32,
    /// Rows taken of each sample.
    rows: usize,
    /// Layers still to come, the last one first.
    waiting: Vec<Layer>,
    at_work: Vec<(Layer, Gram)>,
    learned: Learned,
}

impl<'a> Learning<'a> {
    /// `None` if the recipe does not ask for it. The calibration must be of this graph; `samples` will be observed.
    pub fn new(
        graph: &'a Graph,
        calibration: &Calibration,
        recipe: &'a Recipe,
        samples: usize,
    ) -> Result<Option<Self>> {
        let sweeps = recipe.corrections.iter().find_map(|c| match c {
            Correction::LearnedRounding { steps } => Some(*steps),
            _ => None,
        });
        let Some(sweeps) = sweeps else { return Ok(None) };
        let mut learned = Learned::default();
        let mut waiting = Vec::new();
        for product in learnable_products(graph, calibration, recipe)? {
            match layer_of(graph, product) {
                Ok(layer) => waiting.push(layer),
                Err(note) => learned.diagnostics.push(note),
            }
        }
        waiting.reverse();
        let rows = ROWS.div_ceil(samples.max(1));
        Ok(Some(Self { graph, recipe, sweeps, rows, waiting, at_work: Vec::new(), learned }))
    }

    /// The values to observe next, each once; `None` when all layers are done.
    pub fn next_round(&mut self) -> Option<Vec<ValueId>> {
        let mut left = BUDGET;
        while let Some(layer) = self.waiting.pop() {
            let bytes = Gram::bytes(layer.groups, layer.k).unwrap_or(usize::MAX);
            if bytes > left && !self.at_work.is_empty() {
                self.waiting.push(layer);
                break;
            }
            left = left.saturating_sub(bytes);
            let gram = Gram::new(layer.groups, layer.k);
            self.at_work.push((layer, gram));
        }
        let values = self.values();
        (!values.is_empty()).then_some(values)
    }

    fn values(&self) -> Vec<ValueId> {
        let mut values: Vec<ValueId> = self.at_work.iter().map(|(layer, _)| layer.product.x).collect();
        values.sort();
        values.dedup();
        values
    }

    /// Takes the values of this round, in its order, for a batch of `samples`.
    pub fn observe(&mut self, values: &[Tensor], samples: usize) {
        let ids = self.values();
        for (layer, gram) in &mut self.at_work {
            if let Some(value) = ids.binary_search(&layer.product.x).ok().and_then(|at| values.get(at)) {
                gram.observe(&layer.reader, value, samples, self.rows);
            }
        }
    }

    /// Chooses the integers of the layers of this round.
    pub fn finish_round(&mut self) -> Result<()> {
        for (layer, gram) in std::mem::take(&mut self.at_work) {
            let node = &self.graph.nodes[layer.product.node];
            let weights = self.recipe.for_node(&node.name).weights;
            let (real, mut codes) = nearest_weights(self.graph, node, &layer.product.shape, weights)?;
            if learn(&layer, &gram, (&real, &mut codes), weights, self.sweeps) {
                let value = self.graph.name_of(node.outputs[0]).to_owned();
                self.learned.layers.insert(value, (weights, codes));
            } else {
                self.learned.diagnostics.push(note(node, "the data leave its inputs at zero"));
            }
        }
        Ok(())
    }

    /// What was learned.
    pub fn finish(self) -> Learned {
        self.learned
    }
}

fn note(node: &Node, why: &str) -> Diagnostic {
    Diagnostic::note("Q0107", &node.name, format!("its weights are rounded to the nearest integer: {why}"))
}

/// The geometry of a product, or why its roundings are not learned.
fn layer_of(graph: &Graph, product: LearnableProduct) -> std::result::Result<Layer, Diagnostic> {
    let node = &graph.nodes[product.node];
    let dims = node.input(1).and_then(|w| graph.constant(w)).map(|t| t.shape().to_vec()).unwrap_or_default();
    let (reader, k, groups, steps) = match (node.op.as_str(), dims.as_slice()) {
        ("Conv", [_, _, kernel @ ..]) if !kernel.is_empty() => {
            let k = dims[1..].iter().product();
            let reader = Reader::Windows { attrs: node.attrs.clone(), kernel: kernel.to_vec() };
            (reader, k, product.shape.groups(), (k, 1))
        }
        ("MatMul" | "Gemm", &[rows, columns]) if product.shape.axis == 1 => (Reader::Rows, rows, 1, (1, columns)),
        ("Gemm", &[_, columns]) => (Reader::Rows, columns, 1, (columns, 1)),
        _ => return Err(note(node, "this form of product has no Gram matrix here")),
    };
    if k <= MAX_K && Gram::bytes(groups, k).is_none_or(|bytes| bytes > BUDGET) {
        return Err(note(node, "the Gram matrices of its groups take too much memory"));
    }
    match k {
        1..=MAX_K => Ok(Layer { product, reader, k, groups, steps }),
        0 => Err(note(node, "it has no weights")),
        _ => Err(note(node, &format!("it sums {k} products, and at most {MAX_K} are taken on"))),
    }
}

/// Replaces nearest integers by learned ones; `false` if the data say nothing.
fn learn(
    layer: &Layer,
    gram: &Gram,
    (real, codes): (&[f32], &mut QuantizedWeights),
    weights: Weights,
    sweeps: u32,
) -> bool {
    let (k, grid) = (layer.k, weights.grid());
    let range = (grid.qmin - codes.zero_point, grid.qmax - codes.zero_point);
    let per_group = layer.product.shape.out_channels / layer.groups;
    let mut any = false;
    for group in 0..layer.groups {
        let at = |out: usize, i: usize| out * layer.steps.0 + i * layer.steps.1;
        let first = group * per_group;
        let means = row_means(&layer.product, k, |i| at(first, i), first);
        let Some(problem) = Problem::new(gram.centred(group, &means), k) else { continue };
        any = true;
        for out in first..first + per_group {
            let scale = f64::from(codes.scales[codes.channel_of(at(out, 0))]);
            let steps: Vec<f64> = (0..k).map(|i| f64::from(real[at(out, i)]) / scale).collect();
            for (i, q) in problem.round(&steps, range, sweeps).into_iter().enumerate() {
                codes.codes[at(out, i)] = q + codes.zero_point;
            }
        }
    }
    any
}

/// The mean of each element of a row, as bias correction takes it; zeros where there is none.
fn row_means(product: &LearnableProduct, k: usize, at: impl Fn(usize) -> usize, out: usize) -> Vec<f64> {
    let shape: &WeightShape = &product.shape;
    let means = product.means.as_ref().filter(|means| means.len() == shape.in_channels());
    (0..k).map(|i| means.map_or(0.0, |means| means[shape.in_channel(at(i), out)])).collect()
}

#[cfg(test)]
#[path = "learned_rounding_tests.rs"]
mod tests;
