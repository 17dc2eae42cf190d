//! Chains of elementwise f32 operations in one pass over memory.
//!
//! A chain reads any number of tensors of one size (f32, or bytes that it dequantizes), combines them with constants, and writes f32 or
//! quantizes to bytes. Every operation is one step of the numeric contract, so a chain gives the bits of its nodes run one by one.
//! Blocks of [`BLOCK`] elements stay in the first-level cache while all steps pass over them.
//!
//! Constants are scalars or rows: a row repeats along the tensor with the chain's period (the last axis of a bias).

mod chain;
mod functions;
mod run;
mod slots;
mod tables;

pub use chain::{Chain, ChainOp, ChainOut, Unary};
pub use run::ChainInput;
pub use tables::lut_rows;

/// Elements that pass through all steps at a time.
pub(crate) const BLOCK: usize = 256;
