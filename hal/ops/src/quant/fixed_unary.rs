//! Sigmoid, Tanh, LeakyRelu and Abs of quantized values in a Q31 mode: the fixed-point forms of TFLite
//! (numerics.md section 4).
//!
//! * (C1) Sigmoid and Tanh: s16 with zero point 0 to s16 in steps of 1/32768; any other types have no such form.
//! * (C2) LeakyRelu and Abs: a multiplier, its quotient in f32; LeakyRelu has another one below the zero point.

use crate::EvalCx;
use crate::nn::requantize::model;
use ottava_hal::refmath::quantize::{Affine, Target};
use ottava_hal::refmath::tflite::{TfliteLeakyRelu, TfliteRequant};
use ottava_hal::refmath::tflite_activation::{Curve, TfliteCurve};
use ottava_hal::{DataType, QuantParams, RequantMode, Result, Tensor};

/// Evaluates a node; `None` where its operator or its types have no fixed-point form.
pub(crate) fn eval(mode: RequantMode, cx: &EvalCx) -> Result<Option<Tensor>> {
    let affine = |q: Option<&QuantParams>| q?.as_per_tensor().map(|(scale, zp)| Affine { scale, zp });
    let (Some(from), Some(to), Some(dtype)) = (affine(cx.in_quant(0)), affine(cx.out_quant(0)), cx.out_dtype(0)) else {
        return Ok(None);
    };
    let x = cx.input(0)?;
    let Some((lo, hi)) = dtype.storage_range().filter(|_| x.dtype().bits() <= 16 && dtype.bits() <= 16) else {
        return Ok(None);
    };
    let target = Target { scale: to.scale, zp: to.zp, lo, hi };
    match cx.node.op.as_str() {
        "Sigmoid" | "Tanh" => curve(x, cx.node.op == "Tanh", from, (dtype, to)),
        "LeakyRelu" => {
            let alpha = cx.attrs().float("alpha", 0.01)?;
            let relu = TfliteLeakyRelu::new(mode, from, alpha, target).map_err(model)?;
            map(x, dtype, |q| relu.apply(q)).map(Some)
        }
        "Abs" => {
            let requant = TfliteRequant::of_function(mode, from, target).map_err(model)?;
            map(x, dtype, |q| requant.size(q)).map(Some)
        }
        _ => Ok(None),
    }
}

/// (C1)
fn curve(x: &Tensor, is_tanh: bool, from: Affine, (dtype, to): (DataType, Affine)) -> Result<Option<Tensor>> {
    let fits = x.dtype() == DataType::S16 && dtype == DataType::S16 && from.zp == 0;
    if !fits || to != (Affine { scale: 1.0 / 32768.0, zp: 0 }) {
        return Ok(None);
    }
    let curve = TfliteCurve::new(if is_tanh { Curve::Tanh } else { Curve::Logistic }, from.scale).map_err(model)?;
    map(x, dtype, |q| curve.apply(q as i16).into()).map(Some)
}

fn map(x: &Tensor, dtype: DataType, f: impl Fn(i32) -> i32) -> Result<Tensor> {
    let ints = x.to_ints()?;
    let ints = Tensor::collect(ints.iter().map(|v| i64::from(f(*v as i32))))?;
    Tensor::from_ints(dtype, x.shape(), &ints)
}
