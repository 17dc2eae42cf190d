//! Element-wise operators of imported TFLite models (numerics.md section 4, "TFLite import").
//!
//! * (C1) ADD, SUB: inputs shifted left by `ls` (20; 15 for s16), brought to the scale `T = 2 max(s1, s2)`, summed,
//!   brought to the output; all three multiplications in the node's mode.
//! * (C2) MUL: `(q1-z1)(q2-z2)` times `Q31(fl32(fl32(s1*s2)/so))`.
//! * (C3) AVERAGE_POOL_2D: division by the taps inside the image, half away from zero.
//! * (C4) LEAKY_RELU: two multipliers, chosen by the sign of `q - z`, their quotients in f32.
//! * (C5) QUANTIZE of reals: `sat(round(fl32(x / so)) + zo)`, half away from zero; of integers: `(q - z)` times
//!   `Q31(s / so)`. RELU and its kin, and ABS of `|q - z|`: the same with `Q31(fl32(s / so))`.
//! * (C6) MEAN over n elements: the sum of `q - z` times `Q31(s / so)` with `M' = (M << k) / n`, `k = floor(log2 n)`.
//!
//! `fp32_rne` has no form of its own here: ADD and MUL are then the QDQ operators of `elementwise`.

use super::error::{RefmathError, check_scale};
use super::quantize::{Affine, Target};
use super::requant::{Q31, RequantMode};
use super::round::sat_i64;

/// (C1) The constants of ADD and SUB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TfliteAdd {
    /// `q31_double` or `q31_single`.
    pub mode: RequantMode,
    /// `ls`: 20, or 15 for s16.
    pub left_shift: u32,
    /// Zero points of the inputs.
    pub input_zp: [i32; 2],
    /// `Q31(s_i / T)`.
    pub input: [Q31; 2],
    /// `Q31(T / (2^ls * so))`.
    pub output: Q31,
    /// The output; its scale is already in `output`.
    pub target: Target,
}

impl TfliteAdd {
    /// The left shift for 8-bit inputs.
    pub const SHIFT_8: u32 = 20;
    /// The left shift for s16 inputs.
    pub const SHIFT_16: u32 = 15;

    /// Computes the constants, in f64. Fails if a scale is invalid or the output would need a left shift.
    pub fn new(mode: RequantMode, left_shift: u32, a: Affine, b: Affine, target: Target) -> Result<Self, RefmathError> {
        for scale in [a.scale, b.scale, target.scale] {
            check_scale(scale)?;
        }
        let common = 2.0 * f64::from(a.scale).max(f64::from(b.scale));
        let input = |p: Affine| Q31::from_real(f64::from(p.scale) / common, mode);
        let real = common / (libm::exp2(f64::from(left_shift)) * f64::from(target.scale));
        let output = Q31::from_real(real, mode)?;
        if output.shift > 0 {
            return Err(RefmathError::Bound { what: "the output multiplier of ADD", found: real, limit: 1.0 });
        }
        let input_zp = [a.zp, b.zp];
        Ok(Self { mode, left_shift, input_zp, input: [input(a)?, input(b)?], output, target })
    }

    /// ADD.
    #[inline]
    pub fn add(&self, a: i32, b: i32) -> i32 {
        self.finish(self.scaled(0, a) + self.scaled(1, b))
    }

    /// SUB.
    #[inline]
    pub fn sub(&self, a: i32, b: i32) -> i32 {
        self.finish(self.scaled(0, a) - self.scaled(1, b))
    }

    /// An input at scale `T / 2^ls`. The multiplier is at most 1/2, so the sum of two fits 32 bits.
    #[inline]
    pub fn scaled(&self, index: usize, q: i32) -> i64 {
        let shifted = (i64::from(q) - i64::from(self.input_zp[index])) << self.left_shift.min(30);
        self.input[index].scale(saturate(shifted), self.mode)
    }

    /// The output for a sum or difference of two scaled inputs.
    #[inline]
    pub fn finish(&self, sum: i64) -> i32 {
        let y = self.output.scale(saturate(sum), self.mode);
        sat_i64(y + i64::from(self.target.zp), self.target.lo, self.target.hi)
    }
}

/// Values inside the contract pass unchanged.
#[inline]
fn saturate(v: i64) -> i32 {
    sat_i64(v, i32::MIN, i32::MAX)
}

/// (C2) The multiplier of MUL: `Q31(s1 * s2 / so)`, the scales multiplied and divided in f32.
pub fn tflite_mul_multiplier(s1: f32, s2: f32, so: f32, mode: RequantMode) -> Result<Q31, RefmathError> {
    for scale in [s1, s2, so] {
        check_scale(scale)?;
    }
    Q31::from_real(f64::from(s1 * s2 / so), mode)
}

/// (C2) MUL. The scale of `out` is in `multiplier`.
#[inline]
pub fn tflite_mul(q: [i32; 2], z: [i32; 2], multiplier: Q31, mode: RequantMode, out: Target) -> i32 {
    let difference = |i: usize| i64::from(q[i]) - i64::from(z[i]);
    let product = saturate(difference(0).saturating_mul(difference(1)));
    sat_i64(multiplier.scale(product, mode) + i64::from(out.zp), out.lo, out.hi)
}

/// (C3) AVERAGE_POOL_2D over the raw stored values: `acc > 0 ? (acc + n/2) / n : (acc - n/2) / n`, C division.
///
/// `n = 0`, a window wholly in the padding, counts as 1.
#[inline]
pub fn tflite_average(acc: i32, n: u32, lo: i32, hi: i32) -> i32 {
    let (acc, n) = (i64::from(acc), i64::from(n.max(1)));
    let half = if acc > 0 { n / 2 } else { -(n / 2) };
    sat_i64((acc + half) / n, lo, hi)
}

/// (C5) The constants of a change of parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TfliteRequant {
    /// `q31_double` or `q31_single`.
    pub mode: RequantMode,
    /// The zero point of the input.
    pub input_zp: i32,
    /// `Q31(s / so)`.
    pub multiplier: Q31,
    /// The output; its scale is already in the multiplier.
    pub target: Target,
}

impl TfliteRequant {
    /// Computes the constants, in f64.
    pub fn new(mode: RequantMode, x: Affine, target: Target) -> Result<Self, RefmathError> {
        check_scale(x.scale)?;
        check_scale(target.scale)?;
        let multiplier = Q31::from_real(f64::from(x.scale) / f64::from(target.scale), mode)?;
        Ok(Self { mode, input_zp: x.zp, multiplier, target })
    }

    /// The constants of RELU and ABS, whose kernels divide in f32.
    pub fn of_function(mode: RequantMode, x: Affine, target: Target) -> Result<Self, RefmathError> {
        check_scale(x.scale)?;
        check_scale(target.scale)?;
        let multiplier = Q31::from_real(f64::from(x.scale / target.scale), mode)?;
        Ok(Self { mode, input_zp: x.zp, multiplier, target })
    }

    /// ABS: the output for the stored value `q`.
    #[inline]
    pub fn size(&self, q: i32) -> i32 {
        let size = i64::from(q).abs_diff(i64::from(self.input_zp));
        self.apply(saturate(i64::from(self.input_zp).saturating_add_unsigned(size)))
    }

    /// The output for the stored value `q`.
    #[inline]
    pub fn apply(&self, q: i32) -> i32 {
        let v = saturate(i64::from(q) - i64::from(self.input_zp));
        let y = self.multiplier.scale(v, self.mode);
        sat_i64(y + i64::from(self.target.zp), self.target.lo, self.target.hi)
    }
}

/// (C5) QUANTIZE of a real value; NaN gives the least value.
#[inline]
pub fn tflite_quantize(x: f32, to: Target) -> i32 {
    let t = libm::roundf(x / to.scale);
    if t.is_nan() {
        return to.lo;
    }
    let (least, most) = (f64::from(to.lo) - f64::from(to.zp), f64::from(to.hi) - f64::from(to.zp));
    f64::from(t).max(least).min(most) as i32 + to.zp
}

/// (C6) The multiplier of a mean over `n >= 1` elements.
pub fn tflite_mean_multiplier(xs: f32, ys: f32, n: u32, mode: RequantMode) -> Result<Q31, RefmathError> {
    check_scale(xs)?;
    check_scale(ys)?;
    let q = Q31::from_real(f64::from(xs) / f64::from(ys), mode)?;
    let n = i64::from(n.max(1));
    let k = (63 - n.leading_zeros() as i32).min(32).min(31 + q.shift).max(0);
    let multiplier = ((i64::from(q.multiplier) << k) / n) as i32;
    Ok(Q31 { multiplier, shift: q.shift - k })
}

/// (C4) The constants of LEAKY_RELU with `alpha >= 0`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TfliteLeakyRelu {
    /// `q31_double` or `q31_single`.
    pub mode: RequantMode,
    /// The zero point of the input.
    pub input_zp: i32,
    /// `Q31(fl32(xs / ys))`, for `q >= z`.
    pub identity: Q31,
    /// `Q31(fl32(fl32(xs * alpha) / ys))`, for `q < z`.
    pub negative: Q31,
    /// The output; its scale is already in the multipliers.
    pub target: Target,
}

impl TfliteLeakyRelu {
    /// Computes the constants.
    pub fn new(mode: RequantMode, x: Affine, alpha: f32, target: Target) -> Result<Self, RefmathError> {
        check_scale(x.scale)?;
        check_scale(target.scale)?;
        let identity = Q31::from_real(f64::from(x.scale / target.scale), mode)?;
        let negative = Q31::from_real(f64::from(x.scale * alpha / target.scale), mode)?;
        Ok(Self { mode, input_zp: x.zp, identity, negative, target })
    }

    /// The output for the stored value `q`.
    #[inline]
    pub fn apply(&self, q: i32) -> i32 {
        let v = saturate(i64::from(q) - i64::from(self.input_zp));
        let multiplier = if v >= 0 { self.identity } else { self.negative };
        let y = multiplier.scale(v, self.mode);
        sat_i64(y + i64::from(self.target.zp), self.target.lo, self.target.hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::testing::Rng;

    /// Values of LiteRT's reference kernels; quotients in f64 give the neighbours.
    #[test]
    fn c4_c5_quotients_are_single() {
        let (x, s16) = (Affine { scale: 0.001, zp: 0 }, Target { scale: 0.0007, zp: 0, lo: -32768, hi: 32767 });
        let size = TfliteRequant::of_function(RequantMode::Q31Double, x, s16).expect("valid");
        assert_eq!([size.size(-7), size.size(7), size.size(i32::MIN)], [10, 10, 32767]);
        let leaky = TfliteLeakyRelu::new(RequantMode::Q31Double, x, 0.3, s16).expect("valid");
        let found = [-27380, -26127, -7337, -26538, -2404, -28367].map(|q| leaky.apply(q));
        assert_eq!(found, [-11735, -11198, -3145, -11374, -1031, -12158]);
    }

    const S8: Target = Target { scale: 0.5, zp: 0, lo: -128, hi: 127 };
    const Q31_MODES: [RequantMode; 2] = [RequantMode::Q31Double, RequantMode::Q31Single];

    #[test]
    fn c1_constants() {
        let (a, b) = (Affine { scale: 0.5, zp: 1 }, Affine { scale: 0.25, zp: 2 });
        let add = TfliteAdd::new(RequantMode::Q31Double, 20, a, b, S8).expect("valid");
        assert_eq!(add.input[0], Q31 { multiplier: 1 << 30, shift: 0 }, "0.5 / T, T = 1");
        assert_eq!(add.input[1], Q31 { multiplier: 1 << 30, shift: -1 });
        assert_eq!(add.output, Q31 { multiplier: 1 << 30, shift: -18 }, "2^-19");
        // (9 - 1) * 0.5 + (6 - 2) * 0.25 = 5 = 10 * 0.5.
        assert_eq!([add.add(9, 6), add.sub(9, 6)], [10, 6]);
        let tiny = Target { scale: 1e-9, ..S8 };
        assert!(TfliteAdd::new(RequantMode::Q31Double, 20, a, b, tiny).is_err(), "left shift of the output");
        assert!(TfliteAdd::new(RequantMode::Q31Double, 20, Affine { scale: 0.0, zp: 0 }, b, S8).is_err());
    }

    #[test]
    fn c1_is_within_one_of_real_arithmetic() {
        let mut rng = Rng::new(91);
        for _ in 0..100_000 {
            let mode = Q31_MODES[rng.int(0, 1) as usize];
            let a = Affine { scale: rng.scale(), zp: rng.int(-128, 127) };
            let b = Affine { scale: rng.scale(), zp: rng.int(-128, 127) };
            let target = Target { scale: rng.scale(), zp: rng.int(-128, 127), ..S8 };
            let add = TfliteAdd::new(mode, TfliteAdd::SHIFT_8, a, b, target).expect("valid");
            let (p, q) = (rng.int(-128, 127), rng.int(-128, 127));
            let (x, y) = (f64::from(p - a.zp) * f64::from(a.scale), f64::from(q - b.zp) * f64::from(b.scale));
            let real = |v: f64| (v / f64::from(target.scale) + f64::from(target.zp)).clamp(-128.0, 127.0);
            // Half a unit of rounding, plus the fixed-point error of the shifted inputs.
            assert!((f64::from(add.add(p, q)) - real(x + y)).abs() <= 0.51, "{p} {a:?} {q} {b:?} {target:?}");
            assert!((f64::from(add.sub(p, q)) - real(x - y)).abs() <= 0.51);
        }
    }

    #[test]
    fn c1_s16_does_not_overflow() {
        let p = Affine { scale: 1.0, zp: 0 };
        let target = Target { scale: 2.0, zp: 0, lo: -32768, hi: 32767 };
        let add = TfliteAdd::new(RequantMode::Q31Single, TfliteAdd::SHIFT_16, p, p, target).expect("valid");
        assert_eq!(add.add(32767, 32767), 32767);
        assert_eq!(add.add(-32768, -32768), -32768);
        assert_eq!(add.sub(32767, -32768), 32767, "65535 / 2 rounds up and saturates");
    }

    #[test]
    fn c2_mul() {
        for mode in Q31_MODES {
            let m = tflite_mul_multiplier(0.5, 0.25, 0.5, mode).expect("valid");
            assert_eq!(tflite_mul([9, 6], [1, 2], m, mode, S8), 8, "{mode}");
            assert_eq!(tflite_mul([127, 127], [-128, -128], m, mode, S8), 127);
            assert!(tflite_mul_multiplier(0.5, f32::NAN, 0.5, mode).is_err());
        }
    }

    #[test]
    fn c3_average_rounds_half_away_from_zero() {
        for (acc, n, expect) in [(5, 2, 3), (-5, 2, -3), (7, 4, 2), (-7, 4, -2), (5, 4, 1), (0, 9, 0), (6, 4, 2)] {
            assert_eq!(tflite_average(acc, n, -128, 127), expect, "{acc} / {n}");
        }
        let mut rng = Rng::new(92);
        for _ in 0..50_000 {
            let (acc, n) = (rng.next_i32() >> 8, rng.int(1, 5000));
            let expect = libm::round(f64::from(acc) / f64::from(n));
            assert_eq!(f64::from(tflite_average(acc, n as u32, i32::MIN, i32::MAX)), expect);
        }
        assert_eq!(tflite_average(i32::MIN, 0, -128, 127), -128);
    }

    #[test]
    fn c5_changes_of_parameters_round_half_away() {
        let to = Target { scale: 1.0, zp: 3, ..S8 };
        for mode in Q31_MODES {
            let r = TfliteRequant::new(mode, Affine { scale: 0.5, zp: -1 }, to).expect("valid");
            assert_eq!([-1, 0, 1, 127].map(|q| r.apply(q)), [3, 4, 4, 67], "{mode}");
        }
        let values = [0.5, 1.5, -0.5, -1.5, 1e30, f32::NEG_INFINITY, f32::NAN];
        assert_eq!(values.map(|x| tflite_quantize(x, to)), [4, 5, 2, 1, 127, -128, -128]);
    }

    #[test]
    fn c6_mean_divides_the_multiplier() {
        let q = tflite_mean_multiplier(0.5, 0.5, 3, RequantMode::Q31Double).expect("valid");
        // 1 is (2^30, 1); k = 1: (2^31 / 3, 0).
        assert_eq!(q, Q31 { multiplier: 715_827_882, shift: 0 });
        assert_eq!(q.scale(30, RequantMode::Q31Double), 10);
        assert!(tflite_mean_multiplier(0.0, 0.5, 3, RequantMode::Q31Double).is_err());
    }

    #[test]
    fn c4_leaky_relu_uses_two_multipliers() {
        let x = Affine { scale: 0.5, zp: 3 };
        let relu = TfliteLeakyRelu::new(RequantMode::Q31Single, x, 0.25, S8).expect("valid");
        assert_eq!([3, 4, 13, -5, -37].map(|q| relu.apply(q)), [0, 1, 10, -2, -10]);
        assert!(TfliteLeakyRelu::new(RequantMode::Q31Single, x, -0.25, S8).is_err());
    }
}
