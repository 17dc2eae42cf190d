//! Exponentials, roots and their kin: Exp, Log, Sqrt, Reciprocal, Erf, Sigmoid, Tanh, Softplus, Softsign.
//!
//! * (C1) f32: the named sequences of numerics.md section 7; Sqrt and Reciprocal are one IEEE operation.

use super::unary::{Unary, each};
use ottava_hal::refmath::float;

/// `e^x`.
pub static EXP: &Unary = &Unary::new("Exp", 6, |_, x| libm::exp(x)).single(|_, v| each(v, float::exp)).points(&[
    (0.0, 1.0),
    (1.0, std::f32::consts::E),
    (-1.0, 0.367_879_44),
]);

/// The natural logarithm.
pub static LOG: &Unary = &Unary::new("Log", 6, |_, x| libm::log(x)).single(|_, v| each(v, float::log)).points(&[
    (1.0, 0.0),
    (10.0, std::f32::consts::LN_10),
    (0.0, f32::NEG_INFINITY),
    (-1.0, f32::NAN),
]);

/// The square root.
pub static SQRT: &Unary = &Unary::new("Sqrt", 6, |_, x| libm::sqrt(x)).single(|_, v| each(v, f32::sqrt)).points(&[
    (4.0, 2.0),
    (2.0, std::f32::consts::SQRT_2),
    (-1.0, f32::NAN),
]);

/// `1 / x`.
pub static RECIPROCAL: &Unary = &Unary::new("Reciprocal", 6, |_, x| 1.0 / x)
    .single(|_, v| each(v, |x| 1.0 / x))
    .points(&[(4.0, 0.25), (3.0, 0.333_333_34), (0.0, f32::INFINITY)]);

/// The error function.
pub static ERF: &Unary = &Unary::new("Erf", 9, |_, x| libm::erf(x)).single(|_, v| each(v, float::erf)).points(&[
    (0.0, 0.0),
    (1.0, 0.842_700_8),
    (-0.5, -0.520_499_9),
]);

/// `1 / (1 + e^-x)`.
pub static SIGMOID: &Unary = &Unary::new("Sigmoid", 6, |_, x| sigmoid(x))
    .single(|_, v| each(v, float::sigmoid))
    .points(&[(0.0, 0.5), (1.0, 0.731_058_6), (-1.0, 0.268_941_43)]);

/// The hyperbolic tangent.
pub static TANH: &Unary = &Unary::new("Tanh", 6, |_, x| libm::tanh(x)).single(|_, v| each(v, float::tanh)).points(&[
    (0.0, 0.0),
    (1.0, 0.761_594_2),
    (-1.0, -0.761_594_2),
]);

/// `ln(1 + e^x)`.
pub static SOFTPLUS: &Unary =
    &Unary::new("Softplus", 1, |_, x| softplus(x)).points(&[(0.0, std::f32::consts::LN_2), (1.0, 1.313_261_7)]);

/// `x / (1 + |x|)`.
pub static SOFTSIGN: &Unary = &Unary::new("Softsign", 1, |_, x| x / (1.0 + x.abs()))
    .single(|_, v| each(v, |x| x / (1.0 + x.abs())))
    .points(&[(1.0, 0.5), (-3.0, -0.75)]);

/// `1 / (1 + e^-x)` in f64.
pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

/// `ln(1 + e^x)` in f64, without overflow for large x.
pub(super) fn softplus(x: f64) -> f64 {
    x.max(0.0) + libm::log1p(libm::exp(-x.abs()))
}
