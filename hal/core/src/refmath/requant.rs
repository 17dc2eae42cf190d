//! Requantization of accumulators (numerics.md section 3).
//!
//! A mode belongs to the operator node; its value never depends on the device. The clauses:
//!
//! * (C1) `fp32_rne`: `m = fl32(fl32(xs*ws)/ys)`, `t = fl32(f32(acc)*m)`, `y = sat(rne(t) + zp)`.
//! * (C2) Q31 multiplier `(M, s)` of a real multiplier, computed in f64.
//! * (C3) `q31_single`: one rounding, half up, on the 64-bit product.
//! * (C4) `q31_double`: `SRDHM`, then `RDP`; the left shift must be proved to fit.
//! * (C5) i64 accumulators: the 16-bit multiplier in `q31_double`, C3 in `q31_single`, f64 in `fp32_rne`.
//!
//! In every mode the zero point is added after rounding and saturation comes last.

use super::error::{RefmathError, check_scale};
use super::quantize::Target;
use super::round::{rdp, sat_i64, sat_rne_zp, srdhm};

/// How an accumulator becomes an output value. The numeric values are part of the ABI and of stored plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum RequantMode {
    /// f32 multiplier, round to nearest, ties to even (ONNX).
    Fp32Rne = 1,
    /// Q31 multiplier with two roundings (TFLite reference kernels, CMSIS-NN).
    Q31Double = 2,
    /// Q31 multiplier with one rounding (TFLite single rounding, ruy).
    Q31Single = 3,
}

impl RequantMode {
    /// Every mode of version 1.
    pub const ALL: [Self; 3] = [Self::Fp32Rne, Self::Q31Double, Self::Q31Single];

    /// The mode with this numeric value; `None` for a value this version does not know.
    pub const fn from_u32(value: u32) -> Option<Self> {
        match value {
            1 => Some(Self::Fp32Rne),
            2 => Some(Self::Q31Double),
            3 => Some(Self::Q31Single),
            _ => None,
        }
    }

    /// The numeric value.
    pub const fn as_u32(self) -> u32 {
        self as u32
    }

    /// The name used in files, reports and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp32Rne => "fp32_rne",
            Self::Q31Double => "q31_double",
            Self::Q31Single => "q31_single",
        }
    }

    /// The mode of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

impl core::fmt::Display for RequantMode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// In which precision the scales of input and weights are multiplied before the Q31 multiplier is made of them. TFLite's
/// kernels differ in this (numerics.md section 3); [`crate::Node::scale_product`] says which one a node takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleProduct {
    /// `f64(xs) * f64(ws)`.
    Double,
    /// `f64(fl32(xs * ws))`.
    Single,
}

/// A fixed-point multiplier: the real value is `multiplier * 2^(shift - 31)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Q31 {
    /// `M`, 0 or in `[2^30, 2^31)`.
    pub multiplier: i32,
    /// `s`: positive shifts left.
    pub shift: i32,
}

impl Q31 {
    /// (C2) The multiplier of a real `r >= 0`; an error for negative, NaN and infinite values.
    pub fn from_real(real: f64, mode: RequantMode) -> Result<Self, RefmathError> {
        if !real.is_finite() || real < 0.0 {
            return Err(RefmathError::Multiplier { found: real });
        }
        if real == 0.0 {
            return Ok(Self { multiplier: 0, shift: 0 });
        }
        let (fraction, mut shift) = libm::frexp(real);
        // Exact product; `round` is half away from zero.
        let mut multiplier = libm::round(fraction * 2_147_483_648.0) as i64;
        if multiplier == 1 << 31 {
            multiplier = 1 << 30;
            shift += 1;
        }
        if shift < -31 {
            (multiplier, shift) = (0, 0);
        }
        if mode == RequantMode::Q31Single && shift > 30 {
            (multiplier, shift) = (i64::from(i32::MAX), 30);
        }
        Ok(Self { multiplier: multiplier as i32, shift })
    }

    /// (C2) The multiplier of `xs * ws / ys`, the product and quotient in f64.
    pub fn from_scales(xs: f32, ws: f32, ys: f32, mode: RequantMode) -> Result<Self, RefmathError> {
        Self::from_real(f64::from(xs) * f64::from(ws) / f64::from(ys), mode)
    }

    /// (C2) The multiplier of an accumulator: `p * alpha / ys` in f64, where `p` is the product of the scales.
    pub fn of_accumulator(
        (xs, ws): (f32, f32),
        alpha: f32,
        ys: f32,
        product: ScaleProduct,
        mode: RequantMode,
    ) -> Result<Self, RefmathError> {
        let p = match product {
            ScaleProduct::Double => f64::from(xs) * f64::from(ws),
            ScaleProduct::Single => f64::from(xs * ws),
        };
        Self::from_real(p * f64::from(alpha) / f64::from(ys), mode)
    }

    /// The real value that this multiplier stands for.
    pub fn real(self) -> f64 {
        libm::ldexp(f64::from(self.multiplier), self.shift - 31)
    }

    /// `acc` times the multiplier in one of the Q31 modes, without zero point and saturation.
    ///
    /// `Fp32Rne` has no Q31 form; it is treated as `Q31Single`.
    #[inline]
    pub fn scale(self, acc: i32, mode: RequantMode) -> i64 {
        match mode {
            RequantMode::Q31Double => i64::from(self.scale_double(acc)),
            RequantMode::Q31Single | RequantMode::Fp32Rne => self.scale_single(acc),
        }
    }

    /// (C3) `(acc * M + 2^(30-s)) >> (31-s)`. Contract: `-31 <= s <= 30`, as `from_real` makes it.
    #[inline]
    pub fn scale_single(self, acc: i32) -> i64 {
        let shift = self.shift.clamp(-31, 30);
        let product = i64::from(acc) * i64::from(self.multiplier);
        (product + (1_i64 << (30 - shift))) >> (31 - shift)
    }

    /// (C4) `RDP(SRDHM(acc * 2^L, M), R)`. Contract: [`Q31::check_left_shift`] holds for `acc`; outside of it the
    /// shifted accumulator saturates.
    #[inline]
    pub fn scale_double(self, acc: i32) -> i32 {
        // 32 bits shifted by 31 fit i64, and a longer shift saturates just the same.
        let left = self.shift.clamp(0, 31);
        let right = self.shift.saturating_neg().clamp(0, 31) as u32;
        let shifted = sat_i64(i64::from(acc) << left, i32::MIN, i32::MAX);
        rdp(srdhm(shifted, self.multiplier), right)
    }

    /// (C4) Whether every accumulator of `acc_min..=acc_max` survives the left shift of `q31_double`.
    pub fn check_left_shift(self, acc_min: i64, acc_max: i64) -> Result<(), RefmathError> {
        let fits = |acc: i64| (i128::from(acc) << self.shift.clamp(0, 32)).unsigned_abs() < 1 << 31;
        if self.shift <= 0 || (fits(acc_min) && fits(acc_max)) {
            return Ok(());
        }
        Err(RefmathError::LeftShift { shift: self.shift, acc_min, acc_max })
    }

    /// (C5) C3 of an i64 accumulator, on a product of 128 bits.
    #[inline]
    pub fn scale_single_i64(self, acc: i64) -> i64 {
        let shift = self.shift.clamp(-31, 30);
        let scaled = (i128::from(acc) * i128::from(self.multiplier) + (1_i128 << (30 - shift))) >> (31 - shift);
        scaled.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// (C5) The 16-bit multiplier used with i64 accumulators in `q31_double`.
    #[inline]
    pub fn multiplier16(self) -> i32 {
        if self.multiplier < 0x7FFF_0000 { (self.multiplier + (1 << 15)) >> 16 } else { 0x7FFF }
    }

    /// (C5) `(acc * M16 + 2^(14-s)) >> (15-s)`. Contract: `|acc| < 2^47`, `-31 <= s < 8`.
    ///
    /// The product is 128 bits wide, so values outside the contract do not wrap; the shift is limited to it.
    #[inline]
    pub fn scale_i64(self, acc: i64) -> i64 {
        let shift = self.shift.clamp(-31, 7);
        let product = i128::from(acc) * i128::from(self.multiplier16());
        let scaled = (product + (1_i128 << (14 - shift))) >> (15 - shift);
        scaled.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// (C5) Whether i64 accumulators of `acc_min..=acc_max` are inside the contract of [`Q31::scale_i64`].
    pub fn check_i64(self, acc_min: i64, acc_max: i64) -> Result<(), RefmathError> {
        let limit = 1_u64 << 47;
        let largest = acc_min.unsigned_abs().max(acc_max.unsigned_abs());
        if largest >= limit {
            let what = "the magnitude of the i64 accumulator";
            return Err(RefmathError::Bound { what, found: largest as f64, limit: limit as f64 });
        }
        if self.shift >= 8 {
            let what = "the left shift of an i64 accumulator's multiplier";
            return Err(RefmathError::Bound { what, found: f64::from(self.shift), limit: 8.0 });
        }
        Ok(())
    }
}

/// (C1) `fl32(fl32(xs * ws) / ys)`.
#[inline]
pub fn fp32_multiplier(xs: f32, ws: f32, ys: f32) -> f32 {
    xs * ws / ys
}

/// The multiplier of Gemm: `fl32(fl32(fl32(xs * ws) * alpha) / ys)`.
#[inline]
pub fn fp32_multiplier_alpha(xs: f32, ws: f32, alpha: f32, ys: f32) -> f32 {
    xs * ws * alpha / ys
}

/// Section 5: `m` must be finite and `|m| < 2^31`.
pub fn check_fp32_multiplier(m: f32) -> Result<(), RefmathError> {
    if m.is_finite() && m.abs() < 2_147_483_648.0 {
        return Ok(());
    }
    Err(RefmathError::Bound { what: "the f32 multiplier", found: f64::from(m), limit: 2_147_483_648.0 })
}

/// (C1) `sat(rne(fl32(f32(acc) * m)) + zp)`.
#[inline]
pub fn requant_fp32(acc: i32, m: f32, zp: i32, lo: i32, hi: i32) -> i32 {
    sat_rne_zp(f64::from(acc as f32 * m), zp, lo, hi)
}

/// (C4) `q31_double` with zero point and saturation.
#[inline]
pub fn requant_q31_double(acc: i32, q: Q31, zp: i32, lo: i32, hi: i32) -> i32 {
    sat_i64(i64::from(q.scale_double(acc)) + i64::from(zp), lo, hi)
}

/// (C3) `q31_single` with zero point and saturation.
#[inline]
pub fn requant_q31_single(acc: i32, q: Q31, zp: i32, lo: i32, hi: i32) -> i32 {
    sat_i64(q.scale_single(acc) + i64::from(zp), lo, hi)
}

/// (C5) `fp32_rne` for an i64 accumulator: `sat(rne(f64(acc) * f64(m)) + zp)`.
#[inline]
pub fn requant_fp32_i64(acc: i64, m: f32, zp: i32, lo: i32, hi: i32) -> i32 {
    sat_rne_zp(acc as f64 * f64::from(m), zp, lo, hi)
}

/// (C5) `q31_single` for an i64 accumulator.
#[inline]
pub fn requant_q31_single_i64(acc: i64, q: Q31, zp: i32, lo: i32, hi: i32) -> i32 {
    sat_i64(q.scale_single_i64(acc).saturating_add(i64::from(zp)), lo, hi)
}

/// (C5) `q31_double` for an i64 accumulator.
#[inline]
pub fn requant_q31_i64(acc: i64, q: Q31, zp: i32, lo: i32, hi: i32) -> i32 {
    sat_i64(q.scale_i64(acc).saturating_add(i64::from(zp)), lo, hi)
}

/// A multiplier in the form its mode needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Multiplier {
    /// For `fp32_rne`.
    Fp32(f32),
    /// For both Q31 modes.
    Q31(Q31),
}

impl Multiplier {
    /// The multiplier of `xs * ws / ys` for `mode`, checked: scales are valid, the result is in range.
    pub fn from_scales(mode: RequantMode, xs: f32, ws: f32, ys: f32) -> Result<Self, RefmathError> {
        for scale in [xs, ws, ys] {
            check_scale(scale)?;
        }
        if mode != RequantMode::Fp32Rne {
            return Q31::from_scales(xs, ws, ys, mode).map(Self::Q31);
        }
        let m = fp32_multiplier(xs, ws, ys);
        check_fp32_multiplier(m).map(|()| Self::Fp32(m))
    }
}

/// Everything needed to turn one channel's accumulator into its output value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requant {
    /// The rounding; decides between the two Q31 forms.
    pub mode: RequantMode,
    /// `Fp32` exactly when `mode` is `Fp32Rne`.
    pub multiplier: Multiplier,
    /// The zero point of the output.
    pub zp: i32,
    /// The least output value (a folded Relu raises it).
    pub lo: i32,
    /// The greatest output value.
    pub hi: i32,
}

impl Requant {
    /// The requantization from `xs * ws` to the output `out`, with its checks (scales, range of the multiplier).
    pub fn from_scales(mode: RequantMode, xs: f32, ws: f32, out: Target) -> Result<Self, RefmathError> {
        let multiplier = Multiplier::from_scales(mode, xs, ws, out.scale)?;
        Ok(Self { mode, multiplier, zp: out.zp, lo: out.lo, hi: out.hi })
    }

    /// Whether i32 accumulators of `acc_min..=acc_max` may be requantized in this mode (the left shift of C4).
    pub fn check_acc(&self, acc_min: i64, acc_max: i64) -> Result<(), RefmathError> {
        match (self.mode, self.multiplier) {
            (RequantMode::Q31Double, Multiplier::Q31(q)) => q.check_left_shift(acc_min, acc_max),
            _ => Ok(()),
        }
    }

    /// The requantization of an i32 accumulator.
    #[inline]
    pub fn apply(&self, acc: i32) -> i32 {
        match self.multiplier {
            Multiplier::Fp32(m) => requant_fp32(acc, m, self.zp, self.lo, self.hi),
            Multiplier::Q31(q) => sat_i64(q.scale(acc, self.mode) + i64::from(self.zp), self.lo, self.hi),
        }
    }

    /// The requantization of an i64 accumulator.
    #[inline]
    pub fn apply_i64(&self, acc: i64) -> i32 {
        match self.multiplier {
            Multiplier::Fp32(m) => requant_fp32_i64(acc, m, self.zp, self.lo, self.hi),
            Multiplier::Q31(q) if self.mode == RequantMode::Q31Single => {
                requant_q31_single_i64(acc, q, self.zp, self.lo, self.hi)
            }
            Multiplier::Q31(q) => requant_q31_i64(acc, q, self.zp, self.lo, self.hi),
        }
    }

    /// Whether multiplier and mode belong together.
    pub fn is_consistent(&self) -> bool {
        matches!(self.multiplier, Multiplier::Fp32(_)) == (self.mode == RequantMode::Fp32Rne)
    }
}

#[cfg(test)]
#[path = "requant_tests.rs"]
mod tests;
