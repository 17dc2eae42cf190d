//! Compares two forms of a graph value by value: the one before a pass is evaluated operator by operator, and wherever
//! the form after it still has a value of the same name, both must agree; evaluation goes on with the value of the
//! second form, so that a difference cannot grow or hide behind another.
//!
//! Integers that come out of a cluster whose quantized meaning is an integer operator (numerics.md section 4) may
//! differ by one step from the float operators of the first form. A value whose formula became one operator (Gelu,
//! LayerNormalization) may differ by the roundings of both. Everything else must agree bit for bit.

use crate::rng::Rng;
use ottava_graph::{Graph, to_program};
use ottava_hal::{DataType, Node, Tensor, TensorType};
use ottava_ops::{EvalCx, QuantRule};
use ottava_reference::Interpreter;
use std::collections::BTreeMap;

/// What a transformation may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Nothing, except float results of batch norms and scales that went into weights, and of formulas.
    Exact,
    /// Float operators between Q and DQ become integer operators.
    Quantized,
}

/// Integer operators that are no more than one step from their float form, besides tables of unary functions.
const INTEGER_FORMS: &[&str] = &[
    "Conv",
    "ConvTranspose",
    "Gemm",
    "MatMul",
    "AveragePool",
    "GlobalAveragePool",
    "ReduceMean",
    "ReduceSum",
    "Softmax",
    "LayerNormalization",
];
/// Operators that a spelled-out formula becomes: they round in other places than the formula.
const FORMULAS: &[&str] = &[
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LayerNormalization",
    "MaskedMean",
    "MaskedSoftmax",
    "Mish",
    "RMSNormalization",
    "Softmax",
    "Swish",
];
/// Tolerance of float results, relative to the largest of a tensor; [`bias_rounding`] comes on top.
const TOLERANCE: f32 = 1e-4;

/// Random data for a graph's inputs: the full range of integers, floats of -3..3 (scalars are positive); symbols become 2.
pub fn random_inputs(graph: &Graph, seed: u64) -> Vec<Tensor> {
    let mut rng = Rng::new(seed);
    let one = |ty: &TensorType| {
        let shape: Vec<usize> = ty.shape.0.iter().map(|d| d.known().unwrap_or(2)).collect();
        let n = shape.iter().product();
        if ty.dtype.is_float() {
            // A scalar may be a scale.
            let lo = if shape.is_empty() { 0.1 } else { -3.0 };
            let reals: Vec<f32> = (0..n).map(|_| rng.real(lo, 3.0)).collect();
            return Tensor::from_f32s(ty.dtype, &shape, &reals).expect("reals fit their shape");
        }
        let (lo, hi) = match ty.dtype {
            DataType::S32 | DataType::S64 | DataType::U32 | DataType::U64 | DataType::Bool => (0, 1),
            small => small.int_range().expect("a small integer has a range"),
        };
        let ints: Vec<i64> = (0..n).map(|_| rng.int(lo, hi)).collect();
        Tensor::from_ints(ty.dtype, &shape, &ints).expect("integers fit their type")
    };
    graph.inputs.iter().map(|id| graph.ty(*id)).map(one).collect()
}

/// Every value of a graph by name.
fn observe(graph: &Graph, inputs: &[Tensor]) -> Result<BTreeMap<String, Tensor>, String> {
    let mut seen: BTreeMap<String, Tensor> = BTreeMap::new();
    for value in &graph.values {
        seen.extend(value.constant.clone().map(|data| (value.name.clone(), data)));
    }
    seen.extend(graph.inputs.iter().zip(inputs).map(|(id, data)| (graph.name_of(*id).to_string(), data.clone())));
    let interpreter = Interpreter::new(&to_program(graph)).map_err(|e| e.to_string())?;
    let mut observer = |node: &Node, outputs: &[Tensor]| {
        let names = node.outputs.iter().map(|id| graph.name_of(*id).to_string());
        seen.extend(names.zip(outputs.iter().cloned()));
    };
    interpreter.run_observed(inputs, &mut observer, None).map_err(|e| e.to_string())?;
    Ok(seen)
}

/// Compares; the error says where the two forms differ. Returns the number of values that were compared.
pub fn compare(before: &Graph, after: &Graph, inputs: &[Tensor], policy: Policy) -> Result<usize, String> {
    same_interface(before, after)?;
    let observed = observe(after, inputs)?;
    let mut data: Vec<Option<Tensor>> = before.values.iter().map(|v| v.constant.clone()).collect();
    before.inputs.iter().zip(inputs).for_each(|(id, t)| data[id.0] = Some(t.clone()));
    let mut loose = vec![false; before.values.len()];
    let mut n_compared = 0;
    for node in &before.nodes {
        let may_differ = is_loose(node, policy)
            || was_formula(before, node, after)
            || is_scale(before, node)
            || has_moved(before, node, after)
            || node.inputs.iter().flatten().any(|id| loose[id.0]);
        for (id, tensor) in node.outputs.iter().zip(evaluate(before, node, &data)?) {
            let name = before.name_of(*id);
            let twin = observed.get(name).filter(|t| t.dtype() == tensor.dtype());
            if let Some(found) = twin {
                agree(&tensor, found, may_differ.then(|| bias_rounding(after, name)))
                    .map_err(|e| format!("value `{name}` ({}): {e}", node.op))?;
                n_compared += 1;
            }
            loose[id.0] = may_differ && twin.is_none();
            data[id.0] = Some(twin.cloned().unwrap_or(tensor));
        }
    }
    match before.outputs.iter().map(|id| before.name_of(*id)).find(|name| !observed.contains_key(*name)) {
        Some(lost) => Err(format!("output `{lost}` is not computed any more")),
        None => Ok(n_compared),
    }
}

/// Names and element types of inputs and outputs are a contract.
fn same_interface(before: &Graph, after: &Graph) -> Result<(), String> {
    let list = |g: &Graph, ids: &[ottava_graph::ValueId]| -> Vec<(String, DataType)> {
        ids.iter().map(|id| (g.name_of(*id).to_string(), g.ty(*id).dtype)).collect()
    };
    for (old, new) in [
        (list(before, &before.inputs), list(after, &after.inputs)),
        (list(before, &before.outputs), list(after, &after.outputs)),
    ] {
        if old != new {
            return Err(format!("inputs or outputs were {old:?} and are {new:?}"));
        }
    }
    Ok(())
}

fn is_loose(node: &Node, policy: Policy) -> bool {
    if policy == Policy::Exact {
        return node.op == "BatchNormalization";
    }
    let unary =
        ottava_ops::lookup(&node.domain, &node.op).is_ok_and(|op| matches!(op.quant_rule(node), QuantRule::Unary));
    let qoperator = node.op.starts_with("QLinear") || node.op == "QGemm";
    unary || qoperator || node.domain.is_empty() && INTEGER_FORMS.contains(&node.op.as_str())
}

/// Whether an operator that means a formula computes in `after` what `node` computes in `before`.
fn was_formula(before: &Graph, node: &Node, after: &Graph) -> bool {
    let Some(name) = node.outputs.first().map(|id| before.name_of(*id)) else { return false };
    let computes = |name: &str| {
        let made = |n: &&Node| n.outputs.first().is_some_and(|id| after.name_of(*id) == name);
        after.nodes.iter().find(made)
    };
    // A normalization of another axis than the last one stands between two Transposes.
    let moved = |n: &'_ Node| n.op == "Transpose" && node.op != "Transpose";
    let inner = match computes(name) {
        Some(n) if moved(n) => n.input(0).and_then(|id| computes(after.name_of(id))),
        other => other,
    };
    inner.is_some_and(|n| n.op != node.op && FORMULAS.contains(&n.op.as_str()))
}

/// Whether a Transpose has moved: another operator computes its value now, and what lies between has no twin to compare.
fn has_moved(before: &Graph, node: &Node, after: &Graph) -> bool {
    let Some(name) = node.outputs.first().map(|id| before.name_of(*id)) else { return false };
    let computes = |n: &&Node| n.outputs.first().is_some_and(|id| after.name_of(*id) == name);
    node.op == "Transpose" && after.nodes.iter().find(computes).is_some_and(|n| n.op != "Transpose")
}

/// Whether a node multiplies the result of a product with weights by a constant, which may go into the weights.
fn is_scale(before: &Graph, node: &Node) -> bool {
    let by_product = |id: &ottava_graph::ValueId| {
        let made = |n: &&Node| n.outputs.first() == Some(id);
        before.nodes.iter().find(made).is_some_and(|n| ["Conv", "ConvTranspose", "Gemm", "MatMul"].contains(&&*n.op))
    };
    let constant = node.inputs.iter().flatten().any(|id| before.constant(*id).is_some());
    ["Mul", "Div"].contains(&node.op.as_str()) && constant && node.inputs.iter().flatten().any(by_product)
}

fn evaluate(graph: &Graph, node: &Node, data: &[Option<Tensor>]) -> Result<Vec<Tensor>, String> {
    let inputs: Vec<Option<&Tensor>> = node.inputs.iter().map(|id| id.and_then(|v| data[v.0].as_ref())).collect();
    let in_types: Vec<Option<&TensorType>> = node.inputs.iter().map(|id| id.map(|v| graph.ty(v))).collect();
    let out_types: Vec<&TensorType> = node.outputs.iter().map(|id| graph.ty(*id)).collect();
    ottava_ops::evaluate(&EvalCx { node, inputs: &inputs, in_types: &in_types, out_types: &out_types })
        .map_err(|e| format!("node `{}` ({}): {e}", node.name, node.op))
}

/// Half a step of the accumulator of the integer product that computes a value: its bias was rounded to such steps.
/// In steps of the result where that is quantized.
fn bias_rounding(graph: &Graph, name: &str) -> f32 {
    let computes = |node: &&Node| node.outputs.first().is_some_and(|id| graph.name_of(*id) == name);
    let Some(node) = graph.nodes.iter().find(computes) else { return 0.0 };
    let scale = |i: usize| {
        let quant = node.input(i).and_then(|id| graph.ty(id).quant.as_deref());
        quant.map_or(0.0, |q| q.scales.iter().copied().fold(0.0, f32::max))
    };
    let rounding = 0.5 * scale(0) * scale(1);
    match node.outputs.first().and_then(|id| graph.ty(*id).quant.as_deref()?.as_per_tensor()) {
        Some((step, _)) => rounding / step,
        None => rounding,
    }
}

/// `loose`: integers may differ by one step, floats by the tolerance, and both by this much more.
fn agree(expected: &Tensor, found: &Tensor, loose: Option<f32>) -> Result<(), String> {
    if expected.shape() != found.shape() {
        return Err(format!("shape {:?}, expected {:?}", found.shape(), expected.shape()));
    }
    if expected.bytes() == found.bytes() {
        return Ok(());
    }
    if expected.dtype().is_float() {
        let reals = |t: &Tensor| t.to_f32s().map_err(|e| e.to_string());
        let (a, b) = (reals(expected)?, reals(found)?);
        let largest = a.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let near = |x: f32, y: f32| loose.is_some_and(|slack| (x - y).abs() <= TOLERANCE * largest + slack);
        let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || near(x, y);
        return first_difference(&a, &b, |x, y| same(*x, *y));
    }
    let ints = |t: &Tensor| t.to_ints().map_err(|e| e.to_string());
    first_difference(&ints(expected)?, &ints(found)?, |x, y| (x - y).abs() <= loose.map_or(0, |slack| 1 + slack as i64))
}

fn first_difference<T: std::fmt::Debug>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> Result<(), String> {
    match a.iter().zip(b).enumerate().find(|(_, (x, y))| !same(x, y)) {
        Some((i, (x, y))) => Err(format!("element {i} is {y:?}, expected {x:?}")),
        None => Ok(()),
    }
}
