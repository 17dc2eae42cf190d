//! Operators of the tensor family: constants, shapes as data, index lists, sorted and running values.

use crate::Op;

mod constant;
mod cumulative;
mod einsum;
mod non_max_suppression;
mod non_zero;
mod one_hot;
mod range;
mod shape;
mod top_k;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[
    &constant::Constant,
    &constant::ConstantOfShape,
    &cumulative::CUM_PROD,
    &cumulative::CUM_SUM,
    &einsum::Einsum,
    &non_max_suppression::NonMaxSuppression,
    &non_zero::NonZero,
    &one_hot::EyeLike,
    &one_hot::OneHot,
    &range::Range,
    &shape::Shape,
    &shape::Size,
    &top_k::TopK,
];

#[cfg(test)]
mod tests {
    #[test]
    fn cases_hold() {
        crate::elementwise::sample::check_table(super::TABLE);
    }
}
