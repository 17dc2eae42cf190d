//! Operators of the elementwise family.

use crate::Op;

mod activation;
pub(crate) mod broadcast;
mod exponential;
pub(crate) mod number;
mod rounding;
pub(crate) mod sample;
mod trigonometry;
mod unary;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[
    &activation::CELU,
    &activation::ELU,
    &activation::HARD_SIGMOID,
    &activation::HARD_SWISH,
    &activation::LEAKY_RELU,
    &activation::MISH,
    &activation::QUICK_GELU,
    &activation::SELU,
    &activation::SHRINK,
    &activation::SWISH,
    &activation::THRESHOLDED_RELU,
    &exponential::ERF,
    &exponential::EXP,
    &exponential::LOG,
    &exponential::RECIPROCAL,
    &exponential::SIGMOID,
    &exponential::SOFTPLUS,
    &exponential::SOFTSIGN,
    &exponential::SQRT,
    &exponential::TANH,
    &rounding::ABS,
    &rounding::CEIL,
    &rounding::FLOOR,
    &rounding::NEG,
    &rounding::ROUND,
    &rounding::SIGN,
    &trigonometry::ACOS,
    &trigonometry::ACOSH,
    &trigonometry::ASIN,
    &trigonometry::ASINH,
    &trigonometry::ATAN,
    &trigonometry::ATANH,
    &trigonometry::COS,
    &trigonometry::COSH,
    &trigonometry::SIN,
    &trigonometry::SINH,
    &trigonometry::TAN,
];

#[cfg(test)]
mod tests {
    #[test]
    fn cases_hold() {
        super::sample::check_table(super::TABLE);
    }
}
