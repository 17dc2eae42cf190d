//! `product -> Add(other) -> Quantize` becomes one node: `t = fl32(f32(acc) * fl32(xs * ws[c]))`, plus the dequantized
//! other operand, then Quantize. The same f32 operations as the separate nodes, so no bit changes.

use super::rules::{dequantized, is, only_quantize};
use super::{About, Effect};
use crate::Cx;
use crate::products::is_typed_product;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Scheme, ValueId};

/// What the pass does.
pub const ABOUT: About =
    About { what: "sums of a product and another value became part of the product", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "fuse_residual", rule)?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let add = &graph.nodes[index];
    if !is(add, "Add") || add.fused != Default::default() {
        return Ok(None);
    }
    let (Some(a), Some(b)) = (add.input(0), add.input(1)) else { return Ok(None) };
    let Some(q_index) = only_quantize(graph, uses, add.outputs[0]) else { return Ok(None) };
    // Of two products the later one takes the sum: the other is then ready.
    let mut candidates: Vec<(usize, ValueId)> = [(a, b), (b, a)]
        .into_iter()
        .filter_map(|(y, other)| Some((product_of(graph, uses, index, y)?, residual_of(graph, uses, y, other)?)))
        .collect();
    candidates.sort_unstable();
    let Some((product, residual)) = candidates.pop() else { return Ok(None) };
    let quantize = &graph.nodes[q_index];
    let mut node = graph.nodes[product].clone();
    node.inputs.resize(3, None);
    node.inputs.push(Some(residual));
    node.outputs = quantize.outputs.clone();
    node.fused.residual = true;
    node.fused.clamp = quantize.fused.clamp;
    let mut patch = Patch::new(graph);
    patch.remove = vec![product, index, q_index];
    patch.insert.push(node);
    Ok(Some(patch))
}

/// The typed product with a float result that only this Add reads.
fn product_of(graph: &Graph, uses: &Uses, add: usize, y: ValueId) -> Option<usize> {
    let index = uses.producer(y).filter(|_| uses.only_reader(y) == Some(add))?;
    let node = &graph.nodes[index];
    (is_typed_product(graph, node) && node.fused == Default::default()).then_some(index)
}

/// The typed value that is added, if it has the product's shape.
fn residual_of(graph: &Graph, uses: &Uses, y: ValueId, other: ValueId) -> Option<ValueId> {
    let q = dequantized(graph, uses, other)?;
    let ty = graph.ty(q);
    let per_tensor = ty.quant.as_ref().is_some_and(|p| p.scheme == Scheme::PerTensor);
    (per_tensor && ty.shape == graph.ty(y).shape && y != other && graph.constant(q).is_none()).then_some(q)
}
