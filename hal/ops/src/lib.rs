//! `ottava-ops`: the operator list. One file per operator (or per family whose members differ in one function):
//! schema, attributes, shape and type inference, exact evaluation, cases.
//!
//! An operator is one value of a type that implements [`Op`], and one line in its family's table; [`OPS`] is the list
//! of the families. Everything else follows from it: the importer checks arity and attributes against [`OpSpec`], the
//! compiler infers shapes, the reference device evaluates ([`evaluate`]), tests run every [`Case`] on every device.
//!
//! Names and meaning are those of ONNX; the quantized meaning of an operator is numerics.md section 4 and applies where
//! the types of its values carry quantization parameters. [`QuantRule`] says which of the few mechanisms an operator
//! uses for that. Operators that only Ottava has (`Quantize`, `Dequantize`, `Requantize`, `Lut`) are in the domain
//! [`OTTAVA`].
//!
//! Invariants: evaluation is deterministic and single-threaded; it never panics on shapes, values or attributes that a
//! stranger chose, it returns an error; it allocates no more than its outputs and a bounded scratch.

mod case;
mod eval;
mod infer;
mod spec;
mod table;

pub mod control;
pub mod elementwise;
pub mod movement;
pub mod nn;
pub mod quant;
pub mod recurrent;
pub mod reduce;
pub mod tensor;
pub mod util;

pub use case::{Case, CaseInput};
pub use eval::{EvalCx, dequantize, evaluate, quantize, requantize};
pub use infer::{InferCx, InferInput, infer};
pub use spec::{AttrKind, AttrSpec, Op, OpSpec, QuantRule};
pub use table::{OPS, all, lookup};

/// Domain of the operators that only Ottava has.
pub const OTTAVA: &str = "ottava";
/// Domain of ONNX Runtime's own operators.
pub const MICROSOFT: &str = "com.microsoft";
