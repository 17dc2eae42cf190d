//! AVX512-VNNI kernels, in 512 bits and, for cores that gain nothing from those, in 256. What is not here falls back on AVX2.

mod gemm_f32;
mod gemm_u8;
mod gemm_u8_256;
mod probe;

pub(crate) use gemm_f32::run as gemm_f32;
pub(crate) use gemm_u8::tile as gemm_u8;
pub(crate) use gemm_u8_256::tile as gemm_u8_256;
pub(crate) use probe::wide_pays;

use super::features::{self, have};

/// Whether this CPU has AVX-512 F, BW, DQ, VL and VNNI, and AVX2.
pub(crate) fn detect() -> bool {
    have(features::AVX512_VNNI)
}
