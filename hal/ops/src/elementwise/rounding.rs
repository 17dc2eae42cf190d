//! Sign and rounding: Abs, Neg, Sign, Floor, Ceil, Round.
//!
//! * (C1) Round takes ties to even. (C2) On integers Abs and Neg wrap at the minimum.

use super::unary::{Unary, each};

/// `|x|`.
pub static ABS: &Unary = &Unary::new("Abs", 6, |_, x| x.abs())
    .single(|_, v| each(v, f32::abs))
    .int(i128::abs)
    .points(&[(-1.5, 1.5), (2.0, 2.0)]);

/// `-x`.
pub static NEG: &Unary =
    &Unary::new("Neg", 6, |_, x| -x).single(|_, v| each(v, |x| -x)).int(|x| -x).points(&[(1.5, -1.5), (-2.0, 2.0)]);

/// -1, 0 or 1; NaN stays NaN.
pub static SIGN: &Unary = &Unary::new("Sign", 9, |_, x| if x == 0.0 || x.is_nan() { x } else { x.signum() })
    .int(i128::signum)
    .points(&[(-2.5, -1.0), (0.0, 0.0), (7.0, 1.0)]);

/// The largest integer that is not above x.
pub static FLOOR: &Unary = &Unary::new("Floor", 6, |_, x| libm::floor(x))
    .single(|_, v| each(v, libm::floorf))
    .points(&[(-1.5, -2.0), (1.2, 1.0), (2.0, 2.0)]);

/// The smallest integer that is not below x.
pub static CEIL: &Unary = &Unary::new("Ceil", 6, |_, x| libm::ceil(x)).single(|_, v| each(v, libm::ceilf)).points(&[
    (-1.5, -1.0),
    (1.2, 2.0),
    (2.0, 2.0),
]);

/// The nearest integer, ties to even.
pub static ROUND: &Unary = &Unary::new("Round", 11, |_, x| libm::rint(x))
    .single(|_, v| each(v, libm::rintf))
    .points(&[(0.5, 0.0), (1.5, 2.0), (-2.5, -2.0), (-1.2, -1.0)]);
