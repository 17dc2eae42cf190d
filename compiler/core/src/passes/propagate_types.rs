//! Integers that a mover passes on keep their meaning: quantization parameters spread over movers and MaxPool, forwards
//! and backwards, to integer values that have none yet.

use super::rules::commutes;
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Scheme, TensorType, ValueId};

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    rewrite(graph, "propagate_types", rule)
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let node = &graph.nodes[index];
    let (Some(x), true) = (node.input(0), commutes(node)) else { return Ok(None) };
    if let Some(out) = node.outputs.iter().find(|out| can_take(graph, x, **out)) {
        return Ok(Some(give(graph, x, *out)));
    }
    let from = node.outputs[0];
    let free = uses.readers(x).len() == 1 && graph.constant(x).is_none();
    Ok((free && can_take(graph, from, x)).then(|| give(graph, from, x)))
}

fn can_take(graph: &Graph, from: ValueId, to: ValueId) -> bool {
    let (a, b) = (graph.ty(from), graph.ty(to));
    let per_tensor = a.quant.as_ref().is_some_and(|q| q.scheme == Scheme::PerTensor);
    per_tensor && b.quant.is_none() && a.dtype == b.dtype
}

fn give(graph: &Graph, from: ValueId, to: ValueId) -> Patch {
    let mut patch = Patch::new(graph);
    patch.retype.push((to, TensorType { quant: graph.ty(from).quant.clone(), ..graph.ty(to).clone() }));
    patch
}
