//! Element-wise operators on quantized values, ONNX forms (numerics.md section 4).
//!
//! * (C1) QDQ Add, Sub, Mul, Div: dequantize each input, one `fl32` operation, Quantize.
//! * (C2) com.microsoft QLinearAdd: the zero point is added *before* rounding.
//! * (C3) com.microsoft QLinearMul: likewise, with one multiplier.
//! * (C4) Averages: an i32 sum of `x - zx`, then section 3 with `m = fl32(xs / fl32(ys * n))`.
//! * (C5) Requantize (Concat, movers with unequal parameters, bridges): `sat(rne(fl32(fl32(xs*(x-zx)) / ys)) + zy)`.
//! * (C6) A bridge between u8 and s8 of equal scale, zero points 128 apart, is XOR 0x80.

use super::quantize::{Affine, Target};
use super::round::sat_rne_f32;

/// (C1) QDQ Add.
#[inline]
pub fn qdq_add(a: i32, pa: Affine, b: i32, pb: Affine, out: Target) -> i32 {
    out.quantize(pa.dequantize(a) + pb.dequantize(b))
}

/// (C1) QDQ Sub.
#[inline]
pub fn qdq_sub(a: i32, pa: Affine, b: i32, pb: Affine, out: Target) -> i32 {
    out.quantize(pa.dequantize(a) - pb.dequantize(b))
}

/// (C1) QDQ Mul.
#[inline]
pub fn qdq_mul(a: i32, pa: Affine, b: i32, pb: Affine, out: Target) -> i32 {
    out.quantize(pa.dequantize(a) * pb.dequantize(b))
}

/// (C1) QDQ Div. A divisor of 0 saturates; 0 / 0 is NaN and gives the least value.
#[inline]
pub fn qdq_div(a: i32, pa: Affine, b: i32, pb: Affine, out: Target) -> i32 {
    out.quantize(pa.dequantize(a) / pb.dequantize(b))
}

/// (C2) com.microsoft QLinearAdd:
/// `sat(rne(fl32(fl32(fl32(As*(A-Az)) + fl32(Bs*(B-Bz))) / Cs) + Cz))`, the last sum in f32 too.
#[inline]
pub fn qlinear_add(a: i32, pa: Affine, b: i32, pb: Affine, out: Target) -> i32 {
    let t = (pa.dequantize(a) + pb.dequantize(b)) / out.scale;
    sat_rne_f32(t + out.zp as f32, out.lo, out.hi)
}

/// (C3) The multiplier of [`qlinear_mul`]: `fl32(fl32(As * Bs) / Cs)`.
#[inline]
pub fn qlinear_mul_multiplier(a_scale: f32, b_scale: f32, c_scale: f32) -> f32 {
    a_scale * b_scale / c_scale
}

/// (C3) com.microsoft QLinearMul: `sat(rne(fl32(fl32(f32((A-Az)(B-Bz)) * m) + Cz)))`. The scale of `out` is in `m`.
#[inline]
pub fn qlinear_mul(a: i32, a_zp: i32, b: i32, b_zp: i32, m: f32, out: Target) -> i32 {
    let product = (i64::from(a) - i64::from(a_zp)).wrapping_mul(i64::from(b) - i64::from(b_zp));
    sat_rne_f32(product as f32 * m + out.zp as f32, out.lo, out.hi)
}

/// (C4) `fl32(xs / fl32(ys * n))`: the multiplier of an average over `n` taps; `n = 1` is a sum.
#[inline]
pub fn average_multiplier(xs: f32, ys: f32, n: u32) -> f32 {
    xs / (ys * n as f32)
}

/// (C5) The value of `q` in other parameters.
///
/// Always the formula; callers copy where the parameters are equal, which gives the same integers.
#[inline]
pub fn requantize(q: i32, from: Affine, to: Target) -> i32 {
    to.quantize(from.dequantize(q))
}

/// (C6) u8 to s8 or back.
#[inline]
pub fn flip_sign(byte: u8) -> u8 {
    byte ^ 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::testing::Rng;

    const fn u8_target(scale: f32, zp: i32) -> Target {
        Target { scale, zp, lo: 0, hi: 255 }
    }

    /// fl32 of an operation on f32 operands: f64 holds sums and products of f32 well enough to round once.
    fn fl32(exact: f64) -> f64 {
        f64::from(exact as f32)
    }

    fn dq(q: i32, p: Affine) -> f64 {
        fl32(f64::from(q - p.zp) * f64::from(p.scale))
    }

    fn quant(v: f64, out: Target) -> i32 {
        let t = fl32(v / f64::from(out.scale)).round_ties_even() + f64::from(out.zp);
        if v.is_nan() { out.lo } else { t.clamp(out.lo.into(), out.hi.into()) as i32 }
    }

    #[test]
    fn c1_qdq_equals_the_f32_sequence() {
        let mut rng = Rng::new(81);
        for _ in 0..200_000 {
            let pa = Affine { scale: rng.scale(), zp: rng.int(0, 255) };
            let pb = Affine { scale: rng.scale(), zp: rng.int(0, 255) };
            let out = u8_target(rng.scale(), rng.int(0, 255));
            let (a, b) = (rng.int(0, 255), rng.int(0, 255));
            let (x, y) = (dq(a, pa), dq(b, pb));
            assert_eq!(qdq_add(a, pa, b, pb, out), quant(fl32(x + y), out));
            assert_eq!(qdq_sub(a, pa, b, pb, out), quant(fl32(x - y), out));
            assert_eq!(qdq_mul(a, pa, b, pb, out), quant(fl32(x * y), out));
            assert_eq!(qdq_div(a, pa, b, pb, out), quant(fl32(x / y), out));
        }
    }

    #[test]
    fn c1_division_by_zero_saturates() {
        let p = Affine { scale: 0.5, zp: 3 };
        let out = u8_target(1.0, 10);
        assert_eq!(qdq_div(5, p, 3, p, out), 255);
        assert_eq!(qdq_div(1, p, 3, p, out), 0);
        assert_eq!(qdq_div(3, p, 3, p, out), 0, "0 / 0");
    }

    #[test]
    fn c2_c3_round_after_the_zero_point() {
        // Worked example 1 of section 3, third row: multiplier 0.5, zero point 1.
        let expect = [-3, -2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5];
        let out = Target { scale: 2.0, zp: 1, lo: -128, hi: 127 };
        let unit = Affine { scale: 1.0, zp: 0 };
        for (i, acc) in (-8..=8).enumerate() {
            assert_eq!(qlinear_add(acc, unit, 0, unit, out), expect[i], "add {acc}");
            let m = qlinear_mul_multiplier(1.0, 1.0, 2.0);
            assert_eq!(qlinear_mul(acc, 0, 1, 0, m, out), expect[i], "mul {acc}");
        }
        // QDQ Add of the same values rounds first.
        assert_eq!(qdq_add(1, unit, 0, unit, out), 1);
        assert_eq!(qlinear_add(1, unit, 0, unit, out), 2);
    }

    #[test]
    fn c2_c3_equal_slow_arithmetic() {
        let mut rng = Rng::new(82);
        for _ in 0..200_000 {
            let pa = Affine { scale: rng.scale(), zp: rng.int(0, 255) };
            let pb = Affine { scale: rng.scale(), zp: rng.int(0, 255) };
            let out = u8_target(rng.scale(), rng.int(0, 255));
            let (a, b) = (rng.int(0, 255), rng.int(0, 255));
            let quotient = fl32(fl32(dq(a, pa) + dq(b, pb)) / f64::from(out.scale));
            let add = fl32(quotient + f64::from(out.zp)).round_ties_even().clamp(0.0, 255.0);
            assert_eq!(f64::from(qlinear_add(a, pa, b, pb, out)), add);
            let m = qlinear_mul_multiplier(pa.scale, pb.scale, out.scale);
            let product = f64::from((a - pa.zp) * (b - pb.zp));
            let mul = fl32(fl32(product * f64::from(m)) + f64::from(out.zp)).round_ties_even().clamp(0.0, 255.0);
            assert_eq!(f64::from(qlinear_mul(a, pa.zp, b, pb.zp, m, out)), mul);
        }
    }

    #[test]
    fn c4_average_multiplier() {
        assert_eq!(average_multiplier(0.5, 0.25, 4), 0.5);
        assert_eq!(average_multiplier(0.1, 0.3, 49), 0.1 / (0.3_f32 * 49.0));
        assert_eq!(average_multiplier(0.1, 0.3, 1), 0.1_f32 / 0.3);
    }

    #[test]
    fn c5_equal_parameters_copy() {
        let mut rng = Rng::new(83);
        for _ in 0..1000 {
            let (scale, zp) = (rng.scale(), rng.int(0, 255));
            for q in 0..=255 {
                assert_eq!(requantize(q, Affine { scale, zp }, u8_target(scale, zp)), q);
            }
        }
        let from = Affine { scale: 0.5, zp: 0 };
        assert_eq!(requantize(3, from, u8_target(1.0, 1)), 3, "1.5 rounds to 2, then the zero point");
    }

    #[test]
    fn c6_sign_flip_is_the_requantization() {
        for q in 0..=255_u8 {
            let to = Target { scale: 0.1, zp: 5 - 128, lo: -128, hi: 127 };
            let expect = requantize(q.into(), Affine { scale: 0.1, zp: 5 }, to);
            assert_eq!(i32::from(flip_sign(q) as i8), expect);
        }
    }
}
