//! Exact evaluation of one node: plain tensors go to the operator, quantized ones through its [`QuantRule`].

use crate::{QuantRule, lookup};
use ottava_hal::refmath::{quantize as q, requant};
use ottava_hal::{Attrs, DataType, Error, Node, QuantParams, Result, Tensor, TensorType};
use std::borrow::Cow;

/// A node with its input data and the types of its values.
pub struct EvalCx<'a> {
    /// The node.
    pub node: &'a Node,
    /// Input data; `None` where absent. May be shorter than the schema.
    pub inputs: &'a [Option<&'a Tensor>],
    /// Types of the inputs: quantization parameters are here.
    pub in_types: &'a [Option<&'a TensorType>],
    /// Types of the outputs: element type and quantization count, the shape may be symbolic.
    pub out_types: &'a [&'a TensorType],
}

impl<'a> EvalCx<'a> {
    /// Attributes of the node.
    pub fn attrs(&self) -> &'a Attrs {
        &self.node.attrs
    }

    /// Input `i`, which must be present.
    pub fn input(&self, i: usize) -> Result<&'a Tensor> {
        self.opt(i).ok_or_else(|| Error::invalid(format!("{}: input {i} is missing", self.node.full_op())))
    }

    /// Input `i`, if present.
    pub fn opt(&self, i: usize) -> Option<&'a Tensor> {
        self.inputs.get(i).copied().flatten()
    }

    /// Integers of input `i`, if present.
    pub fn opt_ints(&self, i: usize) -> Result<Option<Vec<i64>>> {
        self.opt(i).map(Tensor::to_ints).transpose()
    }

    /// Quantization of input `i`.
    pub fn in_quant(&self, i: usize) -> Option<&'a QuantParams> {
        self.in_types.get(i).copied().flatten()?.quant.as_deref()
    }

    /// Quantization of output `i`.
    pub fn out_quant(&self, i: usize) -> Option<&'a QuantParams> {
        self.out_types.get(i)?.quant.as_deref()
    }

    /// Element type of output `i`, if the caller gave it.
    pub fn out_dtype(&self, i: usize) -> Option<DataType> {
        self.out_types.get(i).map(|t| t.dtype)
    }

    fn is_quantized(&self) -> bool {
        let ins = self.in_types.iter().flatten();
        ins.chain(self.out_types).any(|t| t.quant.is_some())
    }
}

/// Evaluates a node. The number of outputs is that of the node.
pub fn evaluate(cx: &EvalCx) -> Result<Vec<Tensor>> {
    let op = lookup(&cx.node.domain, &cx.node.op)?;
    let mut outputs = if !cx.is_quantized() {
        op.eval(cx)?
    } else {
        match op.quant_rule(cx.node) {
            QuantRule::Own => match op.eval_quant(cx)? {
                Some(outputs) => outputs,
                None => eval_float(cx)?,
            },
            QuantRule::Move => eval_move(cx)?,
            QuantRule::Unary => eval_table(cx)?,
            QuantRule::Float => eval_float(cx)?,
        }
    };
    outputs.truncate(cx.node.outputs.len().max(1));
    if let Some(first) = outputs.first_mut() {
        apply_fused(cx, first)?;
    }
    Ok(outputs)
}

/// The float activation and the integer clamp are the last step of any operator.
fn apply_fused(cx: &EvalCx, y: &mut Tensor) -> Result<()> {
    if let Some(act) = cx.node.fused.act
        && y.dtype() == DataType::F32
    {
        y.as_slice_mut::<f32>()?.iter_mut().for_each(|v| *v = act.apply(*v));
    }
    if let Some((lo, hi)) = cx.node.fused.clamp {
        let clamped: Vec<i64> = y.to_ints()?.into_iter().map(|v| v.clamp(lo.into(), hi.into())).collect();
        *y = Tensor::from_ints(y.dtype(), y.shape(), &clamped)?;
    }
    Ok(())
}

/// Dequantize, evaluate in f32, quantize.
fn eval_float(cx: &EvalCx) -> Result<Vec<Tensor>> {
    let op = lookup(&cx.node.domain, &cx.node.op)?;
    let mut real: Vec<Option<Cow<Tensor>>> = Vec::with_capacity(cx.inputs.len());
    for (i, input) in cx.inputs.iter().enumerate() {
        real.push(match (input, cx.in_quant(i)) {
            (Some(t), Some(params)) => Some(Cow::Owned(dequantize(t, params)?)),
            (Some(t), None) => Some(Cow::Borrowed(*t)),
            (None, _) => None,
        });
    }
    let inputs: Vec<Option<&Tensor>> = real.iter().map(Option::as_deref).collect();
    let plain: Vec<Option<TensorType>> = inputs.iter().map(|t| t.map(Tensor::ty)).collect();
    let in_types: Vec<Option<&TensorType>> = plain.iter().map(Option::as_ref).collect();
    let float = |t: &&TensorType| match t.quant {
        Some(_) => TensorType::new(DataType::F32, t.shape.clone()),
        None => (*t).clone(),
    };
    let out: Vec<TensorType> = cx.out_types.iter().map(float).collect();
    let out_types: Vec<&TensorType> = out.iter().collect();
    let outputs = op.eval(&EvalCx { node: cx.node, inputs: &inputs, in_types: &in_types, out_types: &out_types })?;
    quantize_outputs(cx, outputs)
}

fn quantize_outputs(cx: &EvalCx, outputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
    let one = |(i, y): (usize, Tensor)| match (cx.out_quant(i), cx.out_dtype(i)) {
        (Some(params), Some(dtype)) => quantize(&y, dtype, params),
        _ => Ok(y),
    };
    outputs.into_iter().enumerate().map(one).collect()
}

/// Bring quantized inputs to the output's parameters, then move integers.
fn eval_move(cx: &EvalCx) -> Result<Vec<Tensor>> {
    let op = lookup(&cx.node.domain, &cx.node.op)?;
    let (Some(to), Some(dtype)) = (cx.out_quant(0), cx.out_dtype(0)) else {
        // Integers that lose their meaning on the way (a plain integer output) are moved as they are.
        let same_storage = cx.opt(0).is_some_and(|x| Some(x.dtype()) == cx.out_dtype(0));
        return if same_storage { op.eval(cx) } else { eval_float(cx) };
    };
    if cx.out_types.iter().any(|t| t.quant.as_deref() != Some(to) || t.dtype != dtype) {
        return eval_float(cx);
    }
    let mut moved: Vec<Option<Cow<Tensor>>> = Vec::with_capacity(cx.inputs.len());
    for (i, input) in cx.inputs.iter().enumerate() {
        moved.push(match (input, cx.in_quant(i)) {
            (Some(t), Some(from)) if from != to || t.dtype() != dtype => {
                Some(Cow::Owned(requantize(t, from, dtype, to)?))
            }
            (Some(t), None) if i == 0 && t.dtype().is_float() => return eval_float(cx),
            (Some(t), _) => Some(Cow::Borrowed(*t)),
            (None, _) => None,
        });
    }
    let inputs: Vec<Option<&Tensor>> = moved.iter().map(Option::as_deref).collect();
    op.eval(&EvalCx { node: cx.node, inputs: &inputs, in_types: cx.in_types, out_types: cx.out_types })
}

/// An 8-bit function by its table; any other storage by the f32 sequence.
fn eval_table(cx: &EvalCx) -> Result<Vec<Tensor>> {
    let x = cx.input(0)?;
    let params =
        cx.in_quant(0).and_then(QuantParams::as_per_tensor).zip(cx.out_quant(0).and_then(QuantParams::as_per_tensor));
    match (params, cx.out_dtype(0)) {
        (Some(_), Some(dtype)) if x.dtype().bits() == 8 && dtype.bits() <= 16 => {
            let table = crate::quant::lut::table_for(cx.node, cx.in_types[0].expect("quantized"), cx.out_types[0])?;
            Ok(vec![crate::quant::lut::apply(x, &table)?])
        }
        _ => eval_float(cx),
    }
}

/// `y = (q - zp) * scale` over a tensor of any scheme (numerics.md section 2).
pub fn dequantize(x: &Tensor, params: &QuantParams) -> Result<Tensor> {
    params.check(x.dtype(), Some(x.shape())).map_err(Error::Invalid)?;
    let index = crate::quant::channel_index(params, x.shape());
    let ints = x.to_ints()?;
    let real = Tensor::collect(ints.iter().enumerate().map(|(i, &v)| {
        let c = index.of(i);
        q::dequantize(v as i32, params.zero_points[c], params.scales[c])
    }))?;
    Tensor::from_slice(x.shape(), &real)
}

/// `q = sat(rne(x / scale) + zp)` over a tensor of any scheme (numerics.md section 2).
pub fn quantize(x: &Tensor, dtype: DataType, params: &QuantParams) -> Result<Tensor> {
    params.check(dtype, Some(x.shape())).map_err(Error::Invalid)?;
    let (lo, hi) = storage(dtype)?;
    let index = crate::quant::channel_index(params, x.shape());
    let real = x.to_f32s()?;
    let ints = Tensor::collect(real.iter().enumerate().map(|(i, &v)| {
        let c = index.of(i);
        i64::from(q::quantize_f32(v, params.scales[c], params.zero_points[c], lo, hi))
    }))?;
    Tensor::from_ints(dtype, x.shape(), &ints)
}

/// From one quantization to another: the requantization bridge and the Concat row of numerics.md section 4.
pub fn requantize(x: &Tensor, from: &QuantParams, dtype: DataType, to: &QuantParams) -> Result<Tensor> {
    if from == to && x.dtype() == dtype {
        return Ok(x.clone());
    }
    quantize(&dequantize(x, from)?, dtype, to)
}

fn storage(dtype: DataType) -> Result<(i32, i32)> {
    dtype.storage_range().ok_or_else(|| Error::invalid(format!("{dtype} cannot hold quantized values")))
}

/// A requantization mode that a node must have.
pub(crate) fn mode_of(node: &Node) -> requant::RequantMode {
    node.requant.unwrap_or(requant::RequantMode::Fp32Rne)
}
