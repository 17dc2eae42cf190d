//! What multiplies or adds to each channel of a Conv with dequantized weights goes into the scales of the weights and
//! the bias.
//!
//! Training for quantization that keeps batch normalization beside the convolution writes
//! `Conv -> Div -> Add -> BatchNormalization`: the weights were multiplied before they were quantized, and the output
//! is divided again. `conv(q * ws[c]) * k[c] + t[c] = conv(q * (ws[c] * k[c])) + t[c]`: the integers stay, so that the
//! convolution can become an integer one. Products are made in f64 and rounded to f32 once; the float result changes
//! within the bounds of numerics.md section 7, as in `fold_batch_norm`. A factor that is not positive would need other
//! integers and is left.

use super::rules::{fresh, is, patch_const};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Attr, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{DataType, Node, Tensor, ValueId};

/// What the pass does.
pub const ABOUT: About = About {
    what: "factors and sums by channel went into the scales of the weights before them",
    effect: Effect::Rounds,
};

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "fold_channel_affine", rule)?;
    Ok(n + graph.remove_dead())
}

/// `x * factor + summand`, by output channel.
struct Affine {
    factor: Vec<f64>,
    summand: Vec<f64>,
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let node = &graph.nodes[index];
    if node.fused != Default::default() || node.outputs.len() != 1 {
        return Ok(None);
    }
    for slot in 0..2 {
        let Some(x) = node.input(slot).filter(|x| uses.only_reader(*x) == Some(index)) else { continue };
        let Some(conv_index) = uses.producer(x).filter(|i| is(&graph.nodes[*i], "Conv")) else { continue };
        let conv = &graph.nodes[conv_index];
        let Some(weights) = dequantized_weights(graph, uses, conv)? else { return Ok(None) };
        let same_type = graph.ty(node.outputs[0]) == graph.ty(x) && graph.ty(x).dtype == DataType::F32;
        if conv.fused != Default::default() || !same_type {
            return Ok(None);
        }
        let Some(affine) = affine(graph, node, slot, weights.channels)? else { return Ok(None) };
        return fold(graph, (conv_index, index), &weights, &affine);
    }
    Ok(None)
}

/// Weights behind a `DequantizeLinear` with one scale, or one per output channel.
struct Weights<'g> {
    dequantize: &'g Node,
    channels: usize,
    scales: Vec<f32>,
    zero_points: Option<(DataType, Vec<i64>)>,
}

fn dequantized_weights<'g>(graph: &'g Graph, uses: &Uses, conv: &Node) -> Result<Option<Weights<'g>>> {
    let constant = |node: &Node, i: usize| node.input(i).and_then(|id| graph.constant(id));
    let Some(dequantize) = conv.input(1).and_then(|w| uses.producer(w)).map(|i| &graph.nodes[i]) else {
        return Ok(None);
    };
    let (integers, scale) = (constant(dequantize, 0), constant(dequantize, 1));
    let (true, Some(integers), Some(scale)) = (is(dequantize, "DequantizeLinear"), integers, scale) else {
        return Ok(None);
    };
    let (rank, axis) = (integers.shape().len() as i64, dequantize.attrs.int("axis", 1)?);
    let channels = integers.shape().first().copied().unwrap_or(0);
    let along_channels = scale.elements() == 1 || scale.elements() == channels && (axis == 0 || axis == -rank);
    let is_plain = dequantize.attrs.int("block_size", 0)? == 0 && scale.shape().len() <= 1;
    if channels == 0 || !along_channels || !is_plain || scale.dtype() != DataType::F32 {
        return Ok(None);
    }
    let zero_points = match dequantize.input(2).map(|_| constant(dequantize, 2)) {
        None => None,
        Some(None) => return Ok(None),
        Some(Some(z)) if z.elements() != scale.elements() => return Ok(None),
        Some(Some(z)) => Some((z.dtype(), z.to_ints()?)),
    };
    Ok(Some(Weights { dequantize, channels, scales: scale.to_f32s()?, zero_points }))
}

/// What `node` does to its input in `slot`, if that is affine by channel with a constant.
fn affine(graph: &Graph, node: &Node, slot: usize, channels: usize) -> Result<Option<Affine>> {
    if is(node, "BatchNormalization") {
        return if slot == 0 { normalization(graph, node, channels) } else { Ok(None) };
    }
    let rank = graph.ty(node.outputs[0]).shape.rank();
    let other = node.input(1 - slot).and_then(|id| graph.constant(id));
    let Some(other) = other.map(|data| by_channel(data, rank, channels)).transpose()?.flatten() else {
        return Ok(None);
    };
    let (ones, zeros) = (vec![1.0; channels], vec![0.0; channels]);
    Ok(match (node.op.as_str(), slot) {
        _ if !node.domain.is_empty() => None,
        ("Mul", _) => Some(Affine { factor: other, summand: zeros }),
        ("Div", 0) => Some(Affine { factor: other.iter().map(|v| 1.0 / v).collect(), summand: zeros }),
        ("Add", _) => Some(Affine { factor: ones, summand: other }),
        ("Sub", 0) => Some(Affine { factor: ones, summand: other.iter().map(|v| -v).collect() }),
        _ => None,
    })
}

fn normalization(graph: &Graph, bn: &Node, channels: usize) -> Result<Option<Affine>> {
    if bn.attrs.int("training_mode", 0)? != 0 {
        return Ok(None);
    }
    let mut stats = Vec::with_capacity(4);
    for i in 1..=4 {
        let Some(data) = bn.input(i).and_then(|id| graph.constant(id)) else { return Ok(None) };
        stats.push(data.to_f32s()?.into_iter().map(f64::from).collect::<Vec<_>>());
    }
    if stats.iter().any(|s| s.len() != channels) {
        return Ok(None);
    }
    let eps = f64::from(bn.attrs.float("epsilon", 1e-5)?);
    let factor: Vec<f64> = stats[0].iter().zip(&stats[3]).map(|(gamma, var)| gamma / (var + eps).sqrt()).collect();
    let summand = (0..channels).map(|c| stats[1][c] - stats[2][c] * factor[c]).collect();
    Ok(Some(Affine { factor, summand }))
}

/// A constant as one entry per channel of a value `[n, c, ...]`, if it varies along nothing else.
fn by_channel(data: &Tensor, rank: usize, channels: usize) -> Result<Option<Vec<f64>>> {
    let shape = data.shape();
    let axis = (shape.len() + 1).checked_sub(rank);
    let along = axis.and_then(|a| shape.get(a)).copied().unwrap_or(1);
    if data.dtype() != DataType::F32 || data.elements() != along || along != 1 && along != channels {
        return Ok(None);
    }
    let values: Vec<f64> = data.to_f32s()?.into_iter().map(f64::from).collect();
    Ok(Some(if values.len() == channels { values } else { vec![values[0]; channels] }))
}

/// Conv with other scales and another bias, in the place of both nodes.
fn fold(graph: &Graph, nodes: (usize, usize), weights: &Weights, affine: &Affine) -> Result<Option<Patch>> {
    let (conv_index, index) = nodes;
    let (conv, n) = (&graph.nodes[conv_index], weights.channels);
    let bias = conv.input(2).map(|id| graph.constant(id).filter(|b| b.dtype() == DataType::F32 && b.elements() == n));
    let old = match bias {
        Some(None) => return Ok(None),
        Some(Some(b)) => b.to_f32s()?,
        None => vec![0.0; n],
    };
    let scale = |c: usize| (f64::from(weights.scales[c % weights.scales.len()]) * affine.factor[c]) as f32;
    let scales: Vec<f32> = (0..n).map(scale).collect();
    let new: Vec<f32> = (0..n).map(|c| (f64::from(old[c]) * affine.factor[c] + affine.summand[c]) as f32).collect();
    if !scales.iter().all(|s| s.is_normal() && *s > 0.0) || !new.iter().all(|b| b.is_finite()) {
        return Ok(None);
    }
    let mut patch = Patch::new(graph);
    let w = match affine.factor.iter().all(|k| *k == 1.0) {
        true => conv.input(1),
        false => Some(scaled_weights(graph, &mut patch, conv, weights, &scales)?),
    };
    let name = fresh(graph, &patch, &format!("{}_bias", conv.name));
    let b = patch_const(&mut patch, name, Tensor::from_slice(&[n], &new)?);
    let mut node = conv.clone();
    node.inputs = vec![conv.input(0), w, Some(b)];
    node.outputs = graph.nodes[index].outputs.clone();
    patch.remove = vec![conv_index, index];
    patch.insert.push(node);
    Ok(Some(patch))
}

fn scaled_weights(graph: &Graph, patch: &mut Patch, conv: &Node, of: &Weights, scales: &[f32]) -> Result<ValueId> {
    let n = of.channels;
    let mut node = of.dequantize.clone();
    node.name = fresh(graph, patch, &format!("{}_weights", conv.name));
    let name = fresh(graph, patch, &format!("{}_scales", conv.name));
    node.inputs[1] = Some(patch_const(patch, name, Tensor::from_slice(&[n], scales)?));
    if let Some((dtype, zs)) = &of.zero_points {
        let zs: Vec<i64> = (0..n).map(|c| zs[c % zs.len()]).collect();
        let name = fresh(graph, patch, &format!("{}_zero_points", conv.name));
        node.inputs[2] = Some(patch_const(patch, name, Tensor::from_ints(*dtype, &[n], &zs)?));
    }
    node.attrs.set("axis", Attr::Int(0));
    let mut value = graph.value(of.dequantize.outputs[0]).clone();
    value.name = fresh(graph, patch, &format!("{}_weights", conv.name));
    let out = patch.value(value);
    node.outputs = vec![out];
    patch.insert.push(node);
    Ok(out)
}
