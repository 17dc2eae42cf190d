//! From accumulators to stored integers (numerics.md section 3), with the bounds of section 5 checked.

use super::product::Channels;
use ottava_hal::refmath::error::RefmathError;
use ottava_hal::refmath::quantize::quantize_f32;
use ottava_hal::refmath::requant::{
    Multiplier, Q31, Requant, RequantMode, ScaleProduct, check_fp32_multiplier, fp32_multiplier_alpha,
};
use ottava_hal::{DataType, Error, QuantParams, Reason, Result, Tensor};

/// Accumulators.
pub(crate) enum Sums {
    /// Proved to fit 32 bits.
    Narrow(Vec<i32>),
    /// 64 bits.
    Wide(Vec<i64>),
}

/// Quantizes by true division (section 2), per tensor.
pub(crate) fn quantize_reals(y: &[f32], shape: &[usize], dtype: DataType, params: &QuantParams) -> Result<Tensor> {
    let (Some((scale, zp)), Some((lo, hi))) = (params.as_per_tensor(), dtype.storage_range()) else {
        return Err(Error::invalid(format!("{dtype} with {:?} is not a per-tensor storage", params.scheme)));
    };
    let ints: Vec<i64> = y.iter().map(|&v| quantize_f32(v, scale, zp, lo, hi).into()).collect();
    Tensor::from_ints(dtype, shape, &ints)
}

/// The requantization of one channel, with all its bounds checked.
pub(crate) fn requant_of(
    (mode, product): (RequantMode, ScaleProduct),
    (xs, ws): (f32, f32),
    alpha: f32,
    (ys, zp): (f32, i32),
    dtype: DataType,
) -> Result<Requant> {
    let (lo, hi) =
        dtype.storage_range().ok_or_else(|| Error::invalid(format!("{dtype} cannot hold quantized values")))?;
    let multiplier = match mode {
        RequantMode::Fp32Rne => {
            let m = fp32_multiplier_alpha(xs, ws, alpha, ys);
            check_fp32_multiplier(m).map_err(model)?;
            Multiplier::Fp32(m)
        }
        _ => Multiplier::Q31(Q31::of_accumulator((xs, ws), alpha, ys, product, mode).map_err(model)?),
    };
    Ok(Requant { mode, multiplier, zp, lo, hi })
}

/// Requantizes every accumulator with the parameters of its channel (one entry: of all channels).
pub(crate) fn requantize_sums(
    sums: &Sums,
    requants: &[Requant],
    channels: Channels,
    dtype: DataType,
    shape: &[usize],
) -> Result<Tensor> {
    let of = |i: usize| if requants.len() == 1 { &requants[0] } else { &requants[channels.of(i)] };
    let ints: Vec<i64> = match sums {
        Sums::Narrow(v) => {
            v.iter().enumerate().map(|(i, &acc)| narrow(of(i), acc).map(i64::from)).collect::<Result<_>>()?
        }
        Sums::Wide(v) => {
            v.iter().enumerate().map(|(i, &acc)| wide(of(i), acc).map(i64::from)).collect::<Result<_>>()?
        }
    };
    Tensor::from_ints(dtype, shape, &ints)
}

/// The output for an i32 accumulator; `q31_double` must not lose bits of it.
pub(crate) fn narrow(r: &Requant, acc: i32) -> Result<i32> {
    if let (RequantMode::Q31Double, Multiplier::Q31(q)) = (r.mode, r.multiplier) {
        q.check_left_shift(acc.into(), acc.into()).map_err(overflow)?;
    }
    Ok(r.apply(acc))
}

/// The output for an i64 accumulator; `q31_double` bounds it.
pub(crate) fn wide(r: &Requant, acc: i64) -> Result<i32> {
    if let (RequantMode::Q31Double, Multiplier::Q31(q)) = (r.mode, r.multiplier) {
        q.check_i64(acc, acc).map_err(overflow)?;
    }
    Ok(r.apply_i64(acc))
}

/// The error of constants that have no integer form.
pub(crate) fn model(e: RefmathError) -> Error {
    Error::invalid(e.to_string())
}

fn overflow(e: RefmathError) -> Error {
    Error::unsupported(Reason::AccOverflow, e.to_string())
}
