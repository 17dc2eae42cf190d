//! When results are right: integers bit for bit, floats by numerics.md section 7.

use super::build::Sample;
use ottava_hal::{DataType, Node, Program, Tensor};
use ottava_reference::Interpreter;

/// Operators whose f32 results are one IEEE operation, or none.
const EXACT: &[&str] = &[
    "Abs",
    "Add",
    "Ceil",
    "Clip",
    "Concat",
    "DepthToSpace",
    "Div",
    "Expand",
    "Flatten",
    "Floor",
    "Gather",
    "GlobalMaxPool",
    "Identity",
    "Max",
    "MaxPool",
    "Min",
    "Mul",
    "Neg",
    "Pad",
    "ReduceMax",
    "ReduceMin",
    "Relu",
    "Reshape",
    "Round",
    "Sign",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Sub",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Dequantize",
];
/// Operators with at most two units in the last place.
const FUNCTIONS: &[&str] = &["Cos", "Erf", "Exp", "Log", "Reciprocal", "Sigmoid", "Sin", "Sqrt", "Tanh"];
/// Operators with the bound of dot products.
const PRODUCTS: &[&str] = &["Conv", "ConvTranspose", "Gemm", "MatMul"];
/// 2^-24.
const HALF_ULP: f64 = 1.0 / 16_777_216.0;

/// How close results must be.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Rule {
    /// Equal; NaN to any NaN, zeros of either sign.
    Exact,
    /// Integers of a row that says `exact: false`: at most one step.
    OneStep,
    /// Floats, at most this far from the reference, element by element.
    Within(Vec<Vec<f64>>),
}

impl Rule {
    /// The rule of a program; `exact` is what the device says of all its nodes.
    pub(super) fn of(sample: &Sample, exact: bool) -> Self {
        let program = &sample.program;
        let real = |t: &Tensor| t.dtype().is_float();
        if !sample.expected.iter().any(real) {
            return if exact { Self::Exact } else { Self::OneStep };
        }
        let inexact = |n: &&Node| !EXACT.contains(&n.op.as_str()) && !is_integer(program, n);
        let Some(node) = program.nodes.iter().find(inexact) else { return Self::Exact };
        let magnitudes = magnitudes(sample).unwrap_or_else(|| sample.expected.clone());
        let steps = steps(program, node);
        let bounds = sample.expected.iter().zip(&magnitudes).map(|(y, m)| bounds(node, y, m, steps)).collect();
        Self::Within(bounds)
    }

    /// Every element that differs.
    pub(super) fn differing(&self, output: usize, expected: &Tensor, actual: &Tensor) -> Vec<usize> {
        if expected.dtype() != actual.dtype() || expected.shape() != actual.shape() {
            return (0..expected.elements()).collect();
        }
        if !expected.dtype().is_float() {
            let most = if *self == Self::OneStep { 1 } else { 0 };
            let (e, a) = (expected.to_ints().unwrap_or_default(), actual.to_ints().unwrap_or_default());
            let far = |i: &usize| e[*i].abs_diff(a[*i]) > most;
            return (0..e.len()).filter(far).collect();
        }
        let (e, a) = (expected.to_f32s().unwrap_or_default(), actual.to_f32s().unwrap_or_default());
        let bound = |i: usize| match self {
            Self::Within(all) => all.get(output).and_then(|b| b.get(i)).copied().unwrap_or(0.0),
            _ => 0.0,
        };
        let far = |i: &usize| {
            let (x, y) = (e[*i], a[*i]);
            let same = x == y || (x.is_nan() && y.is_nan());
            !(same || (f64::from(x) - f64::from(y)).abs() <= bound(*i))
        };
        (0..e.len()).filter(far).collect()
    }
}

/// Whether a node computes on integers that stand for reals.
fn is_integer(program: &Program, node: &Node) -> bool {
    let quantized = |i| node.input(i).is_some_and(|id| program.ty(id).quant.is_some());
    quantized(0) && (!PRODUCTS.contains(&node.op.as_str()) || quantized(1))
}

/// Terms of a sum.
fn steps(program: &Program, node: &Node) -> usize {
    let elements = |i| node.input(i).and_then(|id| program.ty(id).shape.elements()).unwrap_or(1);
    let out = node.outputs.first().and_then(|id| program.ty(*id).shape.elements()).unwrap_or(1).max(1);
    if PRODUCTS.contains(&node.op.as_str()) { elements(1) } else { elements(0).div_ceil(out).max(16) }
}

/// The results for the magnitudes of all data: the sums of the bounds.
fn magnitudes(sample: &Sample) -> Option<Vec<Tensor>> {
    let absolute = |t: &Tensor| {
        if !t.dtype().is_float() {
            return Some(t.clone());
        }
        let values: Vec<f32> = t.to_f32s().ok()?.into_iter().map(f32::abs).collect();
        Tensor::from_f32s(t.dtype(), t.shape(), &values).ok()
    };
    let mut program = sample.program.clone();
    for value in &mut program.values {
        if let Some(data) = &value.constant {
            value.constant = Some(absolute(data)?);
        }
    }
    program.nodes.iter_mut().for_each(|n| n.fused.act = None);
    let inputs: Vec<Tensor> = sample.inputs.iter().map(absolute).collect::<Option<_>>()?;
    Interpreter::new(&program).ok()?.run(&inputs).ok()
}

fn bounds(node: &Node, expected: &Tensor, magnitudes: &Tensor, steps: usize) -> Vec<f64> {
    let (y, m) = (expected.to_f32s().unwrap_or_default(), magnitudes.to_f32s().unwrap_or_default());
    let largest = y.iter().filter(|v| v.is_finite()).fold(0.0f64, |max, v| max.max(f64::from(v.abs())));
    let storage = match expected.dtype() {
        DataType::F16 => 1.0 / 1024.0,
        DataType::BF16 => 1.0 / 128.0,
        _ => 0.0,
    };
    let bound = |(y, m): (&f32, &f32)| {
        let (y, m) = (f64::from(y.abs()), f64::from(m.abs()));
        let computed = match node.op.as_str() {
            op if PRODUCTS.contains(&op) => 2.0 * (steps as f64 + 2.0) * HALF_ULP * m,
            op if FUNCTIONS.contains(&op) => 4.0 * HALF_ULP * y,
            _ => 2.0 * steps as f64 * HALF_ULP * (largest + y),
        };
        computed + storage * y + f64::from(f32::MIN_POSITIVE)
    };
    y.iter().zip(&m).map(bound).collect()
}
