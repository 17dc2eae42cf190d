//! AVX2 + FMA kernels.
//!
//! Each file holds one kernel: a safe `#[target_feature]` function that checks its operands and is named in the kernel table. Only an
//! [`Isa`](crate::Isa) whose features were detected calls it.

#[macro_use]
mod gemm_u8_steps;

mod binary_u8;
mod compiled;
mod depthwise_f32;
mod depthwise_lines;
mod depthwise_u8;
mod finish_q31;
mod finish_u8;
mod gemm_f32;
mod gemm_s16;
mod gemm_u8;
mod gemm_u8_dot;
mod gemm_u8_nibbles;
mod lut_u8;
mod stripe_u8;

pub(crate) use binary_u8::run as binary_u8;
pub(crate) use compiled::compiled;
pub(crate) use depthwise_f32::run as depthwise_f32;
pub(crate) use depthwise_lines::lines as depthwise_u8_lines;
pub(crate) use depthwise_u8::tile as depthwise_u8;
pub(crate) use finish_u8::finish_u8;
pub(crate) use gemm_f32::run as gemm_f32;
pub(crate) use gemm_s16::tile as gemm_s16;
pub(crate) use gemm_u8::tile as gemm_u8;
pub(crate) use lut_u8::run as lut_u8;
pub(crate) use stripe_u8::stripe as stripe_u8;

use super::features::{self, have};

/// Whether this CPU has AVX2, FMA and F16C.
pub(crate) fn detect() -> bool {
    have(features::AVX2)
}
