//! Sums and means of quantized elements: the multipliers by which a sum becomes a result (numerics.md section 4).

use super::types::{bound, one_scale, q31, refuse, target};
use super::{input, output};
use crate::builder::{Buf, Builder};
use ottava_hal::refmath::elementwise::average_multiplier;
use ottava_hal::refmath::quantize::{Affine, Target};
use ottava_hal::refmath::requant::{RequantMode, check_fp32_multiplier};
use ottava_hal::refmath::tflite::tflite_mean_multiplier;
use ottava_hal::{DataType, Node, Reason, Result};

/// Requantization of sums.
pub(super) struct Means {
    pub mode: RequantMode,
    pub x: Affine,
    pub to: Target,
    /// The greatest difference of an element to its zero point.
    largest: u64,
}

impl Means {
    /// The means of a node; both sides are quantized.
    pub fn of(builder: &Builder<'_>, node: &Node) -> Result<Self> {
        let (ty, y) = (builder.ty(input(node, 0)?), builder.ty(output(node)?));
        let narrow = |t: DataType| t.is_integer() && t.bits() <= 16;
        if !narrow(ty.dtype) || !narrow(y.dtype) {
            return refuse(Reason::Dtype, "sums of quantized values of more than 16 bits");
        }
        let (x, to) = (one_scale(ty)?, target(node, y)?);
        let (lo, hi) = ty.dtype.storage_range().unwrap_or((0, 0));
        let largest = x.zp.abs_diff(lo).max(x.zp.abs_diff(hi)).into();
        Ok(Self { mode: node.requant.unwrap_or(RequantMode::Fp32Rne), x, to, largest })
    }

    /// Whether the node is TFLite's average: a Q31 mode and equal parameters.
    pub fn is_tflite_average(&self) -> bool {
        self.mode != RequantMode::Fp32Rne && (self.x.scale, self.x.zp) == (self.to.scale, self.to.zp)
    }

    /// An error unless the sum of so many elements surely fits 32 bits.
    pub fn check_terms(&self, terms: usize) -> Result<()> {
        match (terms as u64).checked_mul(self.largest) {
            Some(v) if v <= i32::MAX as u64 => Ok(()),
            _ => refuse(Reason::AccOverflow, format!("a sum of {terms} elements")),
        }
    }

    /// Multiplier and shift for every divisor of a range, as a buffer; `terms` elements are added at most.
    pub fn scales(
        &self,
        builder: &mut Builder<'_>,
        divisors: std::ops::RangeInclusive<usize>,
        terms: usize,
    ) -> Result<Buf> {
        let mut words = Vec::new();
        for n in divisors {
            words.extend(self.scale(n.max(1), terms)?);
        }
        builder.words(&words)
    }

    fn scale(&self, n: usize, terms: usize) -> Result<[u32; 2]> {
        let n = u32::try_from(n).map_err(bound)?;
        if self.mode == RequantMode::Fp32Rne {
            let m = average_multiplier(self.x.scale, self.to.scale, n);
            check_fp32_multiplier(m).map_err(bound)?;
            return Ok([m.to_bits(), 0]);
        }
        let q = tflite_mean_multiplier(self.x.scale, self.to.scale, n, self.mode).map_err(bound)?;
        if self.mode == RequantMode::Q31Double {
            let most = (terms as u64).saturating_mul(self.largest).min(i32::MAX as u64) as i64;
            q.check_left_shift(-most, most).map_err(bound)?;
        }
        Ok(q31(q))
    }
}
