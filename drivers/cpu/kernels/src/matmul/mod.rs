//! Batched matrix products of bytes whose two operands are both computed at run time, as in attention.
//!
//! Nothing is known about the right operand before it arrives, so it is packed on every run: bytes are centred by their zero point and
//! widened to 16 bits, which makes `vpmaddwd` exact without any search. Operands are read along strides,
//! so that a transposed or head-split operand needs no copy of its own, and the products of a batch may be written as columns side by
//! side. Packed operands live in scratch that the caller passes; a run allocates nothing.

mod bytes;
mod pack;
mod shape;
pub(crate) mod words;

pub use bytes::MatMulU8;
pub use shape::{MatMulShape, Strides};
