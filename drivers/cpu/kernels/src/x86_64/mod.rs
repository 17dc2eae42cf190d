//! x86-64 kernels, one folder per instruction set.

pub(crate) mod avx2;
