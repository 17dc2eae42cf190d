//! Operators of the reduce family.

use crate::Op;

mod arg;
mod fold;
pub(crate) mod plan;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[
    &arg::MAX,
    &arg::MIN,
    &fold::L1,
    &fold::L2,
    &fold::LOG_SUM,
    &fold::LOG_SUM_EXP,
    &fold::MAX,
    &fold::MEAN,
    &fold::MIN,
    &fold::PROD,
    &fold::SUM,
    &fold::SUM_SQUARE,
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_operator_computes_its_cases() {
        crate::elementwise::sample::check_table(super::TABLE);
    }
}
