//! Packed weights as bytes, little-endian, and back. The bytes may come from a stranger: every length is checked, and what
//! the kernels rely on is checked by those who restore it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::{KernelError, Result};
use crate::gemm::Block;

/// Bytes of a [`Block`].
const BLOCK: usize = size_of::<Block>();

/// What is said about bytes that no plan has written.
pub(crate) fn damaged(what: impl Into<String>) -> KernelError {
    KernelError::Packed { what: what.into() }
}

/// Appends numbers.
pub(crate) fn put_u32s(out: &mut Vec<u8>, numbers: &[u32]) {
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
}

/// Appends signed numbers.
pub(crate) fn put_i32s(out: &mut Vec<u8>, numbers: &[i32]) {
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
}

/// Appends floats.
pub(crate) fn put_f32s(out: &mut Vec<u8>, numbers: &[f32]) {
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
}

/// Appends blocks.
pub(crate) fn put_blocks(out: &mut Vec<u8>, blocks: &[Block]) {
    out.reserve(blocks.len() * BLOCK);
    blocks.iter().for_each(|b| out.extend_from_slice(&b.0));
}

/// Bytes that are read from front to back.
pub(crate) struct Stored<'a>(&'a [u8]);

impl<'a> Stored<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// `n` pieces of `N` bytes.
    fn pieces<const N: usize>(&mut self, n: usize) -> Result<&'a [[u8; N]]> {
        let bytes = n.checked_mul(N).and_then(|bytes| self.0.split_at_checked(bytes));
        let (mine, rest) =
            bytes.ok_or_else(|| damaged(format!("{n} times {N} bytes wanted, {} left", self.0.len())))?;
        self.0 = rest;
        Ok(mine.as_chunks().0)
    }

    pub(crate) fn u32s(&mut self, n: usize) -> Result<Vec<u32>> {
        Ok(self.pieces(n)?.iter().map(|b| u32::from_le_bytes(*b)).collect())
    }

    pub(crate) fn i32s(&mut self, n: usize) -> Result<Vec<i32>> {
        Ok(self.pieces(n)?.iter().map(|b| i32::from_le_bytes(*b)).collect())
    }

    pub(crate) fn f32s(&mut self, n: usize) -> Result<Vec<f32>> {
        Ok(self.pieces(n)?.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }

    pub(crate) fn blocks(&mut self, n: usize) -> Result<Vec<Block>> {
        Ok(self.pieces::<BLOCK>(n)?.iter().map(|b| Block(*b)).collect())
    }

    /// An error unless everything has been read.
    pub(crate) fn end(self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            n => Err(damaged(format!("{n} bytes too many"))),
        }
    }
}
