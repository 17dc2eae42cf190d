//! Integer sums and means of quantized elements (numerics.md section 4): AveragePool, GlobalAveragePool, ReduceMean,
//! ReduceSum and their QLinear forms.
//!
//! * (C1) The sum of `x - zx` is requantized with `m = fl32(xs / fl32(ys * n))`; a plain sum has n = 1.
//! * (C2) The Q31 modes fold `1 / n` into the integer multiplier, as TFLite's MEAN does.

use super::requantize::{model, narrow, wide};
use crate::EvalCx;
use crate::eval::mode_of;
use ottava_hal::refmath::bounds::max_operand;
use ottava_hal::refmath::elementwise::average_multiplier;
use ottava_hal::refmath::requant::{Multiplier, Requant, RequantMode, check_fp32_multiplier};
use ottava_hal::refmath::tflite::tflite_mean_multiplier;
use ottava_hal::{DataType, Error, QuantParams, Result, Tensor};
use std::collections::BTreeMap;

/// Requantizes sums over any number of elements; the multipliers are computed once per divisor.
pub(crate) struct Means {
    mode: RequantMode,
    /// Scale and zero point of the input.
    pub x: (f32, i32),
    /// Scale and zero point of the output.
    pub y: (f32, i32),
    /// Storage of the output.
    pub dtype: DataType,
    /// The greatest `|x - zx|`.
    largest: i64,
    by_divisor: BTreeMap<usize, Requant>,
}

impl Means {
    /// The means of a node's first input and output; `None` where their types have no integer form.
    pub fn of(cx: &EvalCx) -> Result<Option<Self>> {
        let x = cx.input(0)?;
        let per_tensor = |q: Option<&QuantParams>| q.and_then(QuantParams::as_per_tensor);
        let (Some(from), Some(to), Some(dtype)) =
            (per_tensor(cx.in_quant(0)), per_tensor(cx.out_quant(0)), cx.out_dtype(0))
        else {
            return Ok(None);
        };
        let storage = |t: DataType| t.is_integer() && t.bits() <= 16;
        if !storage(x.dtype()) || !storage(dtype) {
            return Ok(None);
        }
        QuantParams::per_tensor(from.0, from.1).check(x.dtype(), None).map_err(Error::Invalid)?;
        QuantParams::per_tensor(to.0, to.1).check(dtype, None).map_err(Error::Invalid)?;
        let largest = max_operand(x.dtype().bits() as u32, x.dtype().is_signed(), Some(from.1.into()));
        Ok(Some(Self { mode: mode_of(cx.node), x: from, y: to, dtype, largest, by_divisor: BTreeMap::new() }))
    }

    /// The elements minus the zero point.
    pub fn centred(&self, x: &Tensor) -> Result<Vec<i64>> {
        Ok(x.to_ints()?.into_iter().map(|v| v - i64::from(self.x.1)).collect())
    }

    /// Whether the node has a Q31 mode and equal parameters, which is TFLite's average.
    pub fn is_tflite_average(&self) -> bool {
        self.mode != RequantMode::Fp32Rne && self.x == self.y
    }

    /// The output for a sum over `terms` elements that is divided by `n` (C1, C2).
    pub fn value(&mut self, sum: i64, terms: usize, n: usize) -> Result<i64> {
        let requant = match self.by_divisor.get(&n) {
            Some(r) => *r,
            None => {
                let requant = self.requant(n)?;
                self.by_divisor.insert(n, requant);
                requant
            }
        };
        let bound = i64::try_from(terms).unwrap_or(i64::MAX).saturating_mul(self.largest);
        let y = if bound <= i64::from(i32::MAX) { narrow(&requant, sum as i32)? } else { wide(&requant, sum)? };
        Ok(y.into())
    }

    fn requant(&self, n: usize) -> Result<Requant> {
        let (ys, zp) = self.y;
        let (lo, hi) = self.dtype.storage_range().ok_or_else(|| Error::invalid("the output is no storage type"))?;
        let divisor = u32::try_from(n).map_err(|_| Error::invalid(format!("a mean over {n} elements is too large")))?;
        let multiplier = match self.mode {
            RequantMode::Fp32Rne => {
                let m = average_multiplier(self.x.0, ys, divisor);
                check_fp32_multiplier(m).map_err(model)?;
                Multiplier::Fp32(m)
            }
            mode => Multiplier::Q31(tflite_mean_multiplier(self.x.0, ys, divisor, mode).map_err(model)?),
        };
        Ok(Requant { mode: self.mode, multiplier, zp, lo, hi })
    }
}
