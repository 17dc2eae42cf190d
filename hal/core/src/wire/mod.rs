//! Programs as bytes: the one encoding that plan files, compiled blobs and blob keys share.
//!
//! [`encode`] writes a program, [`decode`] reads it back. Equal programs have equal bytes on every machine: numbers are
//! little-endian and of fixed width, attributes are sorted, nothing depends on addresses. Floats keep their bits.
//!
//! The data of constants goes where the caller wants: a [`Store`] may keep it and answer with a number, for which its
//! [`Load`] counterpart gives the tensor back. [`Inline`] keeps nothing, so that the bytes stand for themselves.
//!
//! Invariants of reading, for bytes from strangers: no panic, no recursion, no allocation beyond a constant factor of the
//! input's length, an error for whatever [`encode`] would not have written, and every program that is returned has
//! passed [`Program::check`](crate::Program::check).

mod bytes;
mod program;
#[cfg(test)]
mod tests;
mod types;

pub use bytes::{Reader, Writer};
pub use program::{decode, encode};

use crate::{DataType, Error, Result, Status, Tensor};

/// Version of the encoding; it grows when the meaning of any byte changes.
pub const VERSION: u32 = 1;

/// Where the data of constants goes.
pub trait Store {
    /// Keeps the bytes of a tensor and returns the number that stands for them; `None` to have them written inline.
    fn store(&mut self, tensor: &Tensor) -> Result<Option<u64>>;
}

/// Where the data of constants comes from.
pub trait Load {
    /// The tensor of a number that [`Store::store`] has given. The number comes from strangers.
    fn load(&mut self, number: u64, dtype: DataType, shape: &[usize]) -> Result<Tensor>;
}

/// All data is written inline.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inline;

impl Store for Inline {
    fn store(&mut self, _: &Tensor) -> Result<Option<u64>> {
        Ok(None)
    }
}

impl Load for Inline {
    fn load(&mut self, number: u64, _: DataType, _: &[usize]) -> Result<Tensor> {
        Err(corrupt(format!("constant {number} is said to be outside the program, but there is no such place")))
    }
}

/// What reading says about bytes that no writer has made.
pub fn corrupt(what: impl Into<String>) -> Error {
    Error::failed(Status::CorruptBlob, what)
}
