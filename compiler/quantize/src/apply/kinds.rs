//! What each operator is to the quantizer.
//!
//! Simple movers and table functions follow from the operator's own [`QuantRule`]; operators whose integer form needs more
//! than that are named here.

use ottava_graph::Graph;
use ottava_hal::{DataType, Node, ValueId};
use ottava_ops::{QuantRule, lookup};

/// The part a node plays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A sum of products with weights or with a second activation.
    Product,
    /// Inputs and output have parameters of their own: arithmetic, averages, interpolation.
    Pointwise,
    /// A function of one value, a table in 8 bits.
    Unary,
    /// Relu and Clip, which fold into what is before them.
    Clamp,
    /// Elements are moved: both sides have the same parameters.
    Move,
    /// Softmax, quantized where it feeds the network's outputs, or everywhere if everything is to be.
    Softmax,
    /// A normalization of rows or a sum over axes: it has an integer form, taken where everything is to be quantized.
    Reserved,
    /// A part of a larger form that reads data in this slot only; what else it reads are flags.
    Part(usize),
    /// Stays in float, for this reason.
    Float(String),
}

/// Operators whose float inputs are all data, constants included; of other movers only the first input is.
const MANY_INPUTS: [&str; 3] = ["Concat", "Max", "Min"];

/// The kind of a node, from the node alone.
pub(crate) fn kind_of(graph: &Graph, node: &Node) -> Kind {
    if !node.domain.is_empty() {
        return Kind::Float(format!("{} has no standard quantized form", node.full_op()));
    }
    match node.op.as_str() {
        "Conv" | "ConvTranspose" => constant_weights(graph, node),
        "Gemm" => gemm(graph, node),
        "MatMul" => Kind::Product,
        "Add" | "Sub" | "Mul" | "Div" | "AveragePool" | "GlobalAveragePool" | "ReduceMean" => Kind::Pointwise,
        "Resize" if node.attrs.str("mode", "nearest").is_ok_and(|mode| mode != "nearest") => Kind::Pointwise,
        "Relu" => Kind::Clamp,
        "Clip" => clip(graph, node),
        "Softmax" => Kind::Softmax,
        "LayerNormalization" | "RMSNormalization" | "ReduceSum" if node.outputs.len() == 1 => Kind::Reserved,
        "Identity" | "Concat" | "Max" | "Min" | "Pad" | "Resize" => Kind::Move,
        _ => by_rule(node),
    }
}

fn by_rule(node: &Node) -> Kind {
    let rule = lookup(&node.domain, &node.op).map(|op| op.quant_rule(node));
    match rule {
        // A second output holds indices; what a scatter writes has a range of its own.
        Ok(QuantRule::Move) if node.op == "Split" || (node.outputs.len() == 1 && !node.op.starts_with("Scatter")) => {
            Kind::Move
        }
        Ok(QuantRule::Unary) => Kind::Unary,
        _ => Kind::Float(format!("{} has no integer form that keeps its accuracy", node.op)),
    }
}

fn constant_weights(graph: &Graph, node: &Node) -> Kind {
    match node.input(1).map(|w| graph.constant(w).is_some()) {
        Some(true) => Kind::Product,
        _ => Kind::Float("its weights are computed, not constant".to_owned()),
    }
}

fn clip(graph: &Graph, node: &Node) -> Kind {
    let constant = |slot| node.input(slot).is_none_or(|id| graph.constant(id).is_some());
    if constant(1) && constant(2) { Kind::Clamp } else { Kind::Float("its bounds are computed".to_owned()) }
}

fn gemm(graph: &Graph, node: &Node) -> Kind {
    let plain = |name| node.attrs.float(name, 1.0).is_ok_and(|v| v == 1.0);
    if !plain("alpha") || !plain("beta") || node.attrs.int("transA", 0) != Ok(0) {
        return Kind::Float("Gemm with alpha, beta or transA has no bias at the accumulator's scale".to_owned());
    }
    if node.input(2).is_some_and(|c| graph.constant(c).is_none()) {
        return Kind::Float("its bias is computed, not constant".to_owned());
    }
    Kind::Product
}

/// The input slots that carry the data a node works on.
pub(crate) fn data_slots(graph: &Graph, node: &Node, kind: &Kind) -> Vec<usize> {
    if let Kind::Part(slot) = kind {
        return vec![*slot];
    }
    let limit = match kind {
        Kind::Product => 2,
        Kind::Pointwise if matches!(node.op.as_str(), "Add" | "Sub" | "Mul" | "Div") => 2,
        Kind::Move if MANY_INPUTS.contains(&node.op.as_str()) => usize::MAX,
        _ => 1,
    };
    (0..node.inputs.len().min(limit)).filter(|&slot| node.input(slot).is_some_and(|id| is_float(graph, id))).collect()
}

/// Whether a value holds floats that can be quantized.
pub(crate) fn is_float(graph: &Graph, id: ValueId) -> bool {
    let ty = graph.ty(id);
    ty.quant.is_none() && ty.dtype == DataType::F32
}

/// Whether a node normalizes rows.
pub(crate) fn is_norm(node: &Node) -> bool {
    node.domain.is_empty() && matches!(node.op.as_str(), "LayerNormalization" | "RMSNormalization")
}

/// The factor by which a Mul or Div with one constant above 0 scales its other operand: the slot of that operand and the
/// factor.
pub(crate) fn scaling(graph: &Graph, node: &Node) -> Option<(usize, f64)> {
    let number = |slot: usize| {
        let data = node.input(slot).and_then(|id| graph.constant(id)).filter(|t| t.elements() == 1)?;
        let value = f64::from(*data.to_f32s().ok()?.first()?);
        (value.is_finite() && value > 0.0).then_some(value)
    };
    match node.op.as_str() {
        _ if !node.domain.is_empty() => None,
        "Mul" => number(1).map(|v| (0, v)).or_else(|| number(0).map(|v| (1, v))),
        "Div" => number(1).map(|v| (0, v.recip())),
        _ => None,
    }
}

/// The range that a function's values have by definition, written so that an asymmetric 8-bit scale is 1/256 or 1/128.
pub(crate) fn fixed_range(op: &str, steps: i32) -> Option<(f64, f64)> {
    let (steps, all) = (f64::from(steps), f64::from(steps) + 1.0);
    match op {
        "Softmax" | "Sigmoid" | "HardSigmoid" => Some((0.0, steps / all)),
        "Tanh" => Some((-1.0, (all - 2.0) / all)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Grid, Range, Target, params_for};

    #[test]
    fn fixed_ranges_give_round_scales() {
        for (op, scale, zero_u8, zero_s8) in [("Sigmoid", 1.0 / 256.0, 0, -128), ("Tanh", 1.0 / 128.0, 128, 0)] {
            for (grid, zero) in [(Grid::U8, zero_u8), (Grid::S8, zero_s8)] {
                let (lo, hi) = fixed_range(op, grid.steps()).unwrap();
                let p = params_for(Range { lo, hi }, Target::asymmetric(grid));
                assert_eq!((p.scale, p.zero_point), (scale, zero), "{op}");
            }
        }
    }
}
