//! Transcendental functions on 16-bit fixed-point numbers, as the integer LSTM uses them (numerics.md section 11).
//!
//! `Qi.f` is an s16 with `i` integer and `f = 15 - i` fractional bits. The functions are those of TFLite's reference
//! kernels (gemmlowp's `fixedpoint.h`): every step is a 16-bit operation, so every device can repeat it exactly.
//!
//! * (C1) `exp` of a value <= 0: a polynomial of degree 4 around -1/8 for what is left of the value modulo 1/4, times
//!   a constant `exp(-2^k)` for every bit k of the rest.
//! * (C2) `1 / ((1 + x) / 2)` for x in [0, 1]: three steps of Newton's iteration from `48/17 - 32/17 d`.
//! * (C3) `logistic(a) = 1 / (1 + exp(-|a|))`, or 1 minus that; `tanh(a) = (1 - e) / (1 + e)` with `e = exp(-2|a|)`.

use super::round::rdp;

const MAX: i32 = i16::MAX as i32;
const MIN: i32 = i16::MIN as i32;
/// 1 in Q2.13.
const ONE_Q2: i32 = 1 << 13;

/// `exp(-2^k)` in Q0.31 for k = -2 ..= 4.
const EXP_OF_BIT: [(i32, i32); 7] = [
    (-2, 1_672_461_947),
    (-1, 1_302_514_674),
    (0, 790_015_084),
    (1, 290_630_308),
    (2, 39_332_535),
    (3, 720_401),
    (4, 242),
];

/// The most integer bits that [`tanh`] takes.
pub const MAX_INTEGER_BITS: u32 = 6;

/// `(a*b + 2^14) >> 15`, saturated: the product of two fractions.
#[inline]
fn mul(a: i32, b: i32) -> i32 {
    ((a * b + (1 << 14)) >> 15).min(MAX)
}

/// Addition modulo 2^16.
#[inline]
fn wrap(v: i32) -> i32 {
    i32::from(v as i16)
}

/// `v * 2^e`, saturated.
#[inline]
fn shl(v: i32, e: u32) -> i32 {
    (v << e.min(15)).clamp(MIN, MAX)
}

/// A constant of 32 bits in 16.
const fn short(v: i32) -> i32 {
    (v + (1 << 15)) >> 16
}

/// (C1) `exp(a)` in Q0.15 for a in [-1/4, 0) as Q0.15.
fn exp_of_quarter(a: i32) -> i32 {
    let (eighth, third) = (short(1_895_147_668), short(715_827_883));
    let x = wrap(a + (1 << 12));
    let x2 = mul(x, x);
    let (x3, x4) = (mul(x2, x), mul(x2, x2));
    let tail = mul(wrap(rdp(x4, 2) + x3), third);
    let series = rdp(wrap(tail + x2), 1);
    (eighth + mul(eighth, wrap(x + series))).clamp(MIN, MAX)
}

/// (C1) `exp(a)` in Q0.15 for `a <= 0` in a format of 1 to 7 integer bits; a larger `a` counts as 0.
pub fn exp_of_negative(a: i16, integer_bits: u32) -> i16 {
    let (a, bits) = (i32::from(a), integer_bits.clamp(1, 7));
    if a >= 0 {
        return i16::MAX;
    }
    let fraction_bits = 15 - bits as i32;
    let quarter = 1 << (fraction_bits - 2);
    let small = (a & (quarter - 1)) - quarter;
    let rest = small - a;
    let mut result = exp_of_quarter(shl(small, bits));
    for (exponent, factor) in EXP_OF_BIT {
        if bits as i32 > exponent && rest & (1 << (fraction_bits + exponent)) != 0 {
            // The constants are positive; the smallest becomes 0 in 16 bits.
            result = mul(result, short(factor));
        }
    }
    if bits > 5 && a < -(1 << (20 - bits)) {
        result = 0;
    }
    result as i16
}

/// (C2) `2 / (1 + a)` in Q2.13 for a in [0, 1) as Q0.15.
fn reciprocal(a: i32) -> i32 {
    // The sum is positive, so half of it rounds up.
    let half = (a + MAX + 1) / 2;
    let mut x = wrap(short(1_515_870_810) + mul(half, -short(1_010_580_540)));
    for _ in 0..3 {
        let error = wrap(ONE_Q2 - mul(half, x));
        x = wrap(x + shl(mul(x, error), 2));
    }
    x
}

/// (C3) The logistic function, Q3.12 to Q0.15.
pub fn logistic(a: i16) -> i16 {
    if a == 0 {
        return 1 << 14;
    }
    let e = exp_of_negative(if a > 0 { -a } else { a }, 3);
    let positive = shl(reciprocal(e.into()), 1);
    (if a > 0 { positive } else { MAX - positive }) as i16
}

/// (C3) The hyperbolic tangent, from a format of 0 to 6 integer bits to Q0.15.
pub fn tanh(a: i16, integer_bits: u32) -> i16 {
    if a == 0 {
        return 0;
    }
    let e = exp_of_negative(if a > 0 { -a } else { a }, integer_bits.min(MAX_INTEGER_BITS) + 1);
    let t = shl(wrap(reciprocal(e.into()) - ONE_Q2), 2);
    (if a > 0 { t } else { wrap(-t) }) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_worked_values() {
        assert_eq!(exp_of_negative(0, 3), i16::MAX);
        assert_eq!(exp_of_negative(5, 3), i16::MAX);
        // exp(-1) = 0.36788 = 12055 / 32768.
        assert!((i32::from(exp_of_negative(-4096, 3)) - 12_055).abs() <= 4);
        assert_eq!(exp_of_negative(i16::MIN, 7), 0);
    }

    #[test]
    fn c3_worked_values() {
        WORKED.iter().for_each(|&(a, sigmoid, hyperbolic)| {
            assert_eq!((logistic(a), tanh(a, 3)), (sigmoid, hyperbolic), "{a}");
        });
    }

    #[test]
    fn c3_is_close_to_the_real_functions_for_every_value() {
        for a in i16::MIN..=i16::MAX {
            let x = f64::from(a) / 4096.0;
            let sigmoid = 1.0 / (1.0 + libm::exp(-x)) * 32768.0;
            assert!((f64::from(logistic(a)) - sigmoid).abs() <= 6.5, "logistic({a})");
            assert!((f64::from(tanh(a, 3)) - libm::tanh(x) * 32768.0).abs() <= 12.0, "tanh({a})");
        }
    }

    #[test]
    fn c3_all_formats_are_close_and_odd() {
        for bits in 0..=MAX_INTEGER_BITS {
            for a in (0..=i16::MAX).step_by(37) {
                let x = f64::from(a) / f64::from(1 << (15 - bits));
                assert!((f64::from(tanh(a, bits)) - libm::tanh(x) * 32768.0).abs() <= 40.0, "{bits} {a}");
                assert_eq!(tanh(a, bits), -tanh(-a, bits));
            }
        }
    }

    /// Argument in Q3.12, logistic, hyperbolic tangent: the values of TFLite's reference kernels.
    const WORKED: [(i16, i16, i16); 11] = [
        (-32768, 11, -32767),
        (-20000, 243, -32767),
        (-4096, 8815, -24964),
        (-1000, 14391, -7840),
        (-1, 16383, -8),
        (0, 16384, 0),
        (1, 16384, 8),
        (777, 17932, 6144),
        (4096, 23952, 24964),
        (12288, 31216, 32612),
        (32767, 32756, 32767),
    ];

    #[test]
    fn c3_every_value_is_that_of_the_definition() {
        // Sums over all arguments with weights 1..=97; a program written from the definition alone gives the same.
        let sum = |f: &dyn Fn(i16) -> i16| -> i64 {
            let weight = |i: usize| (i % 97 + 1) as i64;
            (i16::MIN..=i16::MAX).enumerate().map(|(i, a)| i64::from(f(a)) * weight(i)).sum()
        };
        assert_eq!(sum(&logistic), 52_600_694_947);
        let expected = [10_453_036, 13_336_428, 13_880_248, 13_799_484, 13_835_637, 13_772_233, 13_787_750];
        for (bits, expected) in (0..).zip(expected) {
            assert_eq!(sum(&|a| tanh(a, bits)), expected, "{bits} integer bits");
        }
    }
}
