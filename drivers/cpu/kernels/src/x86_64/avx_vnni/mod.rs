//! AVX-VNNI kernels: the 256-bit `vpdpbusd` and `vpdpwssd` of cores without AVX-512. What is not here falls back on AVX2.

mod gemm_u8;

pub(crate) use gemm_u8::tile as gemm_u8;

use super::features::{self, have};

/// Whether this CPU has AVX-VNNI and AVX2.
pub(crate) fn detect() -> bool {
    have(features::AVX_VNNI)
}
