//! Weights that are stored in blocks: integers in the file, floats in the product.
//!
//! Blocks run along the reduction of a node, where an integer sum has no room for their scales (numerics, section 4): the
//! node reads DequantizeLinear of its weights and computes in float, so its activations stay float too. Matrix products
//! always take blocks. A convolution needs at least one block of input channels; with fewer its scales are those of the
//! output channels, and it may become an integer operator.

use ottava_graph::Graph;
use ottava_hal::{DataType, Node, ValueId};

use super::builder::Builder;
use super::emit::internal;
use super::products::code_tensor;
use crate::error::{Error, Result};
use crate::recipe::{Granularity, Recipe, Weights};
use crate::weights::{BlockLayout, quantize_blocks};

/// Where the blocks of a node's weights lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocked {
    weights: Weights,
    id: ValueId,
    axis: usize,
    layout: BlockLayout,
}

/// The blocks that the recipe wants in the weights of a node; `None` where it wants none or the node has no room for one.
pub(crate) fn blocked(graph: &Graph, recipe: &Recipe, node: &Node) -> Option<Blocked> {
    let choice = recipe.for_node(&node.name);
    let Granularity::Blocked(block) = choice.weights.granularity else { return None };
    choice.activations?;
    let id = node.input(1).filter(|_| node.domain.is_empty())?;
    let weights = graph.constant(id).filter(|t| t.dtype() == DataType::F32)?;
    node.input(0).filter(|x| graph.constant(*x).is_none())?;
    let axis = reduction_axis(node, weights.shape().len())?;
    let layout = BlockLayout::of(weights.shape(), axis, block)?;
    let is_matrix = matches!(node.op.as_str(), "MatMul" | "Gemm");
    (is_matrix || layout.extent >= block).then_some(Blocked { weights: choice.weights, id, axis, layout })
}

/// Whether the recipe wants blocks that the node's weights have no room for.
pub fn has_no_block(graph: &Graph, recipe: &Recipe, node: &Node) -> bool {
    let wants = matches!(recipe.for_node(&node.name).weights.granularity, Granularity::Blocked(_));
    wants && matches!(node.op.as_str(), "Conv" | "ConvTranspose") && blocked(graph, recipe, node).is_none()
}

/// The axis of the weights that a node sums over.
fn reduction_axis(node: &Node, rank: usize) -> Option<usize> {
    match (node.op.as_str(), rank) {
        ("MatMul", 2..) => Some(rank - 2),
        ("Gemm", 2) => Some(if node.attrs.int("transB", 0).ok()? != 0 { 1 } else { 0 }),
        ("Conv", 3..) => Some(1),
        ("ConvTranspose", 3..) => Some(0),
        _ => None,
    }
}

impl Blocked {
    /// Why the node stays in float.
    pub(crate) fn reason(&self) -> String {
        let (block, dtype) = (self.layout.block, self.weights.dtype);
        format!("its {dtype} weights have a scale for every {block}, which an integer sum has no room for")
    }

    /// Adds the integers and their DequantizeLinear; returns the float value.
    pub(crate) fn store(&self, graph: &Graph, builder: &mut Builder) -> Result<ValueId> {
        let name = graph.name_of(self.id);
        let bad =
            |found: String| Error::BadWeights { tensor: name.to_owned(), found, expected: "float weights".into() };
        let Some(data) = graph.constant(self.id) else { return Err(bad("computed weights".into())) };
        let values = data.to_f32s().map_err(|e| bad(e.to_string()))?;
        let how = (self.weights.observer, self.weights.zero_point);
        let q = quantize_blocks(name, &values, self.layout, self.weights.grids(), how)?;
        let codes = code_tensor(self.weights.dtype, data.shape(), &q.codes).map_err(internal)?;
        let mut dims = data.shape().to_vec();
        dims[self.axis] = self.layout.n_blocks();
        builder.blocked_constant(name, codes, (&dims, &q), self.axis).map_err(internal)
    }
}
