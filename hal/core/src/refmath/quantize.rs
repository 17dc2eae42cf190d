//! Quantize, dequantize and dynamic parameters (numerics.md sections 1 and 2).
//!
//! * (C1) Quantize: `t = fl32(x / scale)`, a true division; `y = sat(rne(t) + zp)`, clamped before conversion.
//! * (C2) NaN quantizes to the least value.
//! * (C3) A division in f16 or bf16 rounds the f32 quotient to that type first.
//! * (C4) Dequantize: `fl32((q - zp) * scale)`.
//! * (C5) DynamicQuantizeLinear: parameters of a u8 tensor from its finite elements.
//! * (C6) Per-row symmetric s8: `scale = fl32(max|x| / 127)`, a zero row takes 1.
//! * (C7) Quantization is monotone, so a clamp folds exactly: `Q(clip(x, a, b)) = clip(Q(x), Q(a), Q(b))`.

use super::round::{sat_rne_f32, sat_rne_zp};

/// The least and greatest value of an integer storage of `bits` bits (1 to 63).
pub const fn int_range(bits: u32, signed: bool) -> (i64, i64) {
    let bits = if bits > 63 { 63 } else { bits };
    match (bits, signed) {
        (0, _) => (0, 0),
        (_, true) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        (_, false) => (0, (1 << (bits - 1)) - 1 + (1 << (bits - 1))),
    }
}

/// How a stored integer becomes real: `(q - zp) * scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    /// The scale, finite and > 0.
    pub scale: f32,
    /// The zero point.
    pub zp: i32,
}

impl Affine {
    /// The real value of `q` (C4).
    #[inline]
    pub fn dequantize(self, q: i32) -> f32 {
        dequantize(q, self.zp, self.scale)
    }
}

/// How a real value becomes a stored integer: parameters and the range of the output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The scale, finite and > 0.
    pub scale: f32,
    /// The zero point.
    pub zp: i32,
    /// The least output value.
    pub lo: i32,
    /// The greatest output value.
    pub hi: i32,
}

impl Target {
    /// The stored integer of `x` (C1).
    #[inline]
    pub fn quantize(self, x: f32) -> i32 {
        quantize_f32(x, self.scale, self.zp, self.lo, self.hi)
    }

    /// (C7) The same target with the clamp to `[min, max]` (real values) folded into the output range.
    ///
    /// Bounds that cross behave as Clip: the upper one wins.
    #[must_use]
    pub fn clipped(self, min: Option<f32>, max: Option<f32>) -> Self {
        let lo = min.map_or(self.lo, |min| self.quantize(min));
        let hi = max.map_or(self.hi, |max| self.quantize(max));
        Self { lo: lo.min(hi), hi, ..self }
    }
}

/// The type in which the quotient of Quantize is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// The default.
    F32,
    /// The scale is f16, or the node's `precision` says so.
    F16,
    /// The scale is bf16, or the node's `precision` says so.
    Bf16,
}

/// (C1, C2) Quantize in f32.
#[inline]
pub fn quantize_f32(x: f32, scale: f32, zp: i32, lo: i32, hi: i32) -> i32 {
    sat_rne_zp(f64::from(x / scale), zp, lo, hi)
}

/// (C3) Quantize with an f16 quotient.
#[inline]
pub fn quantize_f16(x: f32, scale: f32, zp: i32, lo: i32, hi: i32) -> i32 {
    sat_rne_zp(half::f16::from_f32(x / scale).to_f64(), zp, lo, hi)
}

/// (C3) Quantize with a bf16 quotient.
#[inline]
pub fn quantize_bf16(x: f32, scale: f32, zp: i32, lo: i32, hi: i32) -> i32 {
    sat_rne_zp(half::bf16::from_f32(x / scale).to_f64(), zp, lo, hi)
}

/// Quantize with the quotient in the given precision.
pub fn quantize(x: f32, target: Target, precision: Precision) -> i32 {
    let Target { scale, zp, lo, hi } = target;
    match precision {
        Precision::F32 => quantize_f32(x, scale, zp, lo, hi),
        Precision::F16 => quantize_f16(x, scale, zp, lo, hi),
        Precision::Bf16 => quantize_bf16(x, scale, zp, lo, hi),
    }
}

/// (C4) Dequantize: the difference is exact, its conversion and the product round once each.
#[inline]
pub fn dequantize(q: i32, zp: i32, scale: f32) -> f32 {
    (i64::from(q) - i64::from(zp)) as f32 * scale
}

/// The result of a range scan for dynamic quantization.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicParams {
    /// The scale, finite and > 0.
    pub scale: f32,
    /// The zero point, 0..=255.
    pub zp: i32,
    /// How many elements were infinite: they saturate, and the caller warns.
    pub n_infinite: usize,
}

/// (C5) The parameters of DynamicQuantizeLinear for these elements.
pub fn dynamic_params_u8(xs: &[f32]) -> DynamicParams {
    let (mut lo, mut hi, mut n_infinite) = (0.0_f32, 0.0_f32, 0);
    for &x in xs {
        if x.is_infinite() {
            n_infinite += 1;
        } else {
            // Both ignore NaN.
            lo = lo.min(x);
            hi = hi.max(x);
        }
    }
    let (scale, zp) = dynamic_params_from_range(lo, hi);
    DynamicParams { scale, zp, n_infinite }
}

/// (C5) Scale and zero point of the finite range `lo <= 0 <= hi`.
///
/// A range so wide that `hi - lo` overflows is divided before the subtraction; one so narrow that the scale
/// underflows counts as all zero. Both keep the scale finite and > 0.
pub fn dynamic_params_from_range(lo: f32, hi: f32) -> (f32, i32) {
    let mut scale = (hi - lo) / 255.0;
    if scale.is_infinite() {
        scale = hi / 255.0 - lo / 255.0;
    }
    // Written so that a NaN bound lands here as well.
    if !(scale > 0.0 && scale.is_finite()) {
        return (1.0, 0);
    }
    (scale, sat_rne_f32(0.0 - lo / scale, 0, 255))
}

/// (C6) The scale of one activation row. NaN and infinite elements are left out of the range.
pub fn row_scale_s8(row: &[f32]) -> f32 {
    let largest = row.iter().filter(|x| x.is_finite()).fold(0.0_f32, |m, x| m.max(x.abs()));
    let scale = largest / 127.0;
    if scale > 0.0 { scale } else { 1.0 }
}

/// (C6) Quantizes one activation row to symmetric s8 in -127..=127 and returns its scale.
///
/// Only the common prefix is written if the lengths differ.
pub fn quantize_row_s8(row: &[f32], out: &mut [i8]) -> f32 {
    let scale = row_scale_s8(row);
    for (y, &x) in out.iter_mut().zip(row) {
        *y = quantize_f32(x, scale, 0, -127, 127) as i8;
    }
    scale
}

#[cfg(test)]
#[path = "quantize_tests.rs"]
mod tests;
