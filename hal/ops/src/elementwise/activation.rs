//! Activations of one real number with at most two parameters: LeakyRelu, HardSigmoid, HardSwish, Elu, Selu, Celu,
//! Mish, Swish, ThresholdedRelu, Shrink.
//!
//! * (C1) f32 formulas are evaluated as written, every operation rounded; Elu, Selu, Celu and Mish, whose formulas
//!   cancel, are the f64 value rounded once.

use super::exponential::softplus;
use super::unary::{Unary, each};
use crate::{AttrKind, AttrSpec};
use ottava_hal::refmath::float;

const fn float_attr(name: &'static str) -> AttrSpec {
    AttrSpec::optional(name, AttrKind::Float)
}

const ALPHA: &[AttrSpec] = &[float_attr("alpha")];

/// `x < 0 ? alpha * x : x`.
pub static LEAKY_RELU: &Unary = &Unary::new("LeakyRelu", 6, |[a, _], x| if x < 0.0 { a * x } else { x })
    .single(|[a, _], v| each(v, |x| if x < 0.0 { a * x } else { x }))
    .attrs(ALPHA, [0.01, 0.0])
    .points(&[(2.0, 2.0), (-1.0, -0.01)]);

/// `max(0, min(1, alpha * x + beta))`.
pub static HARD_SIGMOID: &Unary = &Unary::new("HardSigmoid", 6, |[a, b], x| clamp01(a * x + b))
    .single(|[a, b], v| each(v, |x| clamp01_single(a * x + b)))
    .attrs(&[float_attr("alpha"), float_attr("beta")], [0.2, 0.5])
    .points(&[(0.0, 0.5), (1.0, 0.7), (-5.0, 0.0), (9.0, 1.0), (f32::NAN, f32::NAN)]);

/// `x * max(0, min(1, x / 6 + 0.5))`, with `1/6` as an f32 constant.
pub static HARD_SWISH: &Unary = &Unary::new("HardSwish", 14, |_, x| x * clamp01(x * (1.0 / 6.0) + 0.5))
    .single(|_, v| each(v, |x| x * clamp01_single(x * (1.0 / 6.0) + 0.5)))
    .points(&[(0.0, 0.0), (3.0, 3.0), (-3.0, 0.0), (1.5, 1.125)]);

/// `x < 0 ? alpha * (e^x - 1) : x`.
pub static ELU: &Unary = &Unary::new("Elu", 6, |[a, _], x| if x < 0.0 { a * libm::expm1(x) } else { x })
    .attrs(ALPHA, [1.0, 0.0])
    .points(&[(1.0, 1.0), (-1.0, -0.632_120_55)]);

/// `gamma * (x > 0 ? x : alpha * (e^x - 1))`.
pub static SELU: &Unary = &Unary::new("Selu", 6, |[a, g], x| if x > 0.0 { g * x } else { g * (a * libm::expm1(x)) })
    .attrs(&[float_attr("alpha"), float_attr("gamma")], [1.673_263_2, 1.050_701])
    .points(&[(1.0, 1.050_701), (-1.0, -1.111_330_7)]);

/// `max(0, x) + min(0, alpha * (e^(x / alpha) - 1))`.
pub static CELU: &Unary =
    &Unary::new("Celu", 12, |[a, _], x| if x > 0.0 || x.is_nan() { x } else { a * libm::expm1(x / a) })
        .attrs(ALPHA, [1.0, 0.0])
        .points(&[(1.0, 1.0), (-1.0, -0.632_120_55)]);

/// `x * tanh(ln(1 + e^x))`.
pub static MISH: &Unary =
    &Unary::new("Mish", 18, |_, x| x * libm::tanh(softplus(x))).points(&[(0.0, 0.0), (1.0, 0.865_098_4)]);

/// `x * sigmoid(alpha * x)`.
pub static SWISH: &Unary = &Unary::new("Swish", 24, |[a, _], x| x * super::exponential::sigmoid(a * x))
    .single(|[a, _], v| each(v, |x| x * float::sigmoid(a * x)))
    .attrs(ALPHA, [1.0, 0.0])
    .points(&[(0.0, 0.0), (1.0, 0.731_058_6)]);

/// ONNX Runtime's name of Swish with another default.
pub static QUICK_GELU: &Unary = &Unary::new("QuickGelu", 1, |[a, _], x| x * super::exponential::sigmoid(a * x))
    .domain(crate::MICROSOFT)
    .single(|[a, _], v| each(v, |x| x * float::sigmoid(a * x)))
    .attrs(ALPHA, [1.702, 0.0])
    .points(&[(0.0, 0.0), (1.0, 0.845_795_8)]);

/// `x > alpha ? x : 0`.
pub static THRESHOLDED_RELU: &Unary = &Unary::new("ThresholdedRelu", 10, |[a, _], x| if x > a { x } else { 0.0 })
    .single(|[a, _], v| each(v, |x| if x > a { x } else { 0.0 }))
    .attrs(ALPHA, [1.0, 0.0])
    .points(&[(1.5, 1.5), (1.0, 0.0), (-2.0, 0.0)]);

/// `x < -lambd ? x + bias : x > lambd ? x - bias : 0`.
pub static SHRINK: &Unary = &Unary::new("Shrink", 9, |[bias, lambda], x| shrink(bias, lambda, x))
    .attrs(&[float_attr("bias"), float_attr("lambd")], [0.0, 0.5])
    .points(&[(-1.0, -1.0), (0.25, 0.0), (0.75, 0.75)]);

fn clamp01(x: f64) -> f64 {
    x.clamp(0.0, 1.0)
}

fn clamp01_single(x: f32) -> f32 {
    x.clamp(0.0, 1.0)
}

fn shrink(bias: f64, lambda: f64, x: f64) -> f64 {
    if x < -lambda {
        x + bias
    } else if x > lambda {
        x - bias
    } else {
        0.0
    }
}
