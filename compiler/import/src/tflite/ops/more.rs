//! Operators that are one or a few nodes: norms, functions of one number, and constants made of shapes.

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::Field;
use super::super::schema::Operator;
use super::activation::{Activation, Function, function, push_activated};
use super::arithmetic::node_of;
use super::table16;
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::refmath::unary;
use ottava_hal::{Tensor, ValueId};

/// L2_NORMALIZATION, along the last axis.
pub(crate) fn l2_normalization(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let mut node = cx.node("LpNormalization", 22, t);
    node.attrs.set("axis", Attr::Int(-1));
    node.attrs.set("p", Attr::Int(2));
    node.inputs = vec![Some(cx.value(x, Layout::File)?)];
    push_activated(cx, node, Activation::fused(op, 0)?, t, Layout::File)
}

/// LOG_SOFTMAX, along the last axis.
pub(crate) fn log_softmax(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let mut node = cx.node("LogSoftmax", 13, t);
    node.attrs.set("axis", Attr::Int(-1));
    node.inputs = vec![Some(cx.value(x, Layout::File)?)];
    cx.push(node, &[t], Layout::File)
}

/// RSQRT: of 8 bits a table, of floats `1 / sqrt(x)`.
pub(crate) fn rsqrt(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    if cx.per_tensor(t)?.is_some() {
        if cx.q31().is_none() || cx.ty(t, Layout::File)?.dtype.bits() != 8 {
            return Refusal::unsupported("integers other than those of 8 bits in a Q31 mode; these and floats are");
        }
        return function(cx, op, Function { op: "Reciprocal", version: 13, f32: |x| 1.0 / x.sqrt() });
    }
    let layout = cx.layout_of(x);
    let (id, ty) = (cx.value(x, layout)?, cx.ty(t, layout)?);
    let mut root = cx.node("Sqrt", 13, t);
    root.inputs = vec![Some(id)];
    let root = cx.push_inner(root, t, "root", ty);
    let mut node = cx.node("Reciprocal", 13, t);
    node.inputs = vec![Some(root)];
    cx.push(node, &[t], layout)
}

/// ROUND, half to even.
pub(crate) fn round(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Round", version: 11, f32: f32::round_ties_even })
}

/// SIGN.
pub(crate) fn sign(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Sign", version: 13, f32: |x| if x == 0.0 { 0.0 } else { x.signum() } })
}

/// GELU, exact or by the tanh formula.
pub(crate) fn gelu(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let approximate = op.options.map_or(Ok(false), |o| o.bool(Field(0, "approximate")))?;
    let layout = cx.layout_of(x);
    if table16::applies(cx, x, t) {
        let exact = |x: f32| unary::gelu_f64(x.into()) as f32;
        let f32: fn(f32) -> f32 = if approximate { gelu_by_tanh } else { exact };
        let id = cx.value(x, layout)?;
        return table16::push(cx, (x, id), t, layout, &Function { op: "Gelu", version: 20, f32 });
    }
    let mut node = cx.node("Gelu", 20, t);
    node.attrs.set("approximate", Attr::Str(if approximate { "tanh" } else { "none" }.into()));
    node.inputs = vec![Some(cx.value(x, layout)?)];
    cx.push(node, &[t], layout)
}

/// The formula with tanh, as TFLite writes it.
fn gelu_by_tanh(x: f32) -> f32 {
    0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh())
}

/// Refuses quantized results.
pub(crate) fn only_plain(cx: &Cx<'_>, t: usize) -> Built {
    match cx.per_tensor(t)? {
        Some(_) => Refusal::unsupported("quantized integers; floats and plain integers are supported"),
        None => Ok(()),
    }
}

/// SQUARE.
pub(crate) fn square(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    only_plain(cx, t)?;
    let layout = cx.layout_of(x);
    let id = cx.value(x, layout)?;
    let mut node = cx.node("Mul", 14, t);
    node.inputs = vec![Some(id), Some(id)];
    cx.push(node, &[t], layout)
}

/// SQUARED_DIFFERENCE.
pub(crate) fn squared_difference(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (node, layout, t) = node_of(cx, op, 2, "Sub", 14)?;
    only_plain(cx, t)?;
    let ty = cx.ty(t, layout)?;
    let id = cx.push_inner(node, t, "difference", ty);
    let mut node = cx.node("Mul", 14, t);
    node.inputs = vec![Some(id), Some(id)];
    cx.push(node, &[t], layout)
}

/// NOT_EQUAL.
pub(crate) fn not_equal(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (node, layout, t) = node_of(cx, op, 2, "Equal", 19)?;
    let ty = cx.ty(t, layout)?;
    let id = cx.push_inner(node, t, "equal", ty);
    let mut node = cx.node("Not", 1, t);
    node.inputs = vec![Some(id)];
    cx.push(node, &[t], layout)
}

/// ADD_N.
pub(crate) fn add_n(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (node, layout, t) = node_of(cx, op, op.inputs.len(), "Sum", 13)?;
    only_plain(cx, t)?;
    cx.push(node, &[t], layout)
}

/// FILL: a value of a constant shape.
pub(crate) fn fill(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (dims, value, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let dims = cx.ints(dims)?;
    let shape = cx.add_ints(t, "extents", &dims)?;
    let mut node = cx.node("Expand", 13, t);
    node.inputs = vec![Some(cx.value(value, Layout::File)?), Some(shape)];
    cx.push(node, &[t], Layout::File)
}

/// RANK, a constant.
pub(crate) fn rank(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let n = i32::try_from(cx.def(x).shape.len()).unwrap_or(i32::MAX);
    cx.fold(t, Tensor::from_slice(&[], &[n])?)
}

/// CUMSUM along a constant axis.
pub(crate) fn cumsum(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, axis, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    only_plain(cx, t)?;
    let flag = |i: u16, name: &'static str| op.options.map_or(Ok(false), |o| o.bool(Field(i, name)));
    let axis = cx.ints(axis)?.first().copied().unwrap_or(0);
    let mut node = cx.node("CumSum", 14, t);
    node.attrs.set("exclusive", Attr::Int(flag(0, "exclusive")?.into()));
    node.attrs.set("reverse", Attr::Int(flag(1, "reverse")?.into()));
    let name = format!("{}/axis", cx.def(t).name);
    let axis = cx.add_constant(&name, Tensor::scalar(axis), None);
    node.inputs = vec![Some(cx.value(x, Layout::File)?), Some(axis)];
    cx.push(node, &[t], Layout::File)
}

/// REVERSE_V2 along constant axes: slices with step -1.
pub(crate) fn reverse(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, axes, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let axes = cx.ints(axes)?;
    let lists = [("starts", -1), ("ends", i64::MIN), ("axes", 0), ("steps", -1)];
    let mut node = cx.node("Slice", 13, t);
    node.inputs = vec![Some(cx.value(x, Layout::File)?)];
    for (name, value) in lists {
        let list = if name == "axes" { axes.clone() } else { vec![value; axes.len()] };
        node.inputs.push(Some(cx.add_ints(t, name, &list)?));
    }
    cx.push(node, &[t], Layout::File)
}

/// SOFTMAX with a factor before the exponential: floats are multiplied by it.
pub(crate) fn scaled(cx: &mut Cx<'_>, x: usize, t: usize, factor: f32) -> Built<ValueId> {
    let (id, ty) = (cx.value(x, Layout::File)?, cx.ty(x, Layout::File)?);
    let name = format!("{}/beta", cx.def(t).name);
    let factor = cx.add_constant(&name, Tensor::scalar(factor), None);
    let mut node = cx.node("Mul", 14, t);
    node.inputs = vec![Some(id), Some(factor)];
    Ok(cx.push_inner(node, t, "scaled", ty))
}
