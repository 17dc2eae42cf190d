//! Kernels for CPUs with four-way dot products of s8 (FEAT_DotProd).

mod gemm_u8;
#[cfg(target_arch = "aarch64")]
mod native;

#[cfg(test)]
pub(in crate::aarch64) use gemm_u8::run as gemm_u8_with;
pub(in crate::aarch64) use gemm_u8::{dots, nibbles};
#[cfg(target_arch = "aarch64")]
pub(crate) use native::{detect, gemm_u8};
