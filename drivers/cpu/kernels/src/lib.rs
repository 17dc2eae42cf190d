//! Kernels of Ottava's CPU driver: exact integer arithmetic and deterministic float arithmetic on plain slices.
//!
//! **Promise.** An integer kernel returns the one value that the numeric contract defines, for every input; an f32 kernel returns the
//! bits of its definition. Neither depends on instruction set, number of threads, batch or packing.
//!
//! **Conventions.** Tensors are NHWC slices. 8-bit activations of products are u8; an s8 tensor is held with every byte XORed with 0x80
//! and its zero point raised by 128 ([`xor_sign`] is the bridge). Outputs may be u8 or s8 (two's complement). A plan packs weights once
//! and knows everything but the batch, which follows from the input's length; running it allocates nothing: the caller passes scratch.
//!
//! | to do | use |
//! |---|---|
//! | say where to run | [`Isa`], [`ThreadPool`], [`Exec`] |
//! | integer convolution (any group, depthwise, 1-D, pointwise) or matrix product with a fused [`Epilogue`] | [`ConvU8`] over [`ConvShape`], [`Weights`] |
//! | the same in f32, with weights stored as f32, f16 or bf16 | [`ConvF32`] over [`FloatWeights`] |
//! | 8-bit products of two operands known at run time | [`MatMulU8`] over [`MatMulShape`] |
//! | f32 matrix products of two operands known at run time | [`MatMulF32`] |
//! | save packed weights and take them back | [`ConvU8::to_packed`], [`ConvU8::from_packed`], the same of [`ConvF32`] |
//! | pooling | [`max_pool`], [`max_pool_f32`], [`average_pool_u8`], [`average_pool_f32`] over [`PoolShape`] |
//! | change of parameters or type | [`quantize`], [`dequantize`], [`requantize`], [`xor_sign`] |
//! | elementwise | [`binary_q`], [`binary_f32`], [`clip_f32`], [`lut`] |
//! | a chain of f32 operations in one pass, bytes in and out | [`Chain`] |
//! | Softmax and LayerNormalization | [`softmax_f32`], [`layer_norm_f32`] |
//! | layout | [`nchw_to_nhwc`], [`nhwc_to_nchw`], [`quantize_nchw_to_nhwc`] |
//! | list the kernels | [`KERNELS`] |
//!
//! ```
//! use ottava_kernels::*;
//!
//! // A 2 x 3 matrix times a 3 x 2 matrix of s8 weights, zero point 10 on the left, requantized to u8.
//! let weights = Weights { data: WeightData::S8(&[1, -1, 2, 0, 0, 127]), layout: WeightLayout::KN, zero_points: &[] };
//! let epilogue = Epilogue::Requant { m: vec![0.5], out: OutQ::u8(3) };
//! let plan = ConvU8::new(ConvShape::gemm(3, 2), &weights, 10, Some(&[4, 0]), epilogue)?;
//!
//! let pool = ThreadPool::new(1)?;
//! let exec = Exec { isa: Isa::detect(), pool: &pool };
//! let (mut out, mut scratch) = ([0; 4], vec![0; plan.scratch_len()]);
//! plan.run(exec, &[10, 12, 11, 20, 10, 10], None, OutMut::Bytes(&mut out), &mut scratch)?;
//! assert_eq!(out, [7, 67, 10, 0]);
//! # Ok::<(), KernelError>(())
//! ```
//!
//! **Inside.** A folder per instruction set holds the product kernels (`generic`, `x86_64`, `aarch64`); `table` lists instruction sets and kernels, one
//! line each, and tests each kernel against a naive sum; `isa` chooses once, `dispatch` calls. `gemm` explains the packed format and why `vpmaddubsw` is exact on it; `tile`
//! is the register tile between product and epilogue; `dot` is the tiling over dot product instructions, `model` runs it without them; `conv` are the plans. Everything elementwise is a plain loop compiled once per
//! instruction set (`vectorize`). `pool` and `shared_out` state the threading protocol and who may write what.
//!
//! **Without the standard library** (feature `std`, on by default, off) everything is here but threads: a pool is the caller's thread.
//!
//! **Unsafe** code is confined to intrinsics behind a checked entry (each entry proves all its reads), to the calls of
//! detected `target_feature` functions, to `SharedOut` and to the pool.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // some kinds of kernels, and what only they need, exist on x86-64 alone
#![allow(unsafe_code)] // the one crate of the CPU driver that talks to the instruction set; every block names its reason

extern crate alloc;

#[cfg(any(target_arch = "aarch64", test))]
mod aarch64;
mod arith;
mod conv;
mod depthwise;
mod depthwise_f32;
mod dispatch;
#[cfg(any(test, target_arch = "x86_64"))]
mod dot;
mod elements;
mod elementwise;
mod epilogue;
mod error;
mod exec;
mod finish;
mod float;
#[cfg(not(feature = "std"))]
mod float_ops;
mod gemm;
mod generic;
mod half;
mod isa;
mod matmul;
#[cfg(test)]
mod model;
mod pointwise;
#[cfg_attr(not(feature = "std"), path = "pool_single.rs")]
mod pool;
mod pooling;
mod quantize_layout;
mod rows_f32;
mod rows_integer;
mod shared_out;
mod stored;
mod stripe;
mod table;
mod tile;
mod transpose;
mod vectorize;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
use x86_64::{avx_vnni, avx2, avx512_vnni};

pub use conv::{ConvF32, ConvShape, ConvU8, FloatWeights, MatMulF32, WeightData, WeightLayout, Weights};
pub use elements::{PackedBytes, SharedBytes};
pub use elementwise::{
    BinaryOp, BinaryQ, binary_f32, binary_q, clip_f32, dequantize, lut, quantize, requantize, xor_sign,
};
pub use epilogue::{Epilogue, OtherQ, OutMut, OutQ};
pub use error::{KernelError, Result};
pub use exec::Exec;
pub use gemm::Packing;
pub use isa::Isa;
pub use matmul::{MatMulShape, MatMulU8, Strides};
pub use pointwise::{Chain, ChainInput, ChainOp, ChainOut, Unary, lut_rows};
pub use pool::{GRAIN, ThreadPool};
pub use pooling::{PoolShape, average_pool_f32, average_pool_u8, max_pool, max_pool_f32};
pub use quantize_layout::quantize_nchw_to_nhwc;
pub use rows_f32::{layer_norm_f32, softmax_f32};
pub use rows_integer::{NormElement, NormInt, layer_norm_int, quantize_rows, quantize_s16, row_scales, scale_rows};
pub use table::{KERNELS, Kernel};
pub use transpose::{nchw_to_nhwc, nhwc_to_nchw};
