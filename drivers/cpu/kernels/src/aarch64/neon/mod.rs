//! Kernels for every AArch64 CPU.

mod depthwise_u8;
mod gemm_f32;
mod gemm_u8;
#[cfg(target_arch = "aarch64")]
mod native;
mod wide;

#[cfg(test)]
pub(in crate::aarch64) use depthwise_u8::run as depthwise_u8_with;
#[cfg(test)]
pub(in crate::aarch64) use gemm_f32::run as gemm_f32_with;
pub(in crate::aarch64) use gemm_u8::{run as gemm_u8_with, tile_store};
#[cfg(target_arch = "aarch64")]
pub(crate) use native::{Native, depthwise_u8, detect, gemm_f32, gemm_u8};
pub(in crate::aarch64) use wide::run as wide;
