//! x86-64 kernels, one folder per instruction set.

pub(crate) mod avx2;
pub(crate) mod avx512_vnni;
pub(crate) mod avx_vnni;
mod features;
