//! AVX2 + FMA kernels.
//!
//! Each file holds safe `#[target_feature]` functions and one entry per kernel that takes the [`Avx2`](crate::Avx2) token: whoever calls
//! it has proved that the CPU has the instructions.

mod compiled;
mod depthwise_lines;
mod depthwise_u8;
mod gemm_f32;
mod gemm_u8;

pub(crate) use compiled::compiled;
pub(crate) use depthwise_lines::lines as depthwise_u8_lines;
pub(crate) use depthwise_u8::tile as depthwise_u8;
pub(crate) use gemm_f32::tile as gemm_f32;
pub(crate) use gemm_u8::tile as gemm_u8;
