//! Trigonometric and hyperbolic functions and their inverses (ONNX Sin, Cos, ..., Atanh).
//!
//! * (C1) f32 is the f64 value rounded once; these functions have no named f32 sequence.

use super::unary::Unary;

/// `sin x`.
pub static SIN: &Unary = &Unary::new("Sin", 7, |_, x| libm::sin(x)).points(&[(0.0, 0.0), (1.0, 0.841_471)]);
/// `cos x`.
pub static COS: &Unary = &Unary::new("Cos", 7, |_, x| libm::cos(x)).points(&[(0.0, 1.0), (1.0, 0.540_302_3)]);
/// `tan x`.
pub static TAN: &Unary = &Unary::new("Tan", 7, |_, x| libm::tan(x)).points(&[(0.0, 0.0), (1.0, 1.557_407_7)]);
/// `arcsin x`.
pub static ASIN: &Unary = &Unary::new("Asin", 7, |_, x| libm::asin(x)).points(&[(0.0, 0.0), (0.6, 0.643_501_1)]);
/// `arccos x`.
pub static ACOS: &Unary = &Unary::new("Acos", 7, |_, x| libm::acos(x)).points(&[(1.0, 0.0), (0.6, 0.927_295_2)]);
/// `arctan x`.
pub static ATAN: &Unary = &Unary::new("Atan", 7, |_, x| libm::atan(x)).points(&[(0.0, 0.0), (0.5, 0.463_647_6)]);
/// `sinh x`.
pub static SINH: &Unary = &Unary::new("Sinh", 9, |_, x| libm::sinh(x)).points(&[(0.0, 0.0), (1.0, 1.175_201_2)]);
/// `cosh x`.
pub static COSH: &Unary = &Unary::new("Cosh", 9, |_, x| libm::cosh(x)).points(&[(0.0, 1.0), (1.0, 1.543_080_6)]);
/// `arsinh x`.
pub static ASINH: &Unary = &Unary::new("Asinh", 9, |_, x| libm::asinh(x)).points(&[(0.0, 0.0), (1.0, 0.881_373_6)]);
/// `arcosh x`.
pub static ACOSH: &Unary = &Unary::new("Acosh", 9, |_, x| libm::acosh(x)).points(&[(1.0, 0.0), (2.0, 1.316_958)]);
/// `artanh x`.
pub static ATANH: &Unary = &Unary::new("Atanh", 9, |_, x| libm::atanh(x)).points(&[(0.0, 0.0), (0.5, 0.549_306_15)]);
