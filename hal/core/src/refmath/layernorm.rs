//! `layernorm_int`: LayerNorm and RMSNorm of 8-bit rows in integers (numerics.md section 6).
//!
//! * (C1) `S = sum of x`, `Q = sum of x^2` on the stored values (the zero point cancels). RMSNorm subtracts `zx` first
//!   and takes `S = 0`.
//! * (C2) `D = (n*Q - S^2) * 2^16 + rne(n^2 * eps / xs^2 * 2^16)` as u64; the compiler proves `D < 2^62`.
//! * (C3) `D = 0`: `z = 0`. Else `t = floor((62 - bits(D)) / 2)`, `g = isqrt(D << 2t)`, `r = (2^62 + (g >> 1)) div g`,
//!   `z_i = ((n x_i - S) * r + 2^(37-t)) >> (38 - t)`, a Q16 value.
//! * (C4) `y_i = sat(((G_i * z_i + B_i + 2^29) >> 30) + zy)`, `G_i = rne(gamma_i / ys * 2^14)` an i32,
//!   `B_i = rne(beta_i / ys * 2^30)` an i64.

use super::error::{RefmathError, check_scale};
use super::quantize::Target;
use super::round::{rne_i64, sat_i64};
use super::stored::Stored;

/// The first `D` that is not allowed (C2).
const D_LIMIT: u64 = 1 << 62;

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
    /// (C2) `rne(n^2 * eps / xs^2 * 2^16)`.
    pub eps_term: u64,
    /// The output; its scale is in the gains and offsets.
    pub target: Target,
}

impl LayerNormInt {
    /// (C2) Computes the constants and proves `D < 2^62` for every row of `n` 8-bit values.
    pub fn new(kind: NormKind, n: u32, xs: f32, eps: f32, target: Target) -> Result<Self, RefmathError> {
        check_scale(xs)?;
        check_scale(target.scale)?;
        let eps_term = eps_term(n, xs, eps)?;
        // The variance of 8-bit values is at most (255/2)^2; a square about zx at most 255^2.
        let spread: u128 = match kind {
            NormKind::Layer => 255 * 255 / 4 + 1,
            NormKind::Rms { .. } => 255 * 255,
        };
        let largest = ((u128::from(n) * u128::from(n) * spread) << 16) + u128::from(eps_term);
        if largest >= u128::from(D_LIMIT) {
            return Err(d_bound(largest as f64));
        }
        Ok(Self { kind, n, eps_term, target })
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

    /// (C1) The value that enters the sums. 8-bit values pass the limits unchanged; wider ones must not overflow.
    #[inline]
    fn value<X: Stored>(&self, x: X) -> i64 {
        match self.kind {
            NormKind::Layer => i64::from(x.into()).clamp(-128, 255),
            NormKind::Rms { zx } => (i64::from(x.into()) - i64::from(zx)).clamp(-255, 255),
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
        let d = (((n * q - s * s) as u64) << 16) + self.eps_term;
        let (t, r) = reciprocal_root(d);
        Statistics { n, s, t, r }
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
    t: u32,
    r: i64,
}

impl Statistics {
    /// (C3) `z` in Q16; 0 throughout if `D = 0`.
    #[inline]
    fn normalize(&self, x: i64) -> i64 {
        ((self.n * x - self.s) * self.r + (1 << (37 - self.t))) >> (38 - self.t)
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
    let (n, xs, eps) = (f64::from(n), f64::from(xs), f64::from(eps));
    let term = n * n * eps / (xs * xs) * 65536.0;
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
