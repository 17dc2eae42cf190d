//! The numeric contract in code: scalar, allocation-free functions that define what every number means.
//!
//! **Rule zero.** Every integer operator has exactly one correct output, bit for bit, on every device, thread count,
//! tiling and instruction set. The functions here *are* that output; the reference driver calls them, and kernels,
//! simulators and shaders are tested against them. Nothing here is fast on purpose, and nothing is clever.
//!
//! Read in this order:
//!
//! 1. [`round`]: round to nearest even, saturation, the two fixed-point primitives;
//! 2. [`quantize`]: real to integer and back, dynamic parameters; [`dynamic`]: rows quantized at run time;
//! 3. [`requant`]: accumulator to output in the three modes; [`epilogue`]: accumulator to float;
//! 4. [`bias`] and [`bounds`]: what the compiler must prove, so that 32-bit accumulation is exact;
//!    [`maddubs`]: the same for the s16 lanes of x86 without VNNI;
//! 5. [`elementwise`] (ONNX), [`tflite`], [`tflite_activation`] and [`tflite_softmax`]: operators on quantized values;
//! 6. [`lut`], [`softmax`], [`layernorm`]: non-linearities in integers; [`unary`]: the functions behind the tables;
//!    [`fixed16`] and [`lstm`]: the integer LSTM;
//! 7. [`float`](mod@float), [`rows`], [`cast`]: the deterministic f32 side.
//!
//! Conventions: `xs, ws, ys` are the scales of input, weight and output, `zp` (`zx`, `zw`, `zy`) zero points, `lo` and
//! `hi` the output range after folding clamps such as Relu into it. Values travel as i32 whatever their storage.
//! `rne` is round to nearest, ties to even; `fl32(e)` one binary32 operation.
//!
//! Invariants: no allocation, no state, no panic for any input; a value outside a documented contract gives a defined
//! (usually saturated) result. Constants are checked when they are made ([`RefmathError`]), not when they are used.
//! Clause labels (C1, C2, ...) are local to each file and name the sentences of the numeric contract.

pub mod bias;
pub mod bounds;
pub mod cast;
pub mod dynamic;
pub mod elementwise;
pub mod epilogue;
pub mod error;
pub mod fixed16;
pub mod float;
pub mod layernorm;
pub mod lstm;
pub mod lut;
pub mod maddubs;
pub mod quantize;
pub mod requant;
pub mod round;
pub mod rows;
pub mod softmax;
pub mod stored;
pub mod tflite;
pub mod tflite_activation;
pub mod tflite_softmax;
pub mod unary;

#[cfg(test)]
mod testing;

pub use bounds::{AccBounds, ActivationRange, channel_bounds};
pub use error::{RefmathError, check_scale};
pub use layernorm::{LayerNormInt, NormKind};
pub use quantize::{Affine, Precision, Target, dequantize, int_range, quantize_f32};
pub use requant::{Multiplier, Q31, Requant, RequantMode, ScaleProduct, fp32_multiplier};
pub use softmax::SoftmaxLut;
pub use stored::Stored;
pub use unary::unary_f64;
