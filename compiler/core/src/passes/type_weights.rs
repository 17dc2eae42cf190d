//! Movers between a dequantized constant and its reader are applied to the integers: `Transpose(DQ(w))` becomes
//! `DQ(Transpose(w))`, with the quantization axis following its dimension. Without this a transposed weight would turn
//! into a float constant and its integers would be lost.

use super::rules::{fresh, is, patch_const};
use super::{About, Effect};
use crate::{Cx, evaluate_constant_with};
use ottava_graph::{Attr, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::Node;

/// What the pass does.
pub const ABOUT: About =
    About { what: "movers of quantized constants were applied to their integers", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "type_weights", |graph, uses, index| rule(graph, uses, index, cx))?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, uses: &Uses, index: usize, cx: &Cx) -> Result<Option<Patch>> {
    let mover = &graph.nodes[index];
    if !matches!(mover.op.as_str(), "Transpose" | "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten")
        || !mover.domain.is_empty()
    {
        return Ok(None);
    }
    let Some(dq) = mover.input(0).and_then(|x| uses.producer(x)).map(|i| &graph.nodes[i]) else { return Ok(None) };
    let weights = dq.input(0).and_then(|q| graph.constant(q)).filter(|_| is(dq, "DequantizeLinear"));
    let others_constant = mover.inputs.iter().skip(1).flatten().all(|id| graph.constant(*id).is_some());
    let (Some(weights), true) = (weights, others_constant) else { return Ok(None) };
    let Some(axis) = moved_axis(graph, mover, dq)? else { return Ok(None) };
    let moved = evaluate_constant_with(cx.folder, graph, mover, weights)?;
    let mut patch = Patch::new(graph);
    let name = fresh(graph, &patch, &format!("{}_moved", graph.name_of(mover.outputs[0])));
    let q = patch_const(&mut patch, name, moved);
    let mut node = dq.clone();
    node.name = mover.name.clone();
    node.inputs[0] = Some(q);
    node.attrs.set("axis", Attr::Int(axis));
    node.outputs = mover.outputs.clone();
    patch.remove.push(index);
    patch.insert.push(node);
    Ok(Some(patch))
}

/// The quantization axis after the mover; any axis for per-tensor parameters, `None` where it cannot be followed.
fn moved_axis(graph: &Graph, mover: &Node, dq: &Node) -> Result<Option<i64>> {
    let scale = dq.input(1).map(|id| &graph.ty(id).shape);
    if dq.attrs.int("block_size", 0)? != 0 || scale.is_none_or(|s| s.rank() > 1) {
        return Ok(None);
    }
    if scale.and_then(|s| s.elements()) == Some(1) {
        return Ok(Some(0));
    }
    if !is(mover, "Transpose") {
        return Ok(None);
    }
    let rank = dq.input(0).map_or(0, |id| graph.ty(id).shape.rank());
    let axis = ottava_ops::util::axis(dq.attrs.int("axis", 1)?, rank)?;
    let found = match mover.attrs.ints_opt("perm")? {
        Some(perm) => perm.iter().position(|p| usize::try_from(*p) == Ok(axis)),
        None => Some(rank - 1 - axis),
    };
    Ok(found.map(|a| a as i64))
}
