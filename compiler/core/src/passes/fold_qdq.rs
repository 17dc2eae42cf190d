//! A node between Dequantize and Quantize *is* the integer operator: its values become typed and the bridges go
//! (numerics.md section 4).
//!
//! Products (Conv, ConvTranspose, Gemm, MatMul) may also keep a float result (no Quantize behind). Their bias becomes
//! s32 at scale `xs * ws[c]`; a MatMul takes the Add of a constant behind it as its bias. What cannot be folded stays in
//! float, between explicit bridges, with a diagnostic that says why: weights quantized along another axis than the
//! operator's channels, a bias that does not fit 32 bits. An accumulator that may not fit 32 bits is folded with a
//! warning: the reference sums it in 64 bits, devices refuse it with `ACC_OVERFLOW`.

use super::rules::{PRODUCTS, commutes, dequantized, fresh, is, is_any, only_quantize};
use super::{About, Effect};
use crate::Cx;
use crate::products::{BiasIntegers, OrWhy, Product, describe};
use ottava_graph::{Diagnostic, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Node, RequantMode, Value, ValueId};
use std::collections::BTreeSet;

/// Operators whose every input is data.
const ALL_INPUTS: &[&str] = &["Add", "Sub", "Mul", "Div", "Max", "Min", "Concat"];
/// Operators whose first input is data; the others, if any, are parameters.
const FIRST_INPUT: &[&str] = &[
    "AveragePool",
    "GlobalAveragePool",
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "Relu",
    "Clip",
    "PRelu",
    "Softmax",
    "LayerNormalization",
    "RMSNormalization",
    "Resize",
    "Pad",
];
/// Operators that rescale a sum with a multiplier and therefore have a requantization mode.
const ACCUMULATING: &[&str] = &["AveragePool", "GlobalAveragePool", "ReduceMean", "ReduceSum"];
/// A multiplier must stay below this (numerics.md section 5).
const MAX_MULTIPLIER: f32 = 2_147_483_648.0;

/// What the pass does.
pub const ABOUT: About =
    About { what: "operators between Dequantize and Quantize became integer operators", effect: Effect::Quantizes };

/// Runs the pass.
pub fn run(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    let merged = super::merge_bridges::run(graph, cx)?;
    let mut refused: BTreeSet<String> = BTreeSet::new();
    let n = rewrite(graph, "fold_qdq", |graph, uses, index| {
        let node = &graph.nodes[index];
        if refused.contains(&node.name) || already_typed(graph, node) {
            return Ok(None);
        }
        if !is_any(node, PRODUCTS) {
            return Ok(fold_plain(graph, uses, index));
        }
        match fold_product(graph, uses, index)? {
            Folding::Folded { patch, findings } => {
                cx.diagnostics.extend(findings);
                Ok(Some(*patch))
            }
            Folding::NotQuantized => Ok(None),
            Folding::Refused(why) => {
                refused.insert(node.name.clone());
                cx.diagnostics.push(Diagnostic::warning("Q0402", &node.name, why));
                Ok(None)
            }
        }
    })?;
    Ok(merged + n + graph.remove_dead())
}

fn already_typed(graph: &Graph, node: &Node) -> bool {
    let data = if is(node, "Where") { 1 } else { 0 };
    node.input(data).is_some_and(|x| graph.ty(x).quant.is_some())
}

/// Scale of a value that is quantized per tensor.
fn tensor_scale(graph: &Graph, id: ValueId) -> Option<f32> {
    graph.ty(id).quant.as_deref()?.as_per_tensor().map(|(scale, _)| scale)
}

/// An operator that is no product: data inputs and the one output are typed.
fn fold_plain(graph: &Graph, uses: &Uses, index: usize) -> Option<Patch> {
    let node = &graph.nodes[index];
    let is_unary = || {
        ottava_ops::lookup(&node.domain, &node.op)
            .is_ok_and(|op| matches!(op.quant_rule(node), ottava_ops::QuantRule::Unary))
    };
    let data = match () {
        () if is_any(node, ALL_INPUTS) => 0..node.inputs.len(),
        () if is(node, "Where") => 1..node.inputs.len(),
        () if is_any(node, FIRST_INPUT) || commutes(node) || is_unary() => 0..1,
        () => return None,
    };
    let mut inputs = node.inputs.clone();
    for slot in inputs.get_mut(data)? {
        let typed = dequantized(graph, uses, (*slot)?).filter(|q| tensor_scale(graph, *q).is_some())?;
        *slot = Some(typed);
    }
    let [out] = node.outputs.as_slice() else { return None };
    let q_index = only_quantize(graph, uses, *out)?;
    let quantize = &graph.nodes[q_index];
    let ys = tensor_scale(graph, quantize.outputs[0])?;
    let accumulates = is_any(node, ACCUMULATING);
    if accumulates && inputs[0].and_then(|x| tensor_scale(graph, x)).is_none_or(|xs| xs / ys >= MAX_MULTIPLIER) {
        return None;
    }
    let mut typed = node.clone();
    typed.inputs = inputs;
    typed.outputs = quantize.outputs.clone();
    typed.fused.clamp = quantize.fused.clamp;
    typed.requant = accumulates.then_some(RequantMode::Fp32Rne);
    let mut patch = Patch::new(graph);
    patch.remove = vec![index, q_index];
    patch.insert.push(typed);
    Some(patch)
}

enum Folding {
    Folded {
        patch: Box<Patch>,
        /// What a person should know about it.
        findings: Vec<Diagnostic>,
    },
    NotQuantized,
    Refused(String),
}

fn fold_product(graph: &Graph, uses: &Uses, index: usize) -> Result<Folding> {
    let node = &graph.nodes[index];
    let operand = |i: usize| node.input(i).and_then(|id| dequantized(graph, uses, id));
    let (Some(x), Some(w)) = (operand(0), operand(1)) else { return Ok(Folding::NotQuantized) };
    let product = match describe(graph, node, x, w)? {
        Ok(product) => product,
        Err(why) => return Ok(Folding::Refused(why)),
    };
    let mut patch = Patch::new(graph);
    patch.remove.push(index);
    let mut out = node.outputs[0];
    let bias = match node.input(2) {
        Some(id) => match bias_integers(graph, uses, &product, node, id)? {
            Ok(bias) => Some(bias),
            Err(why) => return Ok(Folding::Refused(why)),
        },
        None => added_bias(graph, uses, &product, index)?.map(|(add, bias)| {
            patch.remove.push(add);
            out = graph.nodes[add].outputs[0];
            bias
        }),
    };
    let mut findings = Vec::new();
    if bias.as_ref().is_some_and(|b| b.rescaled) {
        let what = "its bias stood at another scale than that of its accumulator and was requantized";
        findings.push(Diagnostic::note("Q0403", &node.name, what));
    }
    if let Some(why) = product.overflow(graph, bias.as_ref().map(|b| b.values.as_slice()))? {
        findings.push(Diagnostic::warning("Q0404", &node.name, format!("{why}; it is summed in 64 bits")));
    }
    let mut typed = node.clone();
    typed.inputs = vec![Some(upright(graph, &mut patch, &mut typed, x)?), Some(w)];
    if let Some(bias) = &bias {
        typed.inputs.push(Some(product.bias_value(graph, &mut patch, node, &bias.values)?));
    }
    typed.outputs = vec![out];
    typed.requant = Some(RequantMode::Fp32Rne);
    typed.attrs.0.remove("beta");
    let fits = |q: &usize| tensor_scale(graph, graph.nodes[*q].outputs[0]).is_some_and(|ys| product.requantizes_to(ys));
    if let Some(q_index) = only_quantize(graph, uses, out).filter(fits) {
        let quantize = &graph.nodes[q_index];
        typed.outputs = quantize.outputs.clone();
        typed.fused.clamp = quantize.fused.clamp;
        patch.remove.push(q_index);
    }
    patch.insert.push(typed);
    Ok(Folding::Folded { patch: Box::new(patch), findings })
}

/// The first operand of a product; of a Gemm with transA the transposed one, for devices multiply rows.
fn upright(graph: &Graph, patch: &mut Patch, typed: &mut Node, x: ValueId) -> Result<ValueId> {
    if !is(typed, "Gemm") || typed.attrs.int("transA", 0)? == 0 {
        return Ok(x);
    }
    typed.attrs.0.remove("transA");
    let name = fresh(graph, patch, &format!("{}_a", typed.name));
    let mut ty = graph.ty(x).clone();
    ty.shape.0.reverse();
    let mut transpose = Node::new(name.clone(), "Transpose", 13);
    let id = patch.value(Value { name, ty, constant: None });
    transpose.inputs = vec![Some(x)];
    transpose.outputs = vec![id];
    patch.insert.push(transpose);
    Ok(id)
}

/// The bias as integers at the product's scale, or why there are none.
fn bias_integers(
    graph: &Graph,
    uses: &Uses,
    product: &Product,
    node: &Node,
    id: ValueId,
) -> Result<OrWhy<BiasIntegers>> {
    let beta = if is(node, "Gemm") { node.attrs.float("beta", 1.0)? } else { 1.0 };
    if let Some(data) = graph.constant(id) {
        return product.bias(data, None, beta);
    }
    let q = dequantized(graph, uses, id);
    match q.and_then(|q| Some((graph.constant(q)?, graph.ty(q).quant.clone()?))) {
        Some((data, params)) => product.bias(data, Some(&params), beta),
        None => Ok(Err("its bias is computed at run time, which the integer form has no place for".into())),
    }
}

/// The Add of a constant behind a MatMul that has no bias, if the constant varies only along the last axis.
fn added_bias(graph: &Graph, uses: &Uses, product: &Product, index: usize) -> Result<Option<(usize, BiasIntegers)>> {
    let node = &graph.nodes[index];
    let y = node.outputs[0];
    let Some(add_index) = uses.only_reader(y).filter(|_| is(node, "MatMul")) else { return Ok(None) };
    let add = &graph.nodes[add_index];
    let same_shape = graph.ty(add.outputs[0]).shape == graph.ty(y).shape;
    if !is(add, "Add") || add.fused != Default::default() || !same_shape {
        return Ok(None);
    }
    let Some(other) = add.inputs.iter().flatten().copied().find(|id| *id != y) else { return Ok(None) };
    let integers = dequantized(graph, uses, other).and_then(|q| graph.constant(q));
    if graph.constant(other).is_none() && integers.is_none_or(|t| t.dtype() != ottava_hal::DataType::S32) {
        return Ok(None);
    }
    Ok(bias_integers(graph, uses, product, node, other)?.ok().map(|bias| (add_index, bias)))
}
