//! Quantize moves up and Dequantize moves down over operators that commute with per-tensor quantization, so that
//! integer regions grow together and fewer bytes move (numerics.md section 4; never across Resize(linear) or averages).

use super::rules::{commutes, dequantized, fresh, is_ottava, typed};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Scheme, TensorType, ValueId};

/// What the pass does.
pub const ABOUT: About =
    About { what: "conversions moved across operators that only move elements", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    let mut n = 0;
    loop {
        let up = rewrite(graph, "move_quantize_up", quantize_up)?;
        // An activation that a Quantize meets on its way becomes its clamp, and the way may go on.
        let absorbed = if up == 0 { 0 } else { super::absorb_activation::run(graph, cx)? };
        n += up + absorbed;
        if absorbed == 0 {
            break;
        }
    }
    let down = rewrite(graph, "move_dequantize_down", dequantize_down)?;
    Ok(n + down + graph.remove_dead())
}

/// `Quantize(mover(x))` becomes `mover(Quantize(x))`.
fn quantize_up(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let q = &graph.nodes[index];
    let Some(y) = q.input(0).filter(|y| is_ottava(q, "Quantize") && uses.only_reader(*y) == Some(index)) else {
        return Ok(None);
    };
    let Some(mover_index) = uses.producer(y).filter(|i| commutes(&graph.nodes[*i])) else { return Ok(None) };
    let mover = &graph.nodes[mover_index];
    let (Some(x), Some(params)) = (mover.input(0), graph.ty(q.outputs[0]).quant.clone()) else { return Ok(None) };
    // A dequantized input needs no second quantization: fold_qdq brings the integers across as they are.
    let settled = dequantized(graph, uses, x).is_some() || mover.outputs.len() != 1;
    if settled || params.scheme != Scheme::PerTensor || !graph.ty(x).dtype.is_float() {
        return Ok(None);
    }
    let mut patch = Patch::new(graph);
    let name = fresh(graph, &patch, &format!("{}_quantized", graph.name_of(x)));
    let early = patch.value(typed(name, graph.ty(x), graph.ty(q.outputs[0]).dtype, params));
    let (mut quantize, mut moved) = (q.clone(), mover.clone());
    quantize.inputs[0] = Some(x);
    quantize.outputs = vec![early];
    moved.inputs[0] = Some(early);
    moved.outputs = q.outputs.clone();
    patch.remove = vec![mover_index, index];
    patch.insert = vec![quantize, moved];
    Ok(Some(patch))
}

/// `mover(Dequantize(q))` becomes `Dequantize(mover(q))`, for every output.
fn dequantize_down(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let mover = &graph.nodes[index];
    let Some(q) = mover.input(0).filter(|_| commutes(mover)).and_then(|x| dequantized(graph, uses, x)) else {
        return Ok(None);
    };
    let ty = graph.ty(q);
    let Some(params) = ty.quant.clone().filter(|p| p.scheme == Scheme::PerTensor) else { return Ok(None) };
    if graph.constant(q).is_some() {
        return Ok(None);
    }
    let mut patch = Patch::new(graph);
    let mut moved = mover.clone();
    moved.inputs[0] = Some(q);
    let mut dequantizers = Vec::new();
    for (i, out) in mover.outputs.iter().enumerate() {
        let late = late_value(graph, &mut patch, *out, ty, &params);
        moved.outputs[i] = late;
        let mut dq =
            ottava_hal::Node::new(fresh(graph, &patch, &format!("{}_dequantize{i}", mover.name)), "Dequantize", 1);
        dq.domain = ottava_ops::OTTAVA.into();
        dq.inputs = vec![Some(late)];
        dq.outputs = vec![*out];
        dequantizers.push(dq);
    }
    patch.remove.push(index);
    patch.insert.push(moved);
    patch.insert.extend(dequantizers);
    Ok(Some(patch))
}

fn late_value(
    graph: &Graph,
    patch: &mut Patch,
    out: ValueId,
    ty: &TensorType,
    params: &std::sync::Arc<ottava_hal::QuantParams>,
) -> ValueId {
    let name = fresh(graph, patch, &format!("{}_quantized", graph.name_of(out)));
    let value = typed(name, graph.ty(out), ty.dtype, params.clone());
    patch.value(value)
}
