//! Operators of the nn family: products, pools, normalizations, resampling.

use crate::Op;

pub(crate) mod conv;
pub(crate) mod gemm;
pub(crate) mod matmul;
pub(crate) mod means;
pub(crate) mod product;
pub(crate) mod real;
pub(crate) mod softmax;
pub(crate) mod typed;
pub(crate) mod window;

mod average_pool;
mod batch_norm;
mod conv_transpose;
mod global_pool;
mod max_pool;
mod plain;
mod pool;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[
    &average_pool::AveragePool,
    &average_pool::LpPool,
    &batch_norm::BatchNormalization,
    &conv::Conv,
    &conv_transpose::ConvTranspose,
    &gemm::Gemm,
    &global_pool::AVERAGE,
    &global_pool::LP,
    &global_pool::MAX,
    &matmul::MatMul,
    &max_pool::MaxPool,
    &softmax::HARDMAX,
    &softmax::LOG_SOFTMAX,
    &softmax::SOFTMAX,
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_operator_computes_its_cases() {
        crate::elementwise::sample::check_table(super::TABLE);
    }
}
