//! A stream after decoding: every instruction with the registers it captured, as tiles of memory.
//!
//! [`resolve`] is the only reader of registers. Verifier, timing and machine see [`Step`]s, whose tiles are known to lie
//! inside their memories; they differ in what they look at, never in how they read an instruction.

mod access;
mod resolve;

mod resolve_array;
mod resolve_params;
mod resolve_vector;
mod tile;

pub use access::{Access, Place};
pub use resolve::{MAX_INSTRUCTIONS, Resolved, resolve};
pub use tile::{DramTile, Tile, Window};

use crate::isa::{Dtype, Opcode, Queue, Tokens};
use ottava_hal::refmath::tflite::{TfliteAdd, TfliteRequant};
use ottava_hal::refmath::{Affine, RequantMode, Target};

/// One instruction that waits in a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its index in the stream.
    pub index: usize,
    /// Its opcode.
    pub op: Opcode,
    /// Its queue.
    pub queue: Queue,
    /// Its tokens.
    pub tokens: Tokens,
    /// The program node it belongs to.
    pub node: Option<u32>,
    /// What it does.
    pub work: Work,
}

/// What an instruction does, by kind.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the instruction table describes the operands")]
pub enum Work {
    Nop,
    Irq,
    Wait(u32),
    Signal(u32),
    Preload,
    Load { from: DramTile, to: Tile, accumulate: bool },
    Im2col(Im2col),
    Store { from: Tile, to: DramTile, requant: Option<Requantize> },
    Gemm(Gemm),
    Dwconv(Dwconv),
    Requant { from: Tile, to: Tile, requant: Requantize },
    Residual { from: Tile, other: (Tile, Operand), to: Tile, requant: Requantize },
    Binary(Binary),
    Unary { op: Unary, from: Tile, to: Tile },
    Shift { from: Tile, to: Tile, amount: u32 },
    Redsum { from: Tile, input: Operand, to: Tile, accumulate: bool },
    Redmax { from: Tile, input: Operand, to: Tile },
    Pool(Pool),
    Xpose { from: Tile, to: Tile, element: u32 },
}

/// The im2col gather of LD_IM2COL.
#[derive(Clone, Debug, PartialEq)]
pub struct Im2col {
    /// Everything it may read: pixels of the image, `rows` of them per image and image after image.
    pub image: DramTile,
    /// The window; `oh` and `ow` say which output pixel a row belongs to.
    pub window: Window,
    /// The first output pixel.
    pub first: u32,
    /// The rows.
    pub to: Tile,
    /// The byte outside the image.
    pub pad: u8,
}

/// The second factor of a GEMM, as PRELOAD captured it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor {
    /// `[K][N]`, in bytes.
    pub tile: Tile,
    /// Sums.
    pub k: u32,
    /// Columns.
    pub n: u32,
    /// s8, u8 or s4.
    pub dtype: Dtype,
    /// Zero point.
    pub zp: i32,
}

/// A product of matrices.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    /// `[M][K]`.
    pub a: Tile,
    /// Its type and zero point (the scale is not used).
    pub input: Operand,
    /// The second factor.
    pub w: Factor,
    /// `[M][N]` accumulators.
    pub acc: Tile,
    /// Add to the accumulators.
    pub accumulate: bool,
}

/// A depthwise convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Dwconv {
    /// `[IH * IW][channels]`.
    pub image: Tile,
    /// Its type and zero point.
    pub input: Operand,
    /// `[KH * KW][N]`.
    pub weights: Tile,
    /// Type of the weights, s8 or u8.
    pub weight_dtype: Dtype,
    /// Zero point of the weights.
    pub zw: i32,
    /// The window.
    pub window: Window,
    /// Output channels per input channel.
    pub multiplier: u32,
    /// `[OH * OW][N]` accumulators.
    pub acc: Tile,
    /// Add to the accumulators.
    pub accumulate: bool,
}

/// The requantizer's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requantize {
    /// The rounding.
    pub mode: RequantMode,
    /// The table's entries, one row each.
    pub table: Tile,
    /// How the accumulators hold the sums.
    pub sums: Sums,
    /// Type, zero point and clamp of the output; f32 leaves the requantizer as it is.
    pub output: Output,
}

/// How accumulators hold sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// One accumulator each.
    Narrow,
    /// Two accumulators each, rounded as 32 bits.
    Pairs,
    /// Two accumulators each, rounded as 64 bits.
    Wide,
}

impl Sums {
    /// Accumulators of a sum.
    pub fn accumulators(self) -> u64 {
        if self == Self::Narrow { 1 } else { 2 }
    }
}

impl Gemm {
    /// Whether the sums have 64 bits.
    pub fn is_wide(&self) -> bool {
        self.input.dtype == Dtype::S16
    }
}

/// Where a conversion goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// The type.
    pub dtype: Dtype,
    /// Parameters and clamp.
    pub target: Target,
}

/// An 8- or 16-bit operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand {
    /// Its type.
    pub dtype: Dtype,
    /// Its parameters.
    pub affine: Affine,
}

/// A binary operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Binary {
    /// Which one.
    pub op: Opcode,
    /// Its flags.
    pub flags: u16,
    /// The rounding of the TFLite forms.
    pub mode: RequantMode,
    /// First operand.
    pub a: (Tile, Operand),
    /// Second operand; one row with BROW, one element per row with BELEM.
    pub b: (Tile, Operand),
    /// The output.
    pub out: Tile,
    /// Type, parameters and clamp of the output.
    pub output: Output,
}

impl Binary {
    /// The left shift of the TFLite sums.
    pub fn shift(&self) -> u32 {
        if self.output.dtype == Dtype::S16 { TfliteAdd::SHIFT_16 } else { TfliteAdd::SHIFT_8 }
    }
}

/// A unary operation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the instruction table describes the operands")]
pub enum Unary {
    Lut8 { table: Tile },
    Lut16 { table: Tile },
    Cast { input: Operand, output: Output },
    Rescale { input: Operand, output: Output },
    TfliteRescale { fixed: TfliteRequant, input: Operand, output: Output },
    Softmax { table: Tile, input: Operand, target: Target },
    TfliteSoftmax { input: Operand, target: Target },
}

/// A pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// `[IH * IW][IC]`.
    pub image: Tile,
    /// Its parameters.
    pub input: Operand,
    /// The window.
    pub window: Window,
    /// Flags AVG, PAD, RAW.
    pub flags: u16,
    /// The rounding of an average.
    pub mode: RequantMode,
    /// `[OH * OW][IC]`.
    pub to: Tile,
    /// Parameters and clamp of the output.
    pub target: Target,
}
