//! Clamp-like activations in front of a Quantize become integer bounds of it: quantization is monotone, so
//! `Q(clip(x, a, b)) = clip(Q(x), Q(a), Q(b))` (numerics.md section 4).

use super::rules::{const_scalar, is, is_ottava};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::refmath::quantize::quantize_f32;
use ottava_hal::{Node, QuantParams};

/// What the pass does.
pub const ABOUT: About =
    About { what: "clamps became integer bounds of the Quantize behind them", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "absorb_activation", rule)?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let q = &graph.nodes[index];
    let Some(y) = q.input(0).filter(|y| is_ottava(q, "Quantize") && uses.only_reader(*y) == Some(index)) else {
        return Ok(None);
    };
    let Some(act_index) = uses.producer(y) else { return Ok(None) };
    let Some((lo, hi)) = bounds(graph, &graph.nodes[act_index]) else { return Ok(None) };
    let ty = graph.ty(q.outputs[0]);
    let params = ty.quant.as_deref().and_then(QuantParams::as_per_tensor);
    let (Some((scale, zp)), Some((min, max))) = (params, ty.dtype.storage_range()) else { return Ok(None) };
    let code = |v: f32| quantize_f32(v, scale, zp, min, max);
    let (old_lo, old_hi) = q.fused.clamp.unwrap_or((min, max));
    let mut node = q.clone();
    node.inputs[0] = graph.nodes[act_index].input(0);
    // An earlier clamp is the outer one: clip(clip(x, a, b), c, d) with c <= d.
    let clamp = (code(lo).clamp(old_lo, old_hi), code(hi).clamp(old_lo, old_hi));
    node.fused.clamp = (clamp != (min, max)).then_some(clamp);
    let mut patch = Patch::new(graph);
    patch.remove = vec![act_index, index];
    patch.insert.push(node);
    Ok(Some(patch))
}

/// Bounds of a clamp-like activation whose bounds are constant and in order.
pub fn bounds(graph: &Graph, node: &Node) -> Option<(f32, f32)> {
    if is(node, "Relu") {
        return Some((0.0, f32::INFINITY));
    }
    if !is(node, "Clip") {
        return None;
    }
    let bound = |i: usize, default: f32| match node.input(i) {
        Some(id) => const_scalar(graph, id),
        None => Some(default),
    };
    let (lo, hi) = (bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?);
    (lo <= hi).then_some((lo, hi))
}
