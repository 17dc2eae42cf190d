//! The named f32 sequences of the numeric contract (section 7), operation for operation, written so that the compiler can vectorise
//! them: selects instead of branches, and the integer of a rounded float taken from its bits.
//!
//! Each function is `inline(always)`; nothing is contracted or reordered, so every instruction set gives the same bits.

#[cfg(not(feature = "std"))]
use crate::float_ops::FloatOps;

/// `1.5 * 2^23`: adding it rounds a small f32 to an integer, ties to even, in the low mantissa bits.
const MAGIC: f32 = 12_582_912.0;
const LN2_HI: f32 = f32::from_bits(0x3f31_8000);
const LN2_LO: f32 = f32::from_bits(0xb95e_8083);
const LOG2_E: f32 = f32::from_bits(0x3fb8_aa3b);

const EXP: [u32; 5] = [0x3eff_fffe, 0x3e2a_aa49, 0x3d2a_ac57, 0x3c09_1cc4, 0x3ab5_27c7];
const LOG: [u32; 8] =
    [0x3eaa_aaaa, 0xbe80_0113, 0x3e4c_d00e, 0xbe2a_3946, 0x3e11_6c9b, 0xbe06_c119, 0x3e02_af30, 0xbd9c_6484];
const TANH: [u32; 5] = [0xbeaa_aa99, 0x3e08_837b, 0xbd5c_1ad2, 0x3ca8_fc67, 0xbbba_8671];
const ERF_SMALL: [u32; 7] = [0x3e03_75d4, 0xbec0_939f, 0x3de7_1673, 0xbcdb_fb8d, 0x3ba9_f912, 0xba51_a8af, 0x38a3_b8ff];
const ERF_LARGE: [u32; 7] = [0xb9b3_1156, 0xbf90_4475, 0xbf23_5d76, 0xbdd3_29a6, 0x3cb2_e5cb, 0xbb41_2d9b, 0x3943_6ed5];

/// Horner's rule, highest coefficient first; coefficients are bit patterns.
#[inline(always)]
fn horner<const N: usize>(x: f32, c: &[u32; N]) -> f32 {
    let mut y = f32::from_bits(c[N - 1]);
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        y = y * x + f32::from_bits(c[i]);
    }
    y
}

#[inline(always)]
fn abs(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & 0x7fff_ffff)
}

/// `x` with the sign of `sign`.
#[inline(always)]
fn with_sign(x: f32, sign: f32) -> f32 {
    f32::from_bits((x.to_bits() & 0x7fff_ffff) | (sign.to_bits() & 0x8000_0000))
}

/// `2^k` for exponents of normal numbers; anything else belongs to a NaN.
#[inline(always)]
fn exp2_int(k: i32) -> f32 {
    f32::from_bits((k.wrapping_add(127) as u32) << 23)
}

/// `e^x`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let c = if x > 89.0 { 89.0 } else { x };
    let c = if c < -105.0 { -105.0 } else { c };
    let shifted = c * LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = (c - n * LN2_HI) - n * LN2_LO;
    let y = 1.0 + (r + (r * r) * horner(r, &EXP));
    // For a number this is `n`. A NaN makes the result NaN whatever the factors are.
    let k = (shifted.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32);
    let k1 = k >> 1;
    (y * exp2_int(k1)) * exp2_int(k.wrapping_sub(k1))
}

/// The natural logarithm.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
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
    if x >= 0.0 { ln } else { f32::NAN }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    let e = exp(-abs(x));
    let numerator = if x >= 0.0 { 1.0 } else { e };
    let q = numerator / (1.0 + e);
    let left = e - e * q;
    if x < -1.0 { left } else { q }
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let a = abs(x);
    let z = a * a;
    let small = a + a * (z * horner(z, &TANH));
    let large = 1.0 - 2.0 / (exp(a + a) + 1.0);
    with_sign(if a < 0.625 { small } else { large }, x)
}

/// The error function.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let a = abs(x);
    let a = if a > 4.0 { 4.0 } else { a };
    let z = a * a;
    let small = a + a * horner(z, &ERF_SMALL);
    let large = 1.0 - exp(horner(a, &ERF_LARGE));
    with_sign(if a < 1.0 { small } else { large }, x)
}

/// `fl32(fl32(0.5 * x) * fl32(1 + erf(fl32(x * sqrt(1/2)))))`.
#[inline(always)]
pub(crate) fn gelu(x: f32) -> f32 {
    (0.5 * x) * (1.0 + erf(x * core::f32::consts::FRAC_1_SQRT_2))
}

/// The square root; exact rounding is IEEE's.
#[inline(always)]
pub(crate) fn sqrt(x: f32) -> f32 {
    x.sqrt()
}

/// `max(lo, min(hi, x))` as two selects: NaN stays NaN, and `hi` wins if the bounds cross.
#[inline(always)]
pub(crate) fn clip(x: f32, lo: f32, hi: f32) -> f32 {
    let x = if x < lo { lo } else { x };
    if x > hi { hi } else { x }
}
