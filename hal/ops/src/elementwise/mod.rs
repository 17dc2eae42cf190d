//! Operators of the elementwise family.

use crate::Op;

mod activation;
mod arithmetic;
pub(crate) mod binary;
mod bitwise;
pub(crate) mod broadcast;
pub(crate) mod cast;
mod classify;
mod clip;
mod comparison;
mod exponential;
mod gelu;
mod logical;
mod modulo;
pub(crate) mod number;
mod power;
mod relu;
mod rounding;
pub(crate) mod sample;
mod select;
mod trigonometry;
mod unary;
mod variadic;

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
    &arithmetic::ADD,
    &arithmetic::DIV,
    &arithmetic::MUL,
    &arithmetic::PRELU,
    &arithmetic::SUB,
    &bitwise::AND,
    &bitwise::BitShift,
    &bitwise::BitwiseNot,
    &bitwise::OR,
    &bitwise::XOR,
    &cast::Cast,
    &cast::CastLike,
    &classify::IsInf,
    &classify::IsNan,
    &clip::Clip,
    &comparison::EQUAL,
    &comparison::GREATER,
    &comparison::GREATER_OR_EQUAL,
    &comparison::LESS,
    &comparison::LESS_OR_EQUAL,
    &exponential::ERF,
    &exponential::EXP,
    &exponential::LOG,
    &exponential::RECIPROCAL,
    &exponential::SIGMOID,
    &exponential::SOFTPLUS,
    &exponential::SOFTSIGN,
    &exponential::SQRT,
    &exponential::TANH,
    &gelu::BIAS_GELU,
    &gelu::FAST_GELU,
    &gelu::GELU,
    &gelu::MS_GELU,
    &logical::AND,
    &logical::Not,
    &logical::OR,
    &logical::XOR,
    &modulo::Mod,
    &power::Pow,
    &relu::Relu,
    &rounding::ABS,
    &rounding::CEIL,
    &rounding::FLOOR,
    &rounding::NEG,
    &rounding::ROUND,
    &rounding::SIGN,
    &select::Where,
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
    &variadic::MAX,
    &variadic::MEAN,
    &variadic::MIN,
    &variadic::SUM,
];

#[cfg(test)]
mod tests {
    #[test]
    fn cases_hold() {
        super::sample::check_table(super::TABLE);
    }
}
