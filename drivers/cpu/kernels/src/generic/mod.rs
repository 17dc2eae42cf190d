//! Plain Rust kernels: run everywhere and read the same packed formats as the vector kernels, so packing is tested on any host.

pub(crate) mod depthwise_f32;
pub(crate) mod depthwise_u8;
pub(crate) mod gemm_f32;
pub(crate) mod gemm_s16;
pub(crate) mod gemm_u8;
pub(crate) mod lut_u8;
