//! Quotients and remainders that round down, ranges, and what reduces truth: FLOOR_DIV, FLOOR_MOD, RANGE, ZEROS_LIKE,
//! REDUCE_ANY, REDUCE_ALL, BITWISE_XOR.

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::Field;
use super::super::schema::Operator;
use super::arithmetic::node_of;
use super::chain::{inner, last, of, with};
use super::more::only_plain;
use super::quantize::{FLOAT, INT32};
use super::shape::normal_axis;
use crate::onnx::raw::Refusal;
use ottava_hal::{DataType, Tensor, ValueId};

/// ONNX's number of booleans.
const BOOL: i64 = 9;
/// ONNX's number of f64.
const DOUBLE: i64 = 11;

/// Both operands, their type, and the result, none of them quantized.
fn operands(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built<([ValueId; 2], DataType, usize)> {
    let (a, b, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    only_plain(cx, t)?;
    let dtype = cx.ty(a, Layout::File)?.dtype;
    Ok(([cx.value(a, Layout::File)?, cx.value(b, Layout::File)?], dtype, t))
}

/// FLOOR_DIV: floats are divided in f64, as the kernels do; integers without their remainder.
pub(crate) fn floor_div(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let ([a, b], dtype, t) = operands(cx, op)?;
    if dtype != DataType::F32 {
        let rest = inner(cx, t, of("Mod", 13), &[a, b], dtype);
        let whole = inner(cx, t, of("Sub", 14), &[a, rest], dtype);
        return last(cx, t, of("Div", 14), &[whole, b]);
    }
    let [a, b] = [a, b].map(|x| inner(cx, t, with("Cast", 13, "to", DOUBLE), &[x], DataType::F64));
    let quotient = inner(cx, t, of("Div", 14), &[a, b], DataType::F64);
    let whole = inner(cx, t, of("Floor", 13), &[quotient], DataType::F64);
    last(cx, t, with("Cast", 13, "to", FLOAT), &[whole])
}

/// FLOOR_MOD: the remainder has the sign of the divisor.
pub(crate) fn floor_mod(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let ([a, b], dtype, t) = operands(cx, op)?;
    if dtype != DataType::F32 {
        return last(cx, t, of("Mod", 13), &[a, b]);
    }
    let rest = inner(cx, t, with("Mod", 13, "fmod", 1), &[a, b], dtype);
    let name = format!("{}/zero", cx.def(t).name);
    let zero = cx.add_constant(&name, Tensor::scalar(0f32), None);
    let [rest_sign, sign] = [rest, b].map(|x| inner(cx, t, of("Less", 13), &[x, zero], DataType::Bool));
    let differ = inner(cx, t, of("Xor", 7), &[rest_sign, sign], DataType::Bool);
    let none = inner(cx, t, of("Equal", 13), &[rest, zero], DataType::Bool);
    let some = inner(cx, t, of("Not", 1), &[none], DataType::Bool);
    let moves = inner(cx, t, of("And", 7), &[differ, some], DataType::Bool);
    let moved = inner(cx, t, of("Add", 14), &[rest, b], dtype);
    last(cx, t, of("Where", 16), &[moves, moved, rest])
}

/// RANGE.
pub(crate) fn range(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let t = cx.output(op, 0)?;
    let ends = (0..3).map(|i| cx.input(op, i)).collect::<Built<Vec<_>>>()?;
    let mut scalars = Vec::with_capacity(3);
    for x in ends {
        let id = cx.value(x, Layout::File)?;
        let (shape, dtype) = (cx.add_ints(t, "scalar", &[])?, cx.ty(x, Layout::File)?.dtype);
        scalars.push(inner(cx, t, of("Reshape", 21), &[id, shape], dtype));
    }
    last(cx, t, of("Range", 11), &scalars)
}

/// ZEROS_LIKE.
pub(crate) fn zeros_like(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    only_plain(cx, t)?;
    let (id, dtype) = (cx.value(x, Layout::File)?, cx.ty(t, Layout::File)?.dtype);
    let shape = inner(cx, t, of("Shape", 15), &[id], DataType::S64);
    let name = format!("{}/zero", cx.def(t).name);
    let zero = cx.add_constant(&name, Tensor::zeros(dtype, &[])?, None);
    last(cx, t, of("Expand", 13), &[zero, shape])
}

/// REDUCE_ANY.
pub(crate) fn any(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    reduced(cx, op, "ReduceMax")
}

/// REDUCE_ALL.
pub(crate) fn all(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    reduced(cx, op, "ReduceMin")
}

/// Truth is 1: any is the largest, all the least.
fn reduced(cx: &mut Cx<'_>, op: &Operator<'_>, name: &str) -> Built {
    let (x, axes, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let keep = op.options.map_or(Ok(false), |o| o.bool(Field(0, "keep_dims")))?;
    let rank = cx.def(x).shape.len();
    let axes = cx.ints(axes)?.into_iter().map(|a| normal_axis(a, rank).map(|a| a as i64));
    let axes = axes.collect::<Built<Vec<_>>>()?;
    if axes.is_empty() {
        return Refusal::unsupported("a reduction of no axes; at least one is expected");
    }
    let (id, axes) = (cx.value(x, Layout::File)?, cx.add_ints(t, "axes", &axes)?);
    let ints = inner(cx, t, with("Cast", 13, "to", INT32), &[id], DataType::S32);
    let found = inner(cx, t, with(name, 18, "keepdims", keep.into()), &[ints, axes], DataType::S32);
    last(cx, t, with("Cast", 13, "to", BOOL), &[found])
}

/// BITWISE_XOR.
pub(crate) fn bitwise_xor(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (node, layout, t) = node_of(cx, op, 2, "BitwiseXor", 18)?;
    cx.push(node, &[t], layout)
}
