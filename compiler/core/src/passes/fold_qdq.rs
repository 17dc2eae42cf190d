//! A node between Dequantize and Quantize *is* the integer operator: its values become typed and the bridges go
//! (numerics.md section 4).
//!
//! Products (Conv, ConvTranspose, Gemm, MatMul) may also keep a float result (no Quantize behind). Their bias becomes
//! s32 at scale `xs * ws[c]`. What cannot be folded stays in float, between explicit bridges, with a diagnostic that
//! says why: weights quantized along another axis than the operator's channels, a bias or an accumulator that does not
//! fit 32 bits.

use super::rules::{PRODUCTS, commutes, dequantized, is_any, only_quantize};
use crate::Cx;
use crate::products::{OrWhy, Product, describe};
use ottava_graph::{Diagnostic, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Node, RequantMode, Scheme, ValueId};
use std::collections::BTreeSet;

/// Operators whose every input is data.
const ALL_INPUTS: &[&str] = &["Add", "Sub", "Mul", "Div", "Max", "Min", "Concat"];
/// Operators whose first input is data; the others, if any, are parameters.
const FIRST_INPUT: &[&str] = &[
    "AveragePool",
    "GlobalAveragePool",
    "ReduceMean",
    "ReduceSum",
    "Relu",
    "Clip",
    "Softmax",
    "LayerNormalization",
    "RMSNormalization",
    "Resize",
    "Pad",
];
/// Operators that rescale a sum with a multiplier and therefore have a requantization mode.
const ACCUMULATING: &[&str] = &["AveragePool", "GlobalAveragePool", "ReduceMean", "ReduceSum"];

/// Runs the pass.
pub fn run(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    super::merge_bridges::run(graph, cx)?;
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
            Folding::Folded(patch) => Ok(Some(*patch)),
            Folding::NotQuantized => Ok(None),
            Folding::Refused(why) => {
                refused.insert(node.name.clone());
                cx.diagnostics.push(Diagnostic::warning("Q0402", &node.name, why));
                Ok(None)
            }
        }
    })?;
    Ok(n + graph.remove_dead())
}

fn already_typed(graph: &Graph, node: &Node) -> bool {
    node.input(0).is_some_and(|x| graph.ty(x).quant.is_some())
}

fn is_per_tensor(graph: &Graph, id: ValueId) -> bool {
    graph.ty(id).quant.as_ref().is_some_and(|q| q.scheme == Scheme::PerTensor)
}

/// An operator that is no product: data inputs and the one output are typed.
fn fold_plain(graph: &Graph, uses: &Uses, index: usize) -> Option<Patch> {
    let node = &graph.nodes[index];
    let is_unary = || {
        ottava_ops::lookup(&node.domain, &node.op)
            .is_ok_and(|op| matches!(op.quant_rule(node), ottava_ops::QuantRule::Unary))
    };
    let n_data = match () {
        () if is_any(node, ALL_INPUTS) => node.inputs.len(),
        () if is_any(node, FIRST_INPUT) || commutes(node) || is_unary() => 1,
        () => return None,
    };
    let mut inputs = node.inputs.clone();
    for slot in inputs.iter_mut().take(n_data) {
        let typed = dequantized(graph, uses, (*slot)?).filter(|q| is_per_tensor(graph, *q))?;
        *slot = Some(typed);
    }
    let [out] = node.outputs.as_slice() else { return None };
    let q_index = only_quantize(graph, uses, *out)?;
    let quantize = &graph.nodes[q_index];
    if !is_per_tensor(graph, quantize.outputs[0]) {
        return None;
    }
    let mut typed = node.clone();
    typed.inputs = inputs;
    typed.outputs = quantize.outputs.clone();
    typed.fused.clamp = quantize.fused.clamp;
    typed.requant = is_any(node, ACCUMULATING).then_some(RequantMode::Fp32Rne);
    let mut patch = Patch::new(graph);
    patch.remove = vec![index, q_index];
    patch.insert.push(typed);
    Some(patch)
}

enum Folding {
    Folded(Box<Patch>),
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
    let bias = match node.input(2) {
        None => None,
        Some(id) => match bias_integers(graph, uses, &product, node, id)? {
            Ok(values) => Some(values),
            Err(why) => return Ok(Folding::Refused(why)),
        },
    };
    if let Some(why) = product.overflow(graph, bias.as_deref())? {
        return Ok(Folding::Refused(why));
    }
    let mut typed = node.clone();
    typed.inputs = vec![Some(x), Some(w)];
    if let Some(values) = bias {
        typed.inputs.push(Some(product.bias_value(graph, &mut patch, node, &values)?));
    }
    typed.requant = Some(RequantMode::Fp32Rne);
    typed.attrs.0.remove("beta");
    patch.remove.push(index);
    if let Some(q_index) =
        only_quantize(graph, uses, node.outputs[0]).filter(|q| is_per_tensor(graph, graph.nodes[*q].outputs[0]))
    {
        let quantize = &graph.nodes[q_index];
        typed.outputs = quantize.outputs.clone();
        typed.fused.clamp = quantize.fused.clamp;
        patch.remove.push(q_index);
    }
    patch.insert.push(typed);
    Ok(Folding::Folded(Box::new(patch)))
}

/// The bias as integers at the product's scale, or why there are none.
fn bias_integers(graph: &Graph, uses: &Uses, product: &Product, node: &Node, id: ValueId) -> Result<OrWhy<Vec<i32>>> {
    let beta = f64::from(node.attrs.float("beta", 1.0)?);
    if let Some(data) = graph.constant(id) {
        return Ok(product.quantize_bias(&data.to_f32s()?, beta));
    }
    let Some(q) = dequantized(graph, uses, id) else {
        return Ok(Err("its bias is computed at run time, which the integer form has no place for".into()));
    };
    let (Some(data), Some(params)) = (graph.constant(q), graph.ty(q).quant.clone()) else {
        return Ok(Err("its bias is computed at run time, which the integer form has no place for".into()));
    };
    Ok(product.adopt_bias(data, &params, beta))
}
