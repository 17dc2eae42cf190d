//! Scalar arithmetic of the numeric contract (sections 2 and 3), written so that the compiler can vectorise it.
//!
//! Every function is `inline(always)`: inside an AVX2 entry it becomes AVX2 code, elsewhere plain code, with the same bits, because
//! each step is one IEEE operation and nothing is contracted.

/// 1.5 * 2^23: adding it to |t| <= 2^21 rounds t to an integer, ties to even, in the low mantissa bits.
const MAGIC: f32 = 12_582_912.0;

/// `max(lo, t)` with NaN kept, as `maxps(lo, t)`.
#[inline(always)]
pub(crate) fn max_keep_nan(lo: f32, t: f32) -> f32 {
    if lo > t { lo } else { t }
}

/// `min(hi, t)` with NaN kept, as `minps(hi, t)`.
#[inline(always)]
pub(crate) fn min_keep_nan(hi: f32, t: f32) -> f32 {
    if hi < t { hi } else { t }
}

/// Clamps to `lo..=hi`; NaN stays NaN.
#[inline(always)]
pub(crate) fn clip(t: f32, lo: f32, hi: f32) -> f32 {
    min_keep_nan(hi, max_keep_nan(lo, t))
}

/// Round half to even of `t` clamped to `lo..=hi`; NaN gives `lo`. The bounds are integers of magnitude at most 2^21.
#[inline(always)]
pub(crate) fn rne_clamped(t: f32, lo: f32, hi: f32) -> i32 {
    let t = if t > lo { t } else { lo };
    let t = if t < hi { t } else { hi };
    ((t + MAGIC).to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32)
}

/// `(q - zp) * scale` of a stored byte; `flip` is 0x80 for s8 (turns it into u8 order), and `zp` is in that order.
#[inline(always)]
pub(crate) fn dequantize(byte: u8, flip: u8, zp: i32, scale: f32) -> f32 {
    (i32::from(byte ^ flip) - zp) as f32 * scale
}

/// Rounding doubling high multiplication by a Q31 multiplier: `(a * b + 2^30) >> 31`. The result fits 32 bits (-2^31 is no
/// multiplier), so that a logical shift gives the same ones as an arithmetic shift, which AVX2 lacks.
#[inline(always)]
pub(crate) fn srdhm(a: i32, b: i32) -> i32 {
    ((i64::from(a) * i64::from(b) + (1 << 30)) as u64 >> 31) as i32
}

/// Division by `2^e` (0 <= e <= 31), half away from zero.
#[inline(always)]
pub(crate) fn rdp(x: i32, e: u32) -> i32 {
    // 31 ones for e = 31; all in 32 bits, so that eight of them are one vector.
    let mask = 1i32.wrapping_shl(e).wrapping_sub(1);
    let half_up = (x & mask) > (mask >> 1) + i32::from(x < 0);
    x.wrapping_shr(e) + i32::from(half_up)
}

/// `q31_double` before the zero point; a left shift that overflows wraps (the compiler rejects such nodes).
#[cfg(test)]
fn q31_double(acc: i32, m: i32, shift: i32) -> i32 {
    let left = acc.wrapping_shl(shift.max(0) as u32);
    rdp(srdhm(left, m), (-shift).max(0) as u32)
}

/// `q31_single` before the zero point, as i64 because it may leave i32 before saturation.
#[inline(always)]
pub(crate) fn q31_single(acc: i32, m: i32, shift: i32) -> i64 {
    let product = i64::from(acc) * i64::from(m);
    let total = 31 - shift; // 1..=62 for the shifts that a plan accepts
    product.wrapping_add(1i64 << (total - 1)) >> total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `fp32_rne` for a range that never saturates in the examples.
    fn fp32_rne(acc: i32, m: f32) -> i32 {
        rne_clamped(acc as f32 * m, -1e6, 1e6)
    }

    #[test]
    fn worked_example_1_ties() {
        let acc: Vec<i32> = (-8..=8).collect();
        let float: Vec<i32> = acc.iter().map(|a| fp32_rne(*a, 0.5) + 1).collect();
        assert_eq!(float, [-3, -3, -2, -1, -1, -1, 0, 1, 1, 1, 2, 3, 3, 3, 4, 5, 5]);
        let expected = [-3, -2, -2, -1, -1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5];
        assert_eq!(acc.iter().map(|a| q31_double(*a, 1 << 30, 0) + 1).collect::<Vec<_>>(), expected);
        assert_eq!(acc.iter().map(|a| q31_single(*a, 1 << 30, 0) as i32 + 1).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn worked_example_2_double_rounding() {
        for (acc, float, single, double) in [(1, 0, 0, 1), (-6, -2, -1, -2), (2, 0, 1, 1)] {
            assert_eq!(fp32_rne(acc, 0.25), float);
            assert_eq!(q31_single(acc, 1 << 30, -1), single);
            assert_eq!(q31_double(acc, 1 << 30, -1), double);
        }
    }

    #[test]
    fn worked_example_3_the_mode_decides() {
        let m = f32::from_bits(0x3d58_ede4) * f32::from_bits(0x3cc5_6051) / f32::from_bits(0x3deb_32f4);
        assert_eq!(m.to_bits(), 0x3c36_0b61);
        assert_eq!(fp32_rne(585, m) - 126, -120);
        assert_eq!(q31_single(585, 1_527_099_593, -6) - 126, -119);
        assert_eq!(q31_double(585, 1_527_099_593, -6) - 126, -119);
    }

    #[test]
    fn worked_examples_4_and_5_extremes() {
        let m = 3 << 29; // 0.75
        assert_eq!(q31_single(i32::MAX, m, 0), 1_610_612_735);
        assert_eq!(q31_double(i32::MAX, m, 0), 1_610_612_735);
        assert_eq!(q31_double(i32::MIN, 1 << 30, 0), -1_073_741_824);
        assert_eq!(q31_single(i32::MIN, 1 << 30, 0), -1_073_741_824);
        assert_eq!(q31_double(i32::MIN, 1 << 30, -30), -1);
        assert_eq!(q31_single(i32::MIN, 1 << 30, -30), -1);
        assert_eq!(q31_single(i32::MIN, 1 << 30, 1), -2_147_483_648);
        assert_eq!([srdhm(i32::MIN, i32::MAX), srdhm(i32::MIN, 1 << 30)], [-i32::MAX, i32::MIN / 2]);
        assert_eq!([rdp(-5, 1), rdp(-3, 1), rdp(3, 1), rdp(5, 1), rdp(7, 0)], [-3, -2, 2, 3, 7]);
    }

    #[test]
    fn rounding_saturates_and_sends_nan_low() {
        for (t, want) in
            [(f32::NAN, -128), (f32::INFINITY, 127), (f32::NEG_INFINITY, -128), (1e30, 127), (2.5, 2), (3.5, 4)]
        {
            assert_eq!(rne_clamped(t, -128.0, 127.0), want, "{t}");
        }
    }

    #[test]
    fn clip_keeps_nan() {
        assert!(clip(f32::NAN, 0.0, 6.0).is_nan());
        assert_eq!([clip(-1.0, 0.0, 6.0), clip(7.0, 0.0, 6.0), clip(3.0, 0.0, 6.0)], [0.0, 6.0, 3.0]);
    }
}
