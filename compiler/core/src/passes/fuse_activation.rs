//! A Relu or Clip behind a float product or sum becomes its fused activation. No bit changes: the activation is applied
//! to the same f32 value.

use super::absorb_activation::bounds;
use super::rules::{PRODUCTS, is, is_any};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Activation, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::DataType;

/// What the pass does.
pub const ABOUT: About =
    About { what: "Relu and Clip went into the product or sum before them", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "fuse_activation", rule)?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let act = &graph.nodes[index];
    let Some((lo, hi)) = bounds(graph, act) else { return Ok(None) };
    let Some(y) = act.input(0).filter(|y| uses.only_reader(*y) == Some(index)) else { return Ok(None) };
    let Some(source) = uses.producer(y) else { return Ok(None) };
    let node = &graph.nodes[source];
    let fusable = is_any(node, PRODUCTS) || is(node, "Add");
    let float = |id| graph.ty(id).dtype == DataType::F32 && graph.ty(id).quant.is_none();
    if !fusable || node.fused.act.is_some() || !float(y) || !float(act.outputs[0]) {
        return Ok(None);
    }
    let mut fused = node.clone();
    fused.fused.act = Some(if is(act, "Relu") { Activation::Relu } else { Activation::Clip { lo, hi } });
    fused.outputs = act.outputs.clone();
    let mut patch = Patch::new(graph);
    patch.remove = vec![source, index];
    patch.insert.push(fused);
    Ok(Some(patch))
}
