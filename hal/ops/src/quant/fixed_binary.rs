//! Add, Sub, Mul and PRelu of quantized values in a Q31 mode: the fixed-point forms of TFLite (numerics.md section 4).
//!
//! * (C1) Add and Sub: both inputs at the scale `T / 2^ls`, `T = 2 max(s1, s2)`, `ls` 20 (15 where the output is s16).
//! * (C2) Mul: the product of the differences to the zero points times one multiplier.
//! * (C3) PRelu: two multipliers, chosen by the sign of the difference.

use crate::EvalCx;
use crate::elementwise::broadcast::Broadcast;
use crate::nn::requantize::model;
use ottava_hal::refmath::quantize::{Affine, Target};
use ottava_hal::refmath::tflite::{TfliteAdd, tflite_mul, tflite_mul_multiplier};
use ottava_hal::refmath::tflite_activation::TflitePRelu;
use ottava_hal::{DataType, QuantParams, RequantMode, Result, Tensor};

/// Which operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fixed {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a < 0 ? a * b : a`.
    PRelu,
}

/// Evaluates a node; `None` where its types have no fixed-point form.
pub(crate) fn eval(op: Fixed, mode: RequantMode, cx: &EvalCx) -> Result<Option<Tensor>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let affine = |q: Option<&QuantParams>| q?.as_per_tensor().map(|(scale, zp)| Affine { scale, zp });
    let params = (affine(cx.in_quant(0)), affine(cx.in_quant(1)), affine(cx.out_quant(0)), cx.out_dtype(0));
    let (Some(pa), Some(pb), Some(to), Some(dtype)) = params else { return Ok(None) };
    let small = |t: DataType| t.bits() <= 16;
    let Some((lo, hi)) = dtype.storage_range().filter(|_| [a.dtype(), b.dtype(), dtype].into_iter().all(small)) else {
        return Ok(None);
    };
    let target = Target { scale: to.scale, zp: to.zp, lo, hi };
    if op == Fixed::Mul {
        let m = tflite_mul_multiplier(pa.scale, pb.scale, to.scale, mode).map_err(model)?;
        return map(a, b, dtype, |x, y| tflite_mul([x, y], [pa.zp, pb.zp], m, mode, target)).map(Some);
    }
    if op == Fixed::PRelu {
        let prelu = TflitePRelu::new(mode, pa, pb, target).map_err(model)?;
        return map(a, b, dtype, |x, y| prelu.apply(x, y)).map(Some);
    }
    let shift = if dtype == DataType::S16 { TfliteAdd::SHIFT_16 } else { TfliteAdd::SHIFT_8 };
    let add = TfliteAdd::new(mode, shift, pa, pb, target).map_err(model)?;
    let y = match op {
        Fixed::Sub => map(a, b, dtype, |x, y| add.sub(x, y)),
        _ => map(a, b, dtype, |x, y| add.add(x, y)),
    };
    y.map(Some)
}

fn map(a: &Tensor, b: &Tensor, dtype: DataType, f: impl Fn(i32, i32) -> i32) -> Result<Tensor> {
    let plan = Broadcast::new(a.shape(), b.shape())?;
    let n = crate::nn::real::count(&plan.shape)?;
    let mut out = Tensor::buffer(n)?;
    out.resize(n, 0i64);
    plan.map(&a.to_ints()?, &b.to_ints()?, &mut out, |x, y| f(x as i32, y as i32).into());
    Tensor::from_ints(dtype, &plan.shape, &out)
}
