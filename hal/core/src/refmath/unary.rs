//! Unary operators in f64 (for lookup tables) and f32 (for float regions), by ONNX name.
//!
//! * (C1) The f64 functions use the pure-Rust `libm` only, so a table is the same on every host. Their formulas are
//!   part of the definition: a table byte depends on them.
//! * (C2) The f32 form of Exp, Log, Erf, Tanh and Sigmoid is the named sequence of `float`; Gelu, Silu, Softplus and
//!   the piecewise functions are the `fl32` sequences given here; every other name is the f64 function of the
//!   widened input, rounded once.
//! * (C3) Parameters are f32 attributes, widened exactly.

use super::float;

/// `1 / (1 + e^-x)`, without overflow on either side.
pub fn sigmoid_f64(x: f64) -> f64 {
    let e = libm::exp(-x.abs());
    if x >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

/// `x/2 * erfc(-x / sqrt 2)`, the exact Gelu.
pub fn gelu_f64(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return 0.0;
    }
    0.5 * x * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2)
}

/// Gelu with `approximate = "tanh"`: `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`.
pub fn gelu_tanh_f64(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return 0.0;
    }
    let inner = core::f64::consts::FRAC_2_SQRT_PI * core::f64::consts::FRAC_1_SQRT_2 * (x + 0.044715 * x * x * x);
    0.5 * x * (1.0 + libm::tanh(inner))
}

/// `x * sigmoid(alpha * x)`: Silu for `alpha = 1`, else Swish.
pub fn swish_f64(x: f64, alpha: f64) -> f64 {
    if x == f64::NEG_INFINITY && alpha > 0.0 {
        return 0.0;
    }
    x * sigmoid_f64(alpha * x)
}

/// `ln(1 + e^x)`.
pub fn softplus_f64(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    x.max(0.0) + libm::log1p(libm::exp(-x.abs()))
}

/// `x * tanh(softplus(x))`.
pub fn mish_f64(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return 0.0;
    }
    x * libm::tanh(softplus_f64(x))
}

/// `max(0, min(1, alpha * x + beta))`; NaN stays NaN.
pub fn hard_sigmoid_f64(x: f64, alpha: f64, beta: f64) -> f64 {
    clip_f64(alpha * x + beta, 0.0, 1.0)
}

/// `x * hard_sigmoid(x, 1/6, 1/2)`.
pub fn hard_swish_f64(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return 0.0;
    }
    x * clip_f64(x / 6.0 + 0.5, 0.0, 1.0)
}

/// `x < 0 ? alpha * (e^x - 1) : x`.
pub fn elu_f64(x: f64, alpha: f64) -> f64 {
    if x < 0.0 { alpha * libm::expm1(x) } else { x }
}

/// `gamma * (x > 0 ? x : alpha * (e^x - 1))`.
pub fn selu_f64(x: f64, alpha: f64, gamma: f64) -> f64 {
    gamma * elu_f64(x, alpha)
}

/// `x < 0 ? alpha * (e^(x/alpha) - 1) : x`.
pub fn celu_f64(x: f64, alpha: f64) -> f64 {
    if x < 0.0 { alpha * libm::expm1(x / alpha) } else { x }
}

/// `x < 0 ? alpha * x : x`.
pub fn leaky_relu_f64(x: f64, alpha: f64) -> f64 {
    if x < 0.0 { alpha * x } else { x }
}

/// `x <= alpha ? 0 : x`.
pub fn thresholded_relu_f64(x: f64, alpha: f64) -> f64 {
    if x <= alpha { 0.0 } else { x }
}

/// `min(max(x, lo), hi)`; NaN stays NaN, and `hi` wins if the bounds cross.
pub fn clip_f64(x: f64, lo: f64, hi: f64) -> f64 {
    if x.is_nan() { x } else { x.max(lo).min(hi) }
}

/// -1, 0 or 1; NaN stays NaN.
fn sign_f64(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        x
    }
}

/// (C1) The f64 function of an ONNX operator without attributes, or with its attributes at their defaults.
///
/// `Swish` and `Silu` are the same; `Gelu` is the exact one, `GeluTanh` the approximation.
pub fn unary_f64(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "Abs" => f64::abs,
        "Acos" => libm::acos,
        "Acosh" => libm::acosh,
        "Asin" => libm::asin,
        "Asinh" => libm::asinh,
        "Atan" => libm::atan,
        "Atanh" => libm::atanh,
        "Ceil" => libm::ceil,
        "Celu" => |x| celu_f64(x, 1.0),
        "Cos" => libm::cos,
        "Cosh" => libm::cosh,
        "Elu" => |x| elu_f64(x, 1.0),
        "Erf" => libm::erf,
        "Exp" => libm::exp,
        "Floor" => libm::floor,
        "Gelu" => gelu_f64,
        "GeluTanh" => gelu_tanh_f64,
        "HardSigmoid" => |x| hard_sigmoid_f64(x, f64::from(0.2_f32), 0.5),
        "HardSwish" => hard_swish_f64,
        "Identity" => |x| x,
        "LeakyRelu" => |x| leaky_relu_f64(x, f64::from(0.01_f32)),
        "Log" => libm::log,
        "Mish" => mish_f64,
        "Neg" => |x| -x,
        "Reciprocal" => |x| 1.0 / x,
        "Relu" => |x| if x < 0.0 { 0.0 } else { x },
        "Round" => libm::rint,
        "Selu" => |x| selu_f64(x, f64::from(1.673_263_2_f32), f64::from(1.050_701_f32)),
        "Sigmoid" => sigmoid_f64,
        "Sign" => sign_f64,
        "Silu" | "Swish" => |x| swish_f64(x, 1.0),
        "Sin" => libm::sin,
        "Sinh" => libm::sinh,
        "Softplus" => softplus_f64,
        "Softsign" => |x| if x.is_infinite() { sign_f64(x) } else { x / (1.0 + x.abs()) },
        "Sqrt" => libm::sqrt,
        "Tan" => libm::tan,
        "Tanh" => libm::tanh,
        "ThresholdedRelu" => |x| thresholded_relu_f64(x, 1.0),
        _ => return None,
    })
}

/// (C2) Gelu in f32: `fl32(fl32(0.5 * x) * fl32(1 + erf(fl32(x * sqrt(1/2)))))`.
#[inline]
pub fn gelu(x: f32) -> f32 {
    (0.5 * x) * (1.0 + float::erf(x * core::f32::consts::FRAC_1_SQRT_2))
}

/// (C2) Gelu with `approximate = "tanh"` in f32; `x^3` as `fl32(fl32(x*x) * x)`.
#[inline]
pub fn gelu_tanh(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    let inner = SQRT_2_OVER_PI * (x + 0.044715 * ((x * x) * x));
    (0.5 * x) * (1.0 + float::tanh(inner))
}

/// (C2) Silu in f32: `fl32(x * sigmoid(x))`.
#[inline]
pub fn silu(x: f32) -> f32 {
    x * float::sigmoid(x)
}

/// (C2) Softplus in f32: `fl32(max(x, 0) + log(fl32(1 + exp(-|x|))))`.
#[inline]
pub fn softplus(x: f32) -> f32 {
    float::relu(x) + float::log(1.0 + float::exp(-x.abs()))
}

/// (C2) HardSigmoid in f32: `max(0, min(1, fl32(fl32(alpha * x) + beta)))`.
#[inline]
pub fn hard_sigmoid(x: f32, alpha: f32, beta: f32) -> f32 {
    clip(alpha * x + beta, 0.0, 1.0)
}

/// (C2) HardSwish in f32: `fl32(x * hard_sigmoid(x, fl32(1/6), 0.5))`.
#[inline]
pub fn hard_swish(x: f32) -> f32 {
    x * hard_sigmoid(x, 1.0 / 6.0, 0.5)
}

/// (C2) LeakyRelu in f32.
#[inline]
pub fn leaky_relu(x: f32, alpha: f32) -> f32 {
    if x < 0.0 { alpha * x } else { x }
}

/// (C2) Clip in f32: NaN stays NaN, and `hi` wins if the bounds cross.
#[inline]
pub fn clip(x: f32, lo: f32, hi: f32) -> f32 {
    let x = if x < lo { lo } else { x };
    if x > hi { hi } else { x }
}

/// (C2) Elu in f32: `fl32(alpha * fl32(exp(x) - 1))` for negative values.
#[inline]
pub fn elu(x: f32, alpha: f32) -> f32 {
    if x < 0.0 { alpha * (float::exp(x) - 1.0) } else { x }
}

/// Pow in f32: the f64 power of the widened operands, rounded once.
#[inline]
pub fn pow(x: f32, y: f32) -> f32 {
    libm::pow(f64::from(x), f64::from(y)) as f32
}

/// (C2) The f32 value of an ONNX operator without attributes (or at their defaults); `None` for an unknown name.
pub fn unary_f32(name: &str, x: f32) -> Option<f32> {
    Some(match name {
        "Elu" => elu(x, 1.0),
        "Erf" => float::erf(x),
        "Exp" => float::exp(x),
        "Gelu" => gelu(x),
        "GeluTanh" => gelu_tanh(x),
        "HardSigmoid" => hard_sigmoid(x, 0.2, 0.5),
        "HardSwish" => hard_swish(x),
        "LeakyRelu" => leaky_relu(x, 0.01),
        "Log" => float::log(x),
        "Relu" => float::relu(x),
        "Sigmoid" => float::sigmoid(x),
        "Silu" | "Swish" => silu(x),
        "Softplus" => softplus(x),
        "Tanh" => float::tanh(x),
        // Correctly rounded operations of f32, which rounding the f64 result once reproduces (53 >= 2 * 24 + 2).
        "Sqrt" => x.sqrt(),
        "Reciprocal" => 1.0 / x,
        other => unary_f64(other)?(f64::from(x)) as f32,
    })
}

#[cfg(test)]
#[path = "unary_tests.rs"]
mod tests;
