//! A scale per output channel behind a product goes into its weights and bias: `Conv -> BatchNormalization`, and the
//! same behind ConvTranspose, Gemm and MatMul (which becomes Gemm), or spelled as Mul or Div by a constant.
//!
//! `y = (conv(x) + b - mean) * s + beta` with `s = gamma / sqrt(var + eps)`, computed per channel in f64 and rounded to
//! f32 once. A float result changes within the bounds of numerics.md section 7. Products of two activations, and
//! weights that are quantized, are left.

use super::attach_bias::{Channels, as_vector, channels};
use super::pattern::{View, is_plain};
use super::rules::{PRODUCTS, fresh, is, is_any, patch_const};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Attr, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{DataType, Node, Tensor, ValueId};

/// What the pass does.
pub const ABOUT: About =
    About { what: "batch norms and scales went into the weights before them", effect: Effect::Rounds };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "fold_batch_norm", rule)?;
    Ok(n + graph.remove_dead())
}

/// `y * scale + shift` per channel.
pub(super) struct Affine {
    pub(super) scale: Vec<f64>,
    pub(super) shift: Vec<f64>,
    /// Whether there is anything to add.
    shifts: bool,
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let view = View { graph, uses };
    let node = &graph.nodes[index];
    let Some(y) = data_of(graph, node)?.filter(|y| uses.only_reader(*y) == Some(index)) else { return Ok(None) };
    let Some((product_index, product)) = view.producer(y).filter(|(_, n)| is_any(n, PRODUCTS) && is_plain(n)) else {
        return Ok(None);
    };
    let out = node.outputs[0];
    let Some(channels) = channels(graph, product).filter(|_| view.is_f32(y) && view.shape(out) == view.shape(y)) else {
        return Ok(None);
    };
    let Some(affine) = affine_of(graph, node, y, &channels)? else { return Ok(None) };
    let Some(folded) = fold(graph, product, &affine, channels.extent)? else { return Ok(None) };
    Ok(Some(replace(graph, (product_index, index), folded)))
}

/// The value that a node scales.
fn data_of(graph: &Graph, node: &Node) -> Result<Option<ValueId>> {
    if !is_plain(node) || node.outputs.len() != 1 {
        return Ok(None);
    }
    if is(node, "BatchNormalization") {
        return Ok(node.input(0).filter(|_| node.attrs.int("training_mode", 0) == Ok(0)));
    }
    let constant = |i: usize| node.input(i).is_some_and(|id| graph.constant(id).is_some());
    Ok(match node.op.as_str() {
        "Mul" if node.domain.is_empty() && constant(0) => node.input(1),
        "Mul" | "Div" if node.domain.is_empty() && constant(1) => node.input(0),
        _ => None,
    })
}

fn affine_of(graph: &Graph, node: &Node, y: ValueId, channels: &Channels) -> Result<Option<Affine>> {
    if is(node, "BatchNormalization") {
        return batch_norm(graph, node, channels.extent);
    }
    let other = node.inputs.iter().flatten().find(|id| **id != y).and_then(|id| graph.constant(*id));
    let Some(data) = other.filter(|t| t.dtype() == DataType::F32) else { return Ok(None) };
    let Some(vector) = as_vector(data, channels)? else { return Ok(None) };
    let factor = |v: f32| if is(node, "Div") { 1.0 / f64::from(v) } else { f64::from(v) };
    let scale: Vec<f64> = vector.to_f32s()?.into_iter().map(factor).collect();
    // A channel that is switched off keeps its weights: nobody could tell them from a failure.
    let usable = scale.iter().all(|s| s.is_finite() && *s != 0.0);
    Ok(usable.then(|| Affine { shift: vec![0.0; scale.len()], scale, shifts: false }))
}

/// What a batch norm does to each of `n_channels` channels; `None` if its statistics are no such constants.
pub(super) fn batch_norm(graph: &Graph, bn: &Node, n_channels: usize) -> Result<Option<Affine>> {
    let mut stats = Vec::with_capacity(4);
    for i in 1..=4 {
        let Some(t) = bn.input(i).and_then(|id| graph.constant(id)) else { return Ok(None) };
        stats.push(t.to_f32s()?);
    }
    if n_channels == 0 || stats.iter().any(|s| s.len() != n_channels) {
        return Ok(None);
    }
    let eps = f64::from(bn.attrs.float("epsilon", 1e-5)?);
    let of = |i: usize, c: usize| f64::from(stats[i][c]);
    let scale: Vec<f64> = (0..n_channels).map(|c| of(0, c) / (of(3, c) + eps).sqrt()).collect();
    let shift = (0..n_channels).map(|c| of(1, c) - of(2, c) * scale[c]).collect();
    Ok(scale.iter().all(|s| s.is_finite()).then_some(Affine { scale, shift, shifts: true }))
}

/// A product with other constants.
pub(super) struct Folded {
    pub(super) node: Node,
    pub(super) weights: Tensor,
    pub(super) bias: Option<Tensor>,
}

fn fold(graph: &Graph, product: &Node, affine: &Affine, n: usize) -> Result<Option<Folded>> {
    let constant = |i: usize| product.input(i).and_then(|id| graph.constant(id));
    let Some(weights) = constant(1).filter(|w| w.dtype() == DataType::F32) else { return Ok(None) };
    let plain_beta = product.attrs.float("beta", 1.0)? == 1.0;
    if product.input(2).is_some() && (constant(2).is_none() || !plain_beta) {
        return Ok(None);
    }
    let old = match constant(2).map(Tensor::to_f32s).transpose()? {
        Some(b) if b.len() == 1 => Some(vec![b[0]; n]),
        Some(b) if b.len() == n => Some(b),
        Some(_) => return Ok(None),
        None => None,
    };
    let Some(channel_of) = weight_channels(product, weights.shape())? else { return Ok(None) };
    let mut scaled = weights.clone();
    for (i, w) in scaled.as_slice_mut::<f32>()?.iter_mut().enumerate() {
        let Some(scale) = affine.scale.get(channel_of(i)) else { return Ok(None) };
        *w = (f64::from(*w) * scale) as f32;
    }
    let bias_of = |c: usize| {
        let before = old.as_ref().map_or(0.0, |b| f64::from(b[c]));
        (before * affine.scale[c] + affine.shift[c]) as f32
    };
    let bias: Option<Vec<f32>> = (old.is_some() || affine.shifts).then(|| (0..n).map(bias_of).collect());
    let bias = bias.map(|b| Tensor::from_slice(&[n], &b)).transpose()?;
    Ok(Some(Folded { node: product.clone(), weights: scaled, bias }))
}

/// The output channel that an element of the weights belongs to.
pub(super) fn weight_channels(product: &Node, shape: &[usize]) -> Result<Option<impl Fn(usize) -> usize>> {
    let inner = |axis: usize| shape.iter().skip(axis + 1).product::<usize>().max(1);
    let transposed = product.attrs.int("transB", 0)? != 0;
    // Elements per step of the channel axis, its extent, and channels per group of inputs.
    let (step, extent, group) = match (product.op.as_str(), shape.len()) {
        ("Conv", 3..) => (inner(0), shape[0], None),
        ("ConvTranspose", 3..) => {
            let groups = usize::try_from(product.attrs.int("group", 1)?).unwrap_or(0).max(1);
            (inner(1), shape[1], Some((shape[0] / groups).max(1) * inner(0)))
        }
        ("Gemm", 2) if transposed => (inner(0), shape[0], None),
        ("Gemm" | "MatMul", 2) => (1, shape[1], None),
        _ => return Ok(None),
    };
    let extent = extent.max(1);
    Ok(Some(move |i: usize| group.map_or(0, |per_group| i / per_group * extent) + i / step % extent))
}

/// Puts a product with other constants in the place of two nodes, the second of which gives its outputs.
pub(super) fn replace(graph: &Graph, (product_index, index): (usize, usize), folded: Folded) -> Patch {
    let mut patch = Patch::new(graph);
    let mut node = folded.node;
    let name = fresh(graph, &patch, &format!("{}_folded", node.name));
    let weights = patch_const(&mut patch, name, folded.weights);
    node.inputs.truncate(1);
    node.inputs.push(Some(weights));
    if let Some(bias) = folded.bias {
        let name = fresh(graph, &patch, &format!("{}_bias", node.name));
        node.inputs.push(Some(patch_const(&mut patch, name, bias)));
        if is(&node, "MatMul") {
            node.op = "Gemm".into();
            node.version = 13;
            node.attrs.set("transB", Attr::Int(0));
        }
    }
    node.outputs = graph.nodes[index].outputs.clone();
    patch.remove = vec![product_index, index];
    patch.insert.push(node);
    patch
}
