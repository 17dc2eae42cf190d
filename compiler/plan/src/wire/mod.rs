//! A plan as bytes and back: wire types of their own, one module per format, so that the plan's own types may change
//! without changing what is on disk.
//!
//! Plans that lie in plans (bodies of control steps, alternatives) are stored in one flat list and referred to by number:
//! a plan's number is smaller than those of the plans inside it, and each is used once. Reading therefore builds them
//! from the last to the first, without recursion.
//!
//! Programs and tensor types are in the encoding of [`ottava_hal::wire`]. The data of a small tensor stands with it; that of
//! a large one is a section of the file.

mod decode;
mod encode;
mod v1;

pub(crate) use decode::decode;
pub(crate) use encode::{Encoded, encode};

/// Tensors up to this many bytes stand in the plan itself.
const INLINE: usize = 128;
