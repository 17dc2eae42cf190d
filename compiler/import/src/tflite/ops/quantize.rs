//! QUANTIZE, DEQUANTIZE, CAST, and requantizations that the importer inserts.

use super::super::cx::{Built, Cx, Layout};
use super::super::schema::Operator;
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::{DataType, Tensor, ValueId};

/// QUANTIZE: of reals, or from one quantization to another.
pub(crate) fn quantize(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    if cx.per_tensor(t)?.is_none() {
        return Refusal::unsupported("an output without a scale; one scale is expected");
    }
    let name = if cx.params(x)?.is_some() { "Requantize" } else { "Quantize" };
    let layout = cx.layout_of(x);
    let mut node = cx.own_node(name, t);
    node.inputs = vec![Some(cx.value(x, layout)?)];
    node.requant = cx.q31();
    cx.push(node, &[t], layout)
}

/// DEQUANTIZE: of integers, or from half precision. Constants are converted at once.
pub(crate) fn dequantize(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let params = cx.params(x)?;
    if cx.is_constant(x) {
        let data = cx.constant(x)?;
        let data = match &params {
            Some(params) => ottava_ops::dequantize(&data, params)?,
            None => Tensor::from_f32s(DataType::F32, data.shape(), &data.to_f32s()?)?,
        };
        return cx.fold(t, data);
    }
    let layout = cx.layout_of(x);
    let mut node = match params {
        Some(_) => cx.own_node("Dequantize", t),
        None => cx.node("Cast", 13, t),
    };
    if node.op == "Cast" {
        node.attrs.set("to", Attr::Int(FLOAT));
    }
    node.inputs = vec![Some(cx.value(x, layout)?)];
    cx.push(node, &[t], layout)
}

/// ONNX's number of f32.
pub(crate) const FLOAT: i64 = 1;
/// ONNX's number of s32.
pub(crate) const INT32: i64 = 6;
/// ONNX's number of s64.
pub(crate) const INT64: i64 = 7;

/// CAST.
pub(crate) fn cast(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let layout = cx.layout_of(x);
    let to = match cx.ty(t, layout)?.dtype {
        DataType::F32 => FLOAT,
        DataType::U8 => 2,
        DataType::S8 => 3,
        DataType::U16 => 4,
        DataType::S16 => 5,
        DataType::S32 => INT32,
        DataType::S64 => INT64,
        DataType::Bool => 9,
        DataType::F16 => 10,
        DataType::F64 => 11,
        other => {
            return Refusal::unsupported(format!(
                "a cast to {other}; floats, booleans and integers from 8 bits on are supported"
            ));
        }
    };
    if cx.params(x)?.is_some() || cx.params(t)?.is_some() {
        return Refusal::unsupported("a cast of quantized tensors; QUANTIZE and DEQUANTIZE keep their meaning");
    }
    let mut node = cx.node("Cast", 13, t);
    node.attrs.set("to", Attr::Int(to));
    node.inputs = vec![Some(cx.value(x, layout)?)];
    cx.push(node, &[t], layout)
}

/// The value of `x` in the parameters of `t`. TFLite wants them equal; where a file breaks that, a requantization is
/// inserted and reported.
pub(crate) fn requantized(cx: &mut Cx<'_>, x: usize, t: usize, layout: Layout) -> Built<ValueId> {
    let id = cx.value(x, layout)?;
    let (from, to) = (cx.ty(x, layout)?, cx.ty(t, layout)?);
    if from.quant == to.quant && from.dtype == to.dtype {
        return Ok(id);
    }
    let (Some((xs, xz)), Some((ys, yz))) = (cx.per_tensor(x)?, cx.per_tensor(t)?) else {
        return Refusal::invalid(format!("the input is {from}, the output {to}; both must be real or quantized"));
    };
    let what = format!(
        "input `{}` has scale {xs} and zero point {xz}, the output {ys} and {yz}; TFLite wants them equal, so a \
         requantization was inserted",
        cx.def(x).name
    );
    cx.note("Q0405", t, what);
    let ty = ottava_hal::TensorType { dtype: to.dtype, quant: to.quant, ..from };
    let mut node = cx.own_node("Requantize", t);
    node.inputs = vec![Some(id)];
    node.requant = cx.q31();
    Ok(cx.push_inner(node, t, "requantized", ty))
}
