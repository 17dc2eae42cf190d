//! SOFTMAX of imported TFLite models: the fixed-point arithmetic of its reference kernel (numerics.md section 4).
//!
//! Facts from `tensorflow/lite/kernels/internal/reference/softmax.h` and gemmlowp's `fixedpoint.h`. `Qi.f` has `i` bits
//! before the binary point, `a ⊗ b` is SRDHM.
//!
//! * (C1) Differences `d = q - max` become Q5.26: `d * 2^s ⊗ M` with `M * 2^s = min(beta * xs * 2^26, 2^31 - 1)`; differences
//!   below `-floor(31 * 2^26 / 2^s)` count as minus infinity.
//! * (C2) `exp` in Q0.31: a polynomial on [-1/4, 0), then a factor `exp(-2^k)` for each bit of the rest.
//! * (C3) The sum in Q12.19 of `RDP(exp, 12)`; its reciprocal by three Newton steps.
//! * (C4) `y = sat(RDP(reciprocal ⊗ exp, bits + 23) + least)`: the output has scale 1/256 and its least value as zero point.
//!
//! Sums that leave 32 bits (more than 4095 elements of a row as large as the maximum) saturate.

use super::error::{RefmathError, check_scale};
use super::quantize::Target;
use super::round::{rdp, srdhm};
use super::stored::Stored;

/// (C2) Factors `exp(-2^k)` in Q0.31 and the bit of Q5.26 that asks for each, k = -2..=4.
const FACTORS: [(u32, i32); 7] = [
    (24, 1_672_461_947),
    (25, 1_302_514_674),
    (26, 790_015_084),
    (27, 290_630_308),
    (28, 39_332_535),
    (29, 720_401),
    (30, 242),
];
/// One quarter in Q5.26.
const QUARTER: i32 = 1 << 24;
/// 1 in Q2.29.
const ONE_Q2: i32 = 1 << 29;
/// Bits before the binary point of the sum.
const SUM_BITS: i32 = 12;

/// The constants of a SOFTMAX operator on 8 bits.
#[derive(Clone, Debug, PartialEq)]
pub struct TfliteSoftmax {
    /// (C2) `exp` by the difference from the maximum, 0..=255.
    pub table: [i32; 256],
    /// (C1) The first difference that counts as minus infinity.
    pub end: usize,
    /// The least output value, which is also the zero point.
    pub lo: i32,
    /// The greatest output value.
    pub hi: i32,
}

impl TfliteSoftmax {
    /// Whether an output is the one that TFLite prescribes (C4).
    pub fn fits(to: Target) -> bool {
        to.scale == 1.0 / 256.0 && to.zp == to.lo
    }

    /// (C1, C2) Computes the constants for input scale `xs` and the range of the output.
    pub fn new(xs: f32, beta: f32, (lo, hi): (i32, i32)) -> Result<Self, RefmathError> {
        check_scale(xs)?;
        check_scale(beta)?;
        let real = (f64::from(beta) * f64::from(xs) * 67_108_864.0).min(2_147_483_647.0);
        let (fraction, mut shift) = libm::frexp(real);
        let mut multiplier = libm::round(fraction * 2_147_483_648.0);
        if multiplier >= 2_147_483_648.0 {
            (multiplier, shift) = (multiplier / 2.0, shift + 1);
        }
        let shift = shift.clamp(0, 31) as u32;
        let radius = libm::floor(31.0 * 67_108_864.0 / libm::exp2(f64::from(shift)));
        let mut out = Self { table: [0; 256], end: (radius as usize).saturating_add(1).min(256), lo, hi };
        for (entry, d) in out.table.iter_mut().zip(0_i64..).take(out.end) {
            let shifted = (-d << shift).max(i32::MIN.into()) as i32;
            *entry = exp_of_negative(srdhm(shifted, multiplier as i32));
        }
        Ok(out)
    }

    /// (C3, C4) The Softmax of one row into `out`. Fails, before it writes anything, if the lengths differ.
    pub fn row<X: Stored, Y: Stored>(&self, x: &[X], out: &mut [Y]) -> Result<(), RefmathError> {
        if out.len() != x.len() {
            let what = "the output row of SOFTMAX";
            return Err(RefmathError::Length { what, found: out.len(), expected: x.len() });
        }
        let Some(max) = x.iter().map(|v| (*v).into()).max() else { return Ok(()) };
        let difference = |v: X| (i64::from(max) - i64::from(v.into())).clamp(0, 255) as usize;
        let part = |v: X| if difference(v) < self.end { rdp(self.table[difference(v)], SUM_BITS as u32) } else { 0 };
        let sum = x.iter().fold(0_i32, |sum, v| sum.saturating_add(part(*v)));
        let (scale, bits) = reciprocal(sum.max(1));
        for (y, v) in out.iter_mut().zip(x) {
            let d = difference(*v);
            *y = Y::from_i32(if d < self.end { self.value(scale, bits, self.table[d]) } else { self.lo });
        }
        Ok(())
    }

    /// (C4) The output for one exponential.
    #[inline]
    fn value(&self, scale: i32, bits: i32, exp: i32) -> i32 {
        let shift = (bits + 23).max(0);
        let y = if shift > 31 { 0 } else { rdp(srdhm(scale, exp), shift as u32) };
        y.saturating_add(self.lo).max(self.lo).min(self.hi)
    }
}

/// (C2) `exp` of a value `<= 0` in Q5.26.
fn exp_of_negative(a: i32) -> i32 {
    if a >= 0 {
        return i32::MAX;
    }
    let base = (a & (QUARTER - 1)) - QUARTER;
    let rest = base.wrapping_sub(a);
    let mut y = exp_near_zero(base << 5);
    for (bit, factor) in FACTORS {
        if rest >> bit & 1 != 0 {
            y = srdhm(y, factor);
        }
    }
    y
}

/// (C2) `exp` on [-1/4, 0) in Q0.31: the Taylor series about -1/8.
fn exp_near_zero(a: i32) -> i32 {
    const EXP_OF_MINUS_EIGHTH: i32 = 1_895_147_668;
    const THIRD: i32 = 715_827_883;
    let x = a.wrapping_add(1 << 28);
    let x2 = srdhm(x, x);
    let (x3, x4) = (srdhm(x2, x), srdhm(x2, x2));
    let high = rdp(srdhm(rdp(x4, 2).wrapping_add(x3), THIRD).wrapping_add(x2), 1);
    EXP_OF_MINUS_EIGHTH.wrapping_add(srdhm(EXP_OF_MINUS_EIGHTH, x.wrapping_add(high)))
}

/// (C3) The reciprocal of a positive value in Q12.19: in Q0.31 of the value scaled to [1, 2), and the bits that it is above 1.
fn reciprocal(x: i32) -> (i32, i32) {
    let headroom = x.leading_zeros();
    let fraction = ((x as u32) << headroom).wrapping_sub(1 << 31) as i32;
    (reciprocal_of_one_plus(fraction), SUM_BITS - headroom as i32)
}

/// (C3) `1 / (1 + a)` for `a` in [0, 1), Q0.31.
fn reciprocal_of_one_plus(a: i32) -> i32 {
    const A: i32 = 1_515_870_810;
    const B: i32 = -1_010_580_540;
    let sum = i64::from(a) + i64::from(i32::MAX);
    let half = ((sum + if sum >= 0 { 1 } else { -1 }) / 2) as i32;
    let mut x = A.wrapping_add(srdhm(half, B));
    for _ in 0..3 {
        let error = ONE_Q2.wrapping_sub(srdhm(half, x));
        x = x.wrapping_add(shifted_left(srdhm(x, error), 2));
    }
    shifted_left(x, 1)
}

/// `x * 2^n`, saturated.
fn shifted_left(x: i32, n: u32) -> i32 {
    (i64::from(x) << n).clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::testing::Rng;

    #[test]
    fn c2_exp_is_close_to_the_real_one() {
        assert_eq!(exp_of_negative(0), i32::MAX);
        for i in 1..20_000_i32 {
            let a = -i * 100_003;
            let expect = libm::exp(f64::from(a) / 67_108_864.0) * 2_147_483_648.0;
            assert!((f64::from(exp_of_negative(a)) - expect).abs() < 600.0, "{a}");
        }
    }

    #[test]
    fn c3_reciprocal_is_close_to_the_real_one() {
        let mut rng = Rng::new(7);
        for _ in 0..50_000 {
            let x = rng.int(1 << 19, i32::MAX);
            let (scale, bits) = reciprocal(x);
            let real = f64::from(scale) / 2_147_483_648.0 / libm::exp2(f64::from(bits));
            let expect = 524_288.0 / f64::from(x);
            assert!((real / expect - 1.0).abs() < 1e-7, "{x}: {real} {expect}");
        }
    }

    #[test]
    fn c4_rows_are_within_one_step_of_the_real_softmax() {
        let mut rng = Rng::new(8);
        for _ in 0..2_000 {
            let xs = 0.01 + 0.2 * (rng.int(0, 1000) as f32 / 1000.0);
            let softmax = TfliteSoftmax::new(xs, 1.0, (-128, 127)).expect("valid");
            let x: Vec<i32> = (0..rng.int(1, 40)).map(|_| rng.int(-128, 127)).collect();
            let mut y = vec![0_i32; x.len()];
            softmax.row(&x, &mut y).expect("equal lengths");
            let max = x.iter().copied().max().unwrap_or(0);
            let e: Vec<f64> = x.iter().map(|q| libm::exp(f64::from(q - max) * f64::from(xs))).collect();
            let sum: f64 = e.iter().sum();
            for (y, e) in y.iter().zip(&e) {
                let real = (e / sum * 256.0 - 128.0).min(127.0);
                assert!((f64::from(*y) - real).abs() <= 1.0, "{y} {real}");
            }
        }
    }

    #[test]
    fn long_rows_and_extreme_scales_do_not_overflow() {
        for xs in [1e-9_f32, 1e6, 0.1] {
            let softmax = TfliteSoftmax::new(xs, 1.0, (0, 255)).expect("valid");
            let x = vec![9_u8; 10_000];
            let mut y = vec![1_u8; 10_000];
            softmax.row(&x, &mut y).expect("equal lengths");
            assert!(y.iter().all(|v| *v == 0));
            assert!(softmax.row(&x, &mut y[1..]).is_err());
        }
        assert!(TfliteSoftmax::new(0.0, 1.0, (0, 255)).is_err());
        let lo = Target { scale: 1.0 / 256.0, zp: -128, lo: -128, hi: 127 };
        assert!(TfliteSoftmax::fits(lo) && !TfliteSoftmax::fits(Target { zp: 0, ..lo }));
    }
}
