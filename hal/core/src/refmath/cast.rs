//! Casts between float and integer types (numerics.md section 7).
//!
//! * (C1) f32 -> integer truncates and saturates; NaN gives 0.
//! * (C2) f32 -> f16/bf16 rounds to nearest even, overflows to infinity, keeps subnormals, and a NaN stays a quiet NaN.

use half::{bf16, f16};

/// (C1) f32 to an integer type of range `[lo, hi]`.
#[inline]
pub fn f32_to_int(x: f32, lo: i64, hi: i64) -> i64 {
    // `as` truncates, saturates and maps NaN to 0.
    (x as i64).max(lo).min(hi)
}

/// (C1) f32 to u64, whose upper half `f32_to_int` cannot express.
#[inline]
pub fn f32_to_u64(x: f32) -> u64 {
    x as u64
}

/// (C2) f32 to f16.
#[inline]
pub fn f32_to_f16(x: f32) -> f16 {
    f16::from_f32(x)
}

/// (C2) f32 to bf16.
#[inline]
pub fn f32_to_bf16(x: f32) -> bf16 {
    bf16::from_f32(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::testing::Rng;

    #[test]
    fn c1_truncates_and_saturates() {
        let s8 = |x| f32_to_int(x, -128, 127);
        let cases = [(1.9, 1), (-1.9, -1), (127.9, 127), (300.0, 127), (-300.0, -128), (f32::NAN, 0)];
        for (x, expect) in cases {
            assert_eq!(s8(x), expect, "{x}");
        }
        assert_eq!(f32_to_int(f32::INFINITY, i64::MIN, i64::MAX), i64::MAX);
        assert_eq!(f32_to_int(-1.5, 0, 255), 0);
        assert_eq!(f32_to_u64(f32::INFINITY), u64::MAX);
        assert_eq!(f32_to_u64(-3.0), 0);
        assert_eq!(f32_to_u64(1e19), 9_999_999_980_506_447_872);
    }

    #[test]
    fn c2_special_values() {
        assert_eq!(f32_to_f16(65519.0).to_bits(), 0x7bff);
        assert_eq!(f32_to_f16(65520.0).to_bits(), 0x7c00, "a tie that overflows");
        assert_eq!(f32_to_f16(6e-8).to_bits(), 1, "the least subnormal");
        assert_eq!(f32_to_f16(2049.0).to_f32(), 2048.0);
        assert_eq!(f32_to_bf16(f32::MAX).to_bits(), 0x7f80);
        assert_eq!(f32_to_bf16(257.0).to_f32(), 256.0);
        assert_eq!(f32_to_bf16(f32::from_bits(0x0001_0000)).to_bits(), 1);
        for signalling in [0x7f80_0001_u32, 0xffbf_ffff] {
            let nan = f32::from_bits(signalling);
            assert_eq!(f32_to_f16(nan).to_bits() & 0x7e00, 0x7e00);
            assert_eq!(f32_to_bf16(nan).to_bits() & 0x7fc0, 0x7fc0);
        }
    }

    /// Nearest of the 16-bit neighbours by exact comparison in f64; `to` maps bits of a non-negative value.
    fn nearest(x: f64, to: impl Fn(u16) -> f64) -> u16 {
        let (mut lo, mut hi) = (0_u16, 0x7c00);
        if to(0x7c00).is_finite() {
            hi = 0x7f80;
        }
        while hi - lo > 1 {
            let mid = lo + (hi - lo) / 2;
            if to(mid) <= x { lo = mid } else { hi = mid }
        }
        let (below, above) = (x - to(lo), to(hi) - x);
        if below < above || (below == above && lo % 2 == 0) { lo } else { hi }
    }

    #[test]
    fn c2_rounds_to_nearest_even() {
        let mut rng = Rng::new(31);
        for _ in 0..20_000 {
            let x = libm::exp2(rng.real(-26.0, 15.9)) as f32;
            assert_eq!(f32_to_f16(x).to_bits(), nearest(x.into(), |b| f16::from_bits(b).to_f64()), "{x}");
            let x = libm::exp2(rng.real(-136.0, 120.0)) as f32;
            assert_eq!(f32_to_bf16(x).to_bits(), nearest(x.into(), |b| bf16::from_bits(b).to_f64()), "{x}");
        }
    }
}
