//! Kernels of Ottava's CPU driver: exact integer arithmetic, deterministic float arithmetic, one folder per instruction set.
//!
//! ```text
//! // --- where to run -------------------------------------------------------------------------------------------
//! enum Isa { Portable, Avx2(Avx2) }            Isa::detect() -> Isa   Isa::available() -> Vec<Isa>   Isa::parse(&str) -> Result<Isa>  name()
//! struct ThreadPool                            ThreadPool::new(n) -> Result<ThreadPool>   threads()
//!                                              parallel_for(&self, n_tasks, &(dyn Fn(usize) + Sync)) -> Result<()>
//! struct Exec<'a> { pub isa: Isa, pub pool: &'a ThreadPool }     (Copy)
//!
//! // --- int8 convolution and matrix product: everything NHWC; activations are u8 (s8 tensors: held XOR 0x80, zero point + 128)
//! struct ConvShape { in_h, in_w, in_c, out_c: usize, kernel, stride, dilation: [usize; 2], pads: [usize; 4] /*t l b r*/, groups }
//!        ConvShape::gemm(k, n)   ConvShape::out_hw() -> Result<[usize; 2]>          (batch / M is known at run time only)
//! enum WeightLayout { Oihw, Ohwi, Hwio }     matrices: WeightLayout::KN ([K][N]) and WeightLayout::NK ([N][K])
//! enum WeightData<'a> { S8(&'a [i8]), U8(&'a [u8]) }
//! struct Weights<'a> { data: WeightData<'a>, layout: WeightLayout, zero_points: &'a [i32] /* empty, 1 or out_c */ }
//! struct OutQ { zero_point: i32, lo: i32, hi: i32, signed: bool }     lo/hi/zero_point in the output type's own range
//! struct OtherQ { scale: f32, zero_point: i32, signed: bool }
//! enum Epilogue {
//!     Requant  { m: Vec<f32>, out: OutQ },                            fp32_rne; vectors: 1 or out_c entries
//!     Q31      { m: Vec<i32>, shift: Vec<i32>, double: bool, out: OutQ },
//!     Residual { xw: Vec<f32>, other: OtherQ, lo: f32, hi: f32, y_scale: f32, out: OutQ },   the fused Conv -> Add -> act -> Q
//!     Float    { xw: Vec<f32>, lo: f32, hi: f32 },
//!     Raw,                                                            i32 accumulators
//! }
//! enum OutMut<'a> { Bytes(&'a mut [u8]), F32(&'a mut [f32]), I32(&'a mut [i32]) }    s8 bytes are two's complement
//! struct ConvU8                      the plan: packed weights + offsets + epilogue; depthwise, grouped, pointwise, GEMM chosen inside
//!        ConvU8::new(shape: ConvShape, weights: &Weights, x_zero_point: u8, bias: Option<&[i32]>, epilogue: Epilogue) -> Result<ConvU8>
//!        scratch_len(&self) -> usize                                  bytes; independent of the batch
//!        run(&self, exec: Exec, x: &[u8], residual: Option<&[u8]>, out: OutMut, scratch: &mut [u8]) -> Result<()>
//!
//! // --- f32, deterministic -----------------------------------------------------------------------------------------
//! struct ConvF32
//!        ConvF32::new(shape: ConvShape, weights: &[f32], layout: WeightLayout, bias: Option<&[f32]>, lo: f32, hi: f32) -> Result<ConvF32>
//!        run(&self, exec: Exec, x: &[f32], out: &mut [f32]) -> Result<()>            -inf, +inf = no activation clamp
//!
//! // --- pooling (NHWC) ---------------------------------------------------------------------------------------------
//! struct PoolShape { in_h, in_w, channels, kernel, stride, dilation: [usize; 2], pads: [usize; 4], ceil: bool }    out_hw()
//!        max_pool(exec, &PoolShape, signed: bool, x: &[u8], out: &mut [u8])   max_pool_f32(exec, &PoolShape, x, out)
//!        average_pool_u8(exec, &PoolShape, count_include_pad, OtherQ, y_scale, OutQ, x, out)
//!        average_pool_f32(exec, &PoolShape, count_include_pad, x, out)
//!
//! // --- elementwise and movers: all take (exec, ...slices) -> Result<()> ---------------------------------------------
//!        quantize(exec, x: &[f32], scale, OutQ, out: &mut [u8])     dequantize(exec, x: &[u8], OtherQ, out: &mut [f32])
//!        struct BinaryQ { a: OtherQ, b: OtherQ, lo: f32, hi: f32, y_scale: f32, out: OutQ }      enum BinaryOp { Add, Sub, Mul, Div }
//!        binary_q(exec, BinaryOp, &BinaryQ, a: &[u8], b: &[u8], out: &mut [u8])      binary_f32(exec, BinaryOp, a, b, out)
//!        lut(exec, x: &[u8], table: &[u8; 256], out: &mut [u8])     xor_sign(exec, x: &[u8], out: &mut [u8])
//!        clip_f32(exec, x, lo, hi, out)   (relu: 0, +inf)
//!        nchw_to_nhwc<T> / nhwc_to_nchw<T>(exec, [n, c, h * w], x: &[T], out: &mut [T])    T: u8 i8 u32 i32 f32
//! ```
#![allow(unsafe_code)] // the one crate of the CPU driver that talks to the instruction set; every block names its reason

mod arith;
mod conv;
mod depthwise;
mod dispatch;
mod elementwise;
mod epilogue;
mod error;
mod exec;
mod finish;
mod float;
mod gemm;
mod generic;
mod isa;
mod pool;
mod pooling;
mod shared_out;
mod table;
mod tile;
mod transpose;
mod vectorize;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
use x86_64::avx2;

pub use conv::{ConvF32, ConvShape, ConvU8, WeightData, WeightLayout, Weights};
pub use elementwise::{
    BinaryOp, BinaryQ, binary_f32, binary_q, clip_f32, dequantize, lut, quantize, requantize, xor_sign,
};
pub use epilogue::{Epilogue, OtherQ, OutMut, OutQ};
pub use error::{KernelError, Result};
pub use exec::Exec;
pub use gemm::Packing;
pub use isa::{Avx2, Isa};
pub use pool::ThreadPool;
pub use pooling::{PoolShape, average_pool_f32, average_pool_u8, max_pool, max_pool_f32};
pub use table::{KERNELS, Kernel, KernelOp};
pub use transpose::{nchw_to_nhwc, nhwc_to_nchw};
