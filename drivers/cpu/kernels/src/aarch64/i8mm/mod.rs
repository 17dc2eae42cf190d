//! Kernels for CPUs with 8-bit matrix products (FEAT_I8MM).

mod gemm_u8;
#[cfg(target_arch = "aarch64")]
mod native;

#[cfg(test)]
pub(in crate::aarch64) use gemm_u8::run as gemm_u8_with;
#[cfg(target_arch = "aarch64")]
pub(crate) use native::{detect, gemm_u8};
