//! Operators of the nn family: products, pools, normalizations, resampling.

use crate::Op;

pub(crate) mod product;
pub(crate) mod real;
pub(crate) mod typed;
pub(crate) mod window;

pub(crate) mod conv;
mod conv_transpose;
pub(crate) mod gemm;
pub(crate) mod matmul;
mod plain;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[&conv::Conv, &conv_transpose::ConvTranspose, &gemm::Gemm, &matmul::MatMul];
