//! How each operator family becomes steps. A family has functions that make capability rows and others that build
//! steps; [`crate::kernels`] lists them.

pub(crate) mod batch_norm;
pub(crate) mod binary;
pub(crate) mod bridge;
pub(crate) mod concat;
pub(crate) mod dynamic;
pub(crate) mod extreme;
pub(crate) mod fixed;
pub(crate) mod gather;
pub(crate) mod layer_norm;
pub(crate) mod layer_norm_int;
pub(crate) mod masked;
pub(crate) mod matmul;
pub(crate) mod matmul_f32;
pub(crate) mod movement;
pub(crate) mod pieces;
pub(crate) mod pointwise;
pub(crate) mod pool;
pub(crate) mod product;
mod product_f32;
mod product_typed;
mod resample;
mod residual;
pub(crate) mod resize;
pub(crate) mod select;
pub(crate) mod slope;
pub(crate) mod softmax;
mod sum;
pub(crate) mod table;
pub(crate) mod tail_f32;
pub(crate) mod unary;
mod window;
mod words;
