//! A batch norm in front of a product goes into its weights: `conv(x * s + t) = conv'(x)`, with every weight multiplied
//! by the `s` of its input channel, and the sum of weights times `t` in the bias.
//!
//! Padding is zero in front of the norm too, where `x * s + t` would be `t`: a padded convolution with a shift is left,
//! and a note says so; so is a transposed one, whose outputs sum different numbers of weights. Without a shift both fold.
//! Constants are made in f64 and rounded to f32 once; the float result changes within the bounds of numerics.md section
//! 7. A norm behind a product has gone into that one before.

use super::fold_batch_norm::{Affine, Folded, batch_norm, replace, weight_channels};
use super::pattern::{View, is_plain};
use super::rules::{PRODUCTS, is, is_any};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Diagnostic, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{DataType, Node, Tensor};
use std::collections::BTreeSet;

/// What the pass does.
pub const ABOUT: About = About { what: "batch norms went into the weights behind them", effect: Effect::Rounds };

/// Runs the pass.
pub fn run(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    let mut left: BTreeSet<String> = BTreeSet::new();
    let n = rewrite(graph, "fold_norm_forward", |graph, uses, index| {
        let name = &graph.nodes[index].name;
        if left.contains(name) {
            return Ok(None);
        }
        match rule(graph, uses, index)? {
            Folding::Folded(patch) => Ok(Some(*patch)),
            Folding::None => Ok(None),
            Folding::Left(why) => {
                left.insert(name.clone());
                cx.diagnostics.push(Diagnostic::note("M0403", name, format!("the batch norm before it stays: {why}")));
                Ok(None)
            }
        }
    })?;
    Ok(n + graph.remove_dead())
}

enum Folding {
    Folded(Box<Patch>),
    /// No batch norm, or not one that could ever go in.
    None,
    /// A batch norm that only its shift keeps out.
    Left(&'static str),
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Folding> {
    let view = View { graph, uses };
    let node = &graph.nodes[index];
    let Some(x) = node.input(0).filter(|_| is_any(node, PRODUCTS) && is_plain(node)) else { return Ok(Folding::None) };
    let norm = view.op(x, "BatchNormalization").filter(|(_, n)| n.outputs.len() == 1);
    let Some((norm_index, norm)) = norm.filter(|_| uses.only_reader(x) == Some(index) && view.is_f32(x)) else {
        return Ok(Folding::None);
    };
    let constant = |i: usize| node.input(i).and_then(|id| graph.constant(id));
    let Some(weights) = constant(1).filter(|w| w.dtype() == DataType::F32) else { return Ok(Folding::None) };
    if norm.attrs.int("training_mode", 0)? != 0 || !sums_plainly(graph, node)? {
        return Ok(Folding::None);
    }
    let Some(channels) = InputChannels::of(node, weights.shape())? else { return Ok(Folding::None) };
    let Some(affine) = batch_norm(graph, norm, channels.count)? else { return Ok(Folding::None) };
    let shifts = affine.shift.iter().any(|t| *t != 0.0);
    if let Some(why) = border(node)?.filter(|_| shifts) {
        return Ok(Folding::Left(why));
    }
    let Some(folded) = fold(graph, node, (&affine, shifts), &channels)? else { return Ok(Folding::None) };
    let mut folded = folded;
    folded.node.inputs[0] = norm.input(0);
    Ok(Folding::Folded(Box::new(replace(graph, (norm_index, index), folded))))
}

/// Whether the result is the sum of products and a constant bias, nothing else.
fn sums_plainly(graph: &Graph, node: &Node) -> Result<bool> {
    let bias = node.input(2).is_none_or(|id| graph.constant(id).is_some_and(|b| b.dtype() == DataType::F32));
    let factors = node.attrs.float("alpha", 1.0)? == 1.0 && node.attrs.float("beta", 1.0)? == 1.0;
    let upright = node.attrs.int("transA", 0)? == 0;
    // The channels of a norm are axis 1: the sum's axis only in a matrix.
    let rank = node.input(0).map_or(0, |x| graph.ty(x).shape.rank());
    Ok(bias && factors && upright && (rank == 2 || !is_any(node, &["Gemm", "MatMul"])))
}

/// Why a shift in front of a product is not a shift behind it.
fn border(node: &Node) -> Result<Option<&'static str>> {
    if is(node, "ConvTranspose") {
        return Ok(Some(
            "it shifts its input, and outputs at the border of a transposed convolution sum fewer weights",
        ));
    }
    let pads = node.attrs.ints_opt("pads")?.unwrap_or_default();
    let automatic = !matches!(node.attrs.str("auto_pad", "NOTSET")?, "NOTSET" | "VALID");
    let padded = is(node, "Conv") && (automatic || pads.iter().any(|p| *p != 0));
    Ok(padded.then_some("it shifts its input, and the zeros of the padding are not shifted"))
}

/// The input channels of weights.
struct InputChannels {
    count: usize,
    /// Elements per step of the channel axis, its extent, output channels per group and elements of one.
    step: usize,
    extent: usize,
    group: Option<(usize, usize)>,
}

impl InputChannels {
    fn of(node: &Node, shape: &[usize]) -> Result<Option<Self>> {
        let inner = |axis: usize| shape.iter().skip(axis + 1).product::<usize>().max(1);
        let groups = usize::try_from(node.attrs.int("group", 1)?).unwrap_or(0).max(1);
        let transposed = node.attrs.int("transB", 0)? != 0;
        let plain = |axis: usize| Self { count: shape[axis], step: inner(axis), extent: shape[axis], group: None };
        Ok(match (node.op.as_str(), shape.len()) {
            ("Conv", 3..) if shape[0].is_multiple_of(groups) && shape[0] > 0 => Some(Self {
                count: shape[1].saturating_mul(groups),
                group: Some(((shape[0] / groups), inner(0))),
                ..plain(1)
            }),
            ("ConvTranspose", 3..) => Some(plain(0)),
            ("Gemm", 2) if transposed => Some(plain(1)),
            ("Gemm" | "MatMul", 2) => Some(plain(0)),
            _ => None,
        })
    }

    /// The input channel that element `i` of the weights multiplies.
    fn at(&self, i: usize) -> usize {
        let within = i / self.step % self.extent.max(1);
        let group = self.group.map_or(0, |(outputs, elements)| i / elements / outputs);
        group * self.extent + within
    }
}

fn fold(
    graph: &Graph,
    node: &Node,
    (affine, shifts): (&Affine, bool),
    channels: &InputChannels,
) -> Result<Option<Folded>> {
    let constant = |i: usize| node.input(i).and_then(|id| graph.constant(id));
    let Some(weights) = constant(1) else { return Ok(None) };
    let Some(output_of) = weight_channels(node, weights.shape())? else { return Ok(None) };
    let values = weights.to_f32s()?;
    let n_outputs = values.iter().enumerate().map(|(i, _)| output_of(i) + 1).max().unwrap_or(0);
    let old = match constant(2).map(Tensor::to_f32s).transpose()? {
        Some(b) if b.len() == n_outputs => Some(b),
        Some(b) if b.len() == 1 => Some(vec![b[0]; n_outputs]),
        Some(_) => return Ok(None),
        None => None,
    };
    let mut sums: Vec<f64> = (0..n_outputs).map(|c| old.as_ref().map_or(0.0, |b| f64::from(b[c]))).collect();
    let mut scaled = weights.clone();
    for (i, w) in scaled.as_slice_mut::<f32>()?.iter_mut().enumerate() {
        let c = channels.at(i);
        let (Some(scale), Some(shift)) = (affine.scale.get(c), affine.shift.get(c)) else { return Ok(None) };
        sums[output_of(i)] += f64::from(*w) * shift;
        *w = (f64::from(*w) * scale) as f32;
    }
    let bias: Option<Vec<f32>> = (old.is_some() || shifts).then(|| sums.iter().map(|s| *s as f32).collect());
    let finite = |values: &[f32]| values.iter().all(|v| v.is_finite());
    if !finite(&scaled.to_f32s()?) || bias.as_deref().is_some_and(|b| !finite(b)) {
        return Ok(None);
    }
    let bias = bias.map(|b| Tensor::from_slice(&[n_outputs], &b)).transpose()?;
    Ok(Some(Folded { node: node.clone(), weights: scaled, bias }))
}
