//! Bridges that follow each other or stand side by side: `Quantize(Dequantize(q))` becomes nothing, or a Requantize;
//! two equal bridges of one value become one.

use super::rules::{dequantized, is_ottava};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};

/// What the pass does.
pub const ABOUT: About = About { what: "conversions between integers were joined or dropped", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let merged = rewrite(graph, "merge_equal_bridges", equal)?;
    let joined = rewrite(graph, "join_bridges", join)?;
    Ok(merged + joined + graph.remove_dead())
}

fn join(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let quantize = &graph.nodes[index];
    let Some(q) =
        quantize.input(0).filter(|_| is_ottava(quantize, "Quantize")).and_then(|x| dequantized(graph, uses, x))
    else {
        return Ok(None);
    };
    let (from, to) = (graph.ty(q), graph.ty(quantize.outputs[0]));
    let same = from.dtype == to.dtype && from.quant == to.quant && quantize.fused.clamp.is_none();
    if same && Patch::can_bypass(graph, uses, index, q) {
        return Ok(Some(Patch::bypass(graph, index, q)));
    }
    let mut node = quantize.clone();
    node.op = "Requantize".into();
    node.inputs = vec![Some(q)];
    let mut patch = Patch::new(graph);
    patch.remove.push(index);
    patch.insert.push(node);
    Ok(Some(patch))
}

/// An earlier bridge of the same value with the same result.
fn equal(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let node = &graph.nodes[index];
    let Some(x) = node.input(0).filter(|_| is_ottava(node, "Quantize") || is_ottava(node, "Dequantize")) else {
        return Ok(None);
    };
    let twin = uses.readers(x).iter().map(|(i, _)| *i).filter(|i| *i < index).find(|i| {
        let other = &graph.nodes[*i];
        other.op == node.op
            && other.domain == node.domain
            && other.fused == node.fused
            && graph.ty(other.outputs[0]) == graph.ty(node.outputs[0])
    });
    let bypass = |i: usize| {
        let by = graph.nodes[i].outputs[0];
        Patch::can_bypass(graph, uses, index, by).then(|| Patch::bypass(graph, index, by))
    };
    Ok(twin.and_then(bypass))
}
