//! `Conv -> BatchNormalization` becomes `Conv` with scaled weights and a bias.
//!
//! `y = (conv(x) + b - mean) * s + beta` with `s = gamma / sqrt(var + eps)`, computed per channel in f64 and rounded to
//! f32 once. A float result changes within the bounds of numerics.md section 7. Gemm and ConvTranspose are left: their
//! weights have other axes, and networks rarely have them so.

use super::rules::{fresh, is, patch_const};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{DataType, Node, Tensor};

/// What the pass does.
pub const ABOUT: About = About { what: "batch norms went into the weights before them", effect: Effect::Rounds };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "fold_batch_norm", rule)?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let bn = &graph.nodes[index];
    if !is(bn, "BatchNormalization") || bn.outputs.len() != 1 || bn.attrs.int("training_mode", 0)? != 0 {
        return Ok(None);
    }
    let Some(conv_index) = bn.input(0).filter(|x| uses.only_reader(*x) == Some(index)).and_then(|x| uses.producer(x))
    else {
        return Ok(None);
    };
    let conv = &graph.nodes[conv_index];
    if !is(conv, "Conv") || conv.fused != Default::default() {
        return Ok(None);
    }
    let Some(folded) = fold(graph, conv, bn)? else { return Ok(None) };
    let mut patch = Patch::new(graph);
    let weights = fresh(graph, &patch, &format!("{}_folded", conv.name));
    let w = patch_const(&mut patch, weights, folded.weights);
    let bias = fresh(graph, &patch, &format!("{}_bias", conv.name));
    let b = patch_const(&mut patch, bias, folded.bias);
    let mut node = conv.clone();
    node.inputs = vec![conv.input(0), Some(w), Some(b)];
    node.outputs = bn.outputs.clone();
    patch.remove = vec![conv_index, index];
    patch.insert.push(node);
    Ok(Some(patch))
}

struct Folded {
    weights: Tensor,
    bias: Tensor,
}

fn fold(graph: &Graph, conv: &Node, bn: &Node) -> Result<Option<Folded>> {
    let constant = |node: &Node, i: usize| node.input(i).and_then(|id| graph.constant(id));
    let Some(weights) = constant(conv, 1) else { return Ok(None) };
    if weights.dtype() != DataType::F32 || conv.input(2).is_some() && constant(conv, 2).is_none() {
        return Ok(None);
    }
    let mut stats = Vec::with_capacity(4);
    for i in 1..=4 {
        let Some(t) = constant(bn, i) else { return Ok(None) };
        stats.push(t.to_f32s()?);
    }
    let n_channels = weights.shape().first().copied().unwrap_or(0);
    if n_channels == 0 || stats.iter().any(|s| s.len() != n_channels) {
        return Ok(None);
    }
    let eps = f64::from(bn.attrs.float("epsilon", 1e-5)?);
    let old_bias = constant(conv, 2).map(Tensor::to_f32s).transpose()?.unwrap_or_else(|| vec![0.0; n_channels]);
    if old_bias.len() != n_channels {
        return Ok(None);
    }
    let scale = |c: usize| f64::from(stats[0][c]) / (f64::from(stats[3][c]) + eps).sqrt();
    let bias_of = |c: usize| (f64::from(old_bias[c]) - f64::from(stats[2][c])) * scale(c) + f64::from(stats[1][c]);
    if (0..n_channels).any(|c| !scale(c).is_finite()) {
        return Ok(None);
    }
    let mut folded = weights.clone();
    let per_channel = weights.elements() / n_channels;
    for (c, row) in folded.as_slice_mut::<f32>()?.chunks_mut(per_channel.max(1)).enumerate() {
        row.iter_mut().for_each(|w| *w = (f64::from(*w) * scale(c)) as f32);
    }
    let bias: Vec<f32> = (0..n_channels).map(|c| bias_of(c) as f32).collect();
    Ok(Some(Folded { weights: folded, bias: Tensor::from_slice(&[n_channels], &bias)? }))
}
