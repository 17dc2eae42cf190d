//! `layernorm_int`: LayerNorm and RMSNorm of 8-bit and 16-bit rows in integers (numerics.md section 6).
//!
//! * (C1) `S = sum of x`, `Q = sum of x^2` on the stored values (the zero point cancels). RMSNorm subtracts `zx` first
//!   and takes `S = 0`.
//! * (C2) `D = (n*Q - S^2) * 2^16 + rne(n^2 * eps / xs^2 * 2^16)` as u64; the compiler proves `D < 2^62`.
//! * (C3) `D = 0`: `z = 0`. Else `t = floor((62 - bits(D)) / 2)`, `g = isqrt(D << 2t)`, `r = (2^62 + (g >> 1)) div g`,
//!   `z_i = ((n x_i - S) * r + 2^(37-t)) >> (38 - t)`, a Q16 value.
//! * (C4) `y_i = sat(((G_i * z_i + B_i + 2^29) >> 30) + zy)`, `G_i = rne(gamma_i / ys * 2^14)` an i32,
//!   `B_i = rne(beta_i / ys * 2^30)` an i64.
//! * (C5) 16-bit rows: the same with `D = (n*Q - S^2) * 2^8 + rne(n^2 * eps / xs^2 * 2^8)` and
//!   `z_i = ((n x_i - S) * r + 2^(41-t)) >> (42 - t)`; a row has at most 4096 elements (RMSNorm 2048).

use super::error::{RefmathError, check_scale};
use super::quantize::Target;
use super::round::{rne_i64, sat_i64};
use super::stored::Stored;

/// The first `D` that is not allowed (C2).
const D_LIMIT: u64 = 1 << 62;
/// Fraction bits of `D` for 8-bit rows (C2).
const FRACTION: u32 = 16;
/// Fraction bits of `D` for 16-bit rows (C5).
const WIDE_FRACTION: u32 = 8;

/// Which normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// Mean and variance.
    Layer,
    /// Root mean square about the zero point `zx`.
    Rms {
        /// The zero point of the input.
        zx: i32,
    },
}

/// The constants of a `layernorm_int` operator, apart from gamma and beta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNormInt {
    /// Which normalization.
    pub kind: NormKind,
    /// The row length `n`.
    pub n: u32,
    /// (C2, C5) `rne(n^2 * eps / xs^2 * 2^fraction)`.
    pub eps_term: u64,
    /// Fraction bits of `D`: 16 for 8-bit rows (C2), 8 for 16-bit rows (C5).
    pub fraction: u32,
    /// The output; its scale is in the gains and offsets.
    pub target: Target,
}

impl LayerNormInt {
    /// (C2) Computes the constants and proves `D < 2^62` for every row of `n` 8-bit values.
    pub fn new(kind: NormKind, n: u32, xs: f32, eps: f32, target: Target) -> Result<Self, RefmathError> {
        Self::of_span(kind, n, xs, eps, target, (FRACTION, 255))
    }

    /// (C5) The same for rows of 16-bit values.
    pub fn wide(kind: NormKind, n: u32, xs: f32, eps: f32, target: Target) -> Result<Self, RefmathError> {
        Self::of_span(kind, n, xs, eps, target, (WIDE_FRACTION, 65535))
    }

    fn of_span(
        kind: NormKind,
        n: u32,
        xs: f32,
        eps: f32,
        target: Target,
        (fraction, span): (u32, u128),
    ) -> Result<Self, RefmathError> {
        check_scale(xs)?;
        check_scale(target.scale)?;
        let eps_term = scaled_eps(n, xs, eps, fraction)?;
        // The variance of values of a span is at most (span/2)^2; a square about zx at most span^2.
        let spread = match kind {
            NormKind::Layer => span * span / 4 + 1,
            NormKind::Rms { .. } => span * span,
        };
        let largest = ((u128::from(n) * u128::from(n) * spread) << fraction) + u128::from(eps_term);
        if largest >= u128::from(D_LIMIT) {
            return Err(d_bound(largest as f64));
        }
        Ok(Self { kind, n, eps_term, fraction, target })
    }

    /// (C1 to C4) Normalizes one row. Without `offsets` every B is 0.
    ///
    /// Fails, before it writes anything, if a length is not `n`.
    pub fn row<X: Stored, Y: Stored>(
        &self,
        x: &[X],
        gains: &[i32],
        offsets: Option<&[i64]>,
        out: &mut [Y],
    ) -> Result<(), RefmathError> {
        let offsets_len = offsets.map_or(gains.len(), <[i64]>::len);
        check_lengths(self.n as usize, [x.len(), gains.len(), offsets_len, out.len()])?;
        let statistics = self.statistics(x);
        for (i, y) in out.iter_mut().enumerate() {
            let z = statistics.normalize(self.value(x[i]));
            *y = Y::from_i32(self.output(z, gains[i], offsets.map_or(0, |b| b[i])));
        }
        Ok(())
    }

    /// (C1) The value that enters the sums. Values of the promised width pass the limits unchanged; wider ones must not
    /// overflow.
    #[inline]
    fn value<X: Stored>(&self, x: X) -> i64 {
        let (least, span) = if self.fraction == FRACTION { (-128, 255) } else { (-32768, 65535) };
        match self.kind {
            NormKind::Layer => i64::from(x.into()).clamp(least, span),
            NormKind::Rms { zx } => (i64::from(x.into()) - i64::from(zx)).clamp(-span, span),
        }
    }

    /// (C1, C2, C3) The sums of a row and its reciprocal standard deviation.
    fn statistics<X: Stored>(&self, x: &[X]) -> Statistics {
        let (mut s, mut q) = (0_i64, 0_i64);
        for &x in x {
            let v = self.value(x);
            s += v;
            q += v * v;
        }
        if matches!(self.kind, NormKind::Rms { .. }) {
            s = 0;
        }
        let n = i64::from(self.n);
        // n*Q >= S^2 by Cauchy's inequality, so the difference is not negative.
        let d = (((n * q - s * s) as u64) << self.fraction) + self.eps_term;
        let (t, r) = reciprocal_root(d);
        // 38 for 8-bit rows, 42 for 16-bit rows; t is at most 30.
        Statistics { n, s, shift: 46 - self.fraction / 2 - t, r }
    }

    /// (C4) The output for a Q16 value.
    #[inline]
    pub fn output(&self, z: i64, gain: i32, offset: i64) -> i32 {
        let y = (i128::from(gain) * i128::from(z) + i128::from(offset) + (1 << 29)) >> 30;
        // |y| < 2^63, since |gain * z| < 2^94 at the very most and the shift removes 30 bits of it.
        let y = y.clamp(i128::from(i64::MIN / 2), i128::from(i64::MAX / 2)) as i64;
        sat_i64(y + i64::from(self.target.zp), self.target.lo, self.target.hi)
    }
}

/// What a row needs to normalize each element.
struct Statistics {
    n: i64,
    s: i64,
    shift: u32,
    r: i64,
}

impl Statistics {
    /// (C3) `z` in Q16; 0 throughout if `D = 0`.
    #[inline]
    fn normalize(&self, x: i64) -> i64 {
        ((self.n * x - self.s) * self.r + (1 << (self.shift - 1))) >> self.shift
    }
}

/// (C3) `(t, r)` with `r = 2^(62-t) / sqrt(D)`, rounded; `(0, 0)` for `D = 0`. Contract: `D < 2^62`.
pub fn reciprocal_root(d: u64) -> (u32, i64) {
    let d = d.min(D_LIMIT - 1);
    if d == 0 {
        return (0, 0);
    }
    // bits(D) <= 62, and D << 2t has 61 or 62 bits.
    let t = (d.leading_zeros() - 2) / 2;
    let g = (d << (2 * t)).isqrt();
    (t, (((1 << 62) + (g >> 1)) / g) as i64)
}

/// (C2) `rne(n^2 * eps / xs^2 * 2^16)`, in f64 from left to right.
pub fn eps_term(n: u32, xs: f32, eps: f32) -> Result<u64, RefmathError> {
    scaled_eps(n, xs, eps, FRACTION)
}

fn scaled_eps(n: u32, xs: f32, eps: f32, fraction: u32) -> Result<u64, RefmathError> {
    let (n, xs, eps) = (f64::from(n), f64::from(xs), f64::from(eps));
    let term = n * n * eps / (xs * xs) * f64::from(1u32 << fraction);
    match rne_i64(term) {
        Some(v) if (0..D_LIMIT as i64).contains(&v) => Ok(v as u64),
        _ => Err(d_bound(term)),
    }
}

/// (C4) `G = rne(gamma / ys * 2^14)`; an error if it is no i32.
pub fn layernorm_gain(gamma: f32, ys: f32) -> Result<i32, RefmathError> {
    let real = f64::from(gamma) / f64::from(ys) * 16384.0;
    let gain = rne_i64(real).and_then(|g| i32::try_from(g).ok());
    gain.ok_or(RefmathError::Bound { what: "the gain of layernorm_int", found: real, limit: 2_147_483_648.0 })
}

/// (C4) `B = rne(beta / ys * 2^30)`; an error beyond `2^62`.
pub fn layernorm_offset(beta: f32, ys: f32) -> Result<i64, RefmathError> {
    let real = f64::from(beta) / f64::from(ys) * 1_073_741_824.0;
    rne_i64(real).ok_or(RefmathError::Bound { what: "the offset of layernorm_int", found: real, limit: D_LIMIT as f64 })
}

fn d_bound(found: f64) -> RefmathError {
    RefmathError::Bound { what: "D of layernorm_int", found, limit: D_LIMIT as f64 }
}

fn check_lengths(n: usize, found: [usize; 4]) -> Result<(), RefmathError> {
    let what = ["the input row", "gamma", "beta", "the output row"];
    let wrong = what.into_iter().zip(found).find(|&(_, found)| found != n);
    wrong.map_or(Ok(()), |(what, found)| Err(RefmathError::Length { what, found, expected: n }))
}

#[cfg(test)]
#[path = "layernorm_tests.rs"]
mod tests;
