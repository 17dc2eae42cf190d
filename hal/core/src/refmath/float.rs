//! The project's own f32 transcendental functions (numerics.md section 7).
//!
//! Each function is a *named sequence*: the operations below, in this order, every one a single IEEE binary32
//! operation rounded to nearest even. A vector kernel repeats them lane by lane and gets the same bits. The rules
//! that make this possible:
//!
//! * (C1) only `+ - * /`, comparisons with a select, integer shifts and adds on the bits, and f32 -> i32 conversions
//!   of values that are integers already; no table, no fused multiply-add, no data-dependent branch;
//! * (C2) polynomials are evaluated by Horner's rule, highest coefficient first;
//! * (C3) at most 2 ulp from the exact value over all of f32, subnormal results included;
//! * (C4) NaN in gives a NaN out (its payload is not specified); infinities and signed zeros as in IEEE 754 / C.
//!
//! `if` expressions here have no side effects and both sides are defined for every input, so each is a select.
//! A compiler must not contract `a * b + c`; Rust does not.

pub use super::cast::{f32_to_bf16, f32_to_f16, f32_to_int, f32_to_u64};
pub use super::rows::{
    dot, gemm_epilogue, layer_norm_row, log_softmax_row, max, mean, min, relu, rms_norm_row, softmax_row, sum, variance,
};

/// `1.5 * 2^23`: adding and subtracting it rounds a small f32 to an integer, ties to even.
const ROUND_MAGIC: f32 = 12_582_912.0;
/// The upper 10 bits of ln 2, so that its product with an exponent is exact.
const LN2_HI: f32 = f32::from_bits(0x3f31_8000);
/// `ln 2 - LN2_HI`.
const LN2_LO: f32 = f32::from_bits(0xb95e_8083);
const LOG2_E: f32 = f32::from_bits(0x3fb8_aa3b);

/// `(e^r - 1 - r) / r^2` on `|r| <= ln 2 / 2`, lowest coefficient first. Relative error of `e^r`: 2^-28.
const EXP: [f32; 5] = bits([0x3eff_fffe, 0x3e2a_aa49, 0x3d2a_ac57, 0x3c09_1cc4, 0x3ab5_27c7]);
/// `(ln(1+f) - f + f^2/2) / f^3` on `sqrt(1/2) - 1 <= f <= sqrt(2) - 1`.
const LOG: [f32; 8] =
    bits([0x3eaa_aaaa, 0xbe80_0113, 0x3e4c_d00e, 0xbe2a_3946, 0x3e11_6c9b, 0xbe06_c119, 0x3e02_af30, 0xbd9c_6484]);
/// `(tanh(a)/a - 1) / a^2` as a polynomial in `a^2`, `a <= 0.625`.
const TANH: [f32; 5] = bits([0xbeaa_aa99, 0x3e08_837b, 0xbd5c_1ad2, 0x3ca8_fc67, 0xbbba_8671]);
/// `erf(a)/a - 1` as a polynomial in `a^2`, `a <= 1`.
const ERF_SMALL: [f32; 7] =
    bits([0x3e03_75d4, 0xbec0_939f, 0x3de7_1673, 0xbcdb_fb8d, 0x3ba9_f912, 0xba51_a8af, 0x38a3_b8ff]);
/// `ln(1 - erf(a))` as a polynomial in `a`, `1 <= a <= 4`.
const ERF_LARGE: [f32; 7] =
    bits([0xb9b3_1156, 0xbf90_4475, 0xbf23_5d76, 0xbdd3_29a6, 0x3cb2_e5cb, 0xbb41_2d9b, 0x3943_6ed5]);

/// Coefficients from their bit patterns, which leave no doubt about decimal conversion.
const fn bits<const N: usize>(patterns: [u32; N]) -> [f32; N] {
    let mut out = [0.0; N];
    let mut i = 0;
    while i < N {
        out[i] = f32::from_bits(patterns[i]);
        i += 1;
    }
    out
}

/// (C2) `c[0] + x*(c[1] + x*(c[2] + ...))`: per step one multiplication, then one addition.
#[inline]
fn horner<const N: usize>(x: f32, c: &[f32; N]) -> f32 {
    let mut y = c[N - 1];
    for &coefficient in c[..N - 1].iter().rev() {
        y = y * x + coefficient;
    }
    y
}

/// `2^k` for `-126 <= k <= 127`.
#[inline]
fn exp2_int(k: i32) -> f32 {
    f32::from_bits(((k + 127) << 23) as u32)
}

/// `e^x`.
///
/// ```text
/// c = x > 89 ? 89 : x;  c = c < -105 ? -105 : c
/// n = (c * LOG2_E + MAGIC) - MAGIC             nearest integer
/// r = (c - n * LN2_HI) - n * LN2_LO            n * LN2_HI is exact
/// y = 1 + (r + (r * r) * EXP(r))
/// k = int(n), k1 = k >> 1, k2 = k - k1
/// e^x = (y * 2^k1) * 2^k2                      only the last product can round or overflow
/// ```
#[inline]
pub fn exp(x: f32) -> f32 {
    let c = if x > 89.0 { 89.0 } else { x };
    let c = if c < -105.0 { -105.0 } else { c };
    let n = (c * LOG2_E + ROUND_MAGIC) - ROUND_MAGIC;
    let r = (c - n * LN2_HI) - n * LN2_LO;
    let y = 1.0 + (r + (r * r) * horner(r, &EXP));
    let k = n as i32;
    let k1 = k >> 1;
    (y * exp2_int(k1)) * exp2_int(k - k1)
}

/// The natural logarithm; -inf for zeros, NaN for negative values.
///
/// ```text
/// tiny = x < 2^-126;  v = tiny ? x * 2^23 : x
/// b = bits(v) + (0x3f800000 - 0x3f3504f3)      wrapping; moves the binade border to sqrt(1/2)
/// k = (b >> 23) - 127 - (tiny ? 23 : 0);  kf = f32(k)
/// f = float((b & 0x7fffff) + 0x3f3504f3) - 1
/// z = f * f
/// y = ((f * z) * LOG(f) + kf * LN2_LO) - 0.5 * z
/// ln x = (f + y) + kf * LN2_HI
/// ```
/// followed by the selects for 0, negative, infinite and NaN.
#[inline]
pub fn log(x: f32) -> f32 {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let tiny = x < f32::MIN_POSITIVE;
    let v = if tiny { x * 8_388_608.0 } else { x };
    let b = v.to_bits().wrapping_add(0x3f80_0000 - SQRT_HALF);
    let k = (b >> 23) as i32 - 127 - if tiny { 23 } else { 0 };
    let kf = k as f32;
    let f = f32::from_bits((b & 0x007f_ffff) + SQRT_HALF) - 1.0;
    let z = f * f;
    let y = ((f * z) * horner(f, &LOG) + kf * LN2_LO) - 0.5 * z;
    let ln = (f + y) + kf * LN2_HI;
    let ln = if x == f32::INFINITY { x } else { ln };
    let ln = if x == 0.0 { f32::NEG_INFINITY } else { ln };
    // One comparison covers negative values and NaN.
    if x >= 0.0 { ln } else { f32::NAN }
}

/// `1 / (1 + e^-x)`.
///
/// ```text
/// e = exp(-|x|)
/// q = (x >= 0 ? 1 : e) / (1 + e)
/// x < -1.0 ? e - e * q : q                    the same value; rounding 1 + e costs too much in the left tail
/// ```
#[inline]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    let numerator = if x >= 0.0 { 1.0 } else { e };
    let q = numerator / (1.0 + e);
    if x < -1.0 { e - e * q } else { q }
}

/// The hyperbolic tangent.
///
/// ```text
/// a = |x|, z = a * a
/// small = a + a * (z * TANH(z))
/// large = 1 - 2 / (exp(a + a) + 1)
/// (a < 0.625 ? small : large) with the sign of x
/// ```
#[inline]
pub fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let z = a * a;
    let small = a + a * (z * horner(z, &TANH));
    let large = 1.0 - 2.0 / (exp(a + a) + 1.0);
    let y = if a < 0.625 { small } else { large };
    y.copysign(x)
}

/// The error function.
///
/// ```text
/// a = |x|, a = a > 4 ? 4 : a, z = a * a
/// small = a + a * ERF_SMALL(z)
/// large = 1 - exp(ERF_LARGE(a))
/// (a < 1 ? small : large) with the sign of x
/// ```
#[inline]
pub fn erf(x: f32) -> f32 {
    let a = x.abs();
    let a = if a > 4.0 { 4.0 } else { a };
    let z = a * a;
    let small = a + a * horner(z, &ERF_SMALL);
    let large = 1.0 - exp(horner(a, &ERF_LARGE));
    let y = if a < 1.0 { small } else { large };
    y.copysign(x)
}

#[cfg(test)]
#[path = "float_tests.rs"]
mod tests;
