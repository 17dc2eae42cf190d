//! Packed weights as bytes, little-endian, and back. The bytes may come from a stranger: every length is checked, and what
//! the kernels rely on is checked by those who restore it.
//!
//! What is large lies at a multiple of [`ALIGN`] from the beginning, so that it can be used where it is ([`Elements`]).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::elements::{Elements, PackedBytes, Plain};
use crate::error::{KernelError, Result};

/// Alignment of the saved elements: that of a cache line and of every element type.
pub(crate) const ALIGN: usize = 64;

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

/// Appends elements behind zeros up to a multiple of [`ALIGN`].
pub(crate) fn put_elements<T: Plain>(out: &mut Vec<u8>, elements: &[T]) {
    out.reserve(ALIGN + size_of_val(elements));
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    T::store(elements, out);
}

/// Bytes that are read from front to back.
pub(crate) struct Stored<'a> {
    packed: PackedBytes<'a>,
    at: usize,
}

impl<'a> Stored<'a> {
    pub(crate) fn new(packed: PackedBytes<'a>) -> Self {
        Self { packed, at: 0 }
    }

    fn left(&self) -> &'a [u8] {
        self.packed.bytes().get(self.at..).unwrap_or_default()
    }

    /// `n` pieces of `N` bytes.
    fn pieces<const N: usize>(&mut self, n: usize) -> Result<&'a [[u8; N]]> {
        let bytes = n.checked_mul(N).and_then(|bytes| self.left().get(..bytes));
        let mine = bytes.ok_or_else(|| damaged(format!("{n} times {N} bytes wanted, {} left", self.left().len())))?;
        self.at += mine.len();
        Ok(mine.as_chunks().0)
    }

    pub(crate) fn u32s(&mut self, n: usize) -> Result<Vec<u32>> {
        Ok(self.pieces(n)?.iter().map(|b| u32::from_le_bytes(*b)).collect())
    }

    pub(crate) fn i32s(&mut self, n: usize) -> Result<Vec<i32>> {
        Ok(self.pieces(n)?.iter().map(|b| i32::from_le_bytes(*b)).collect())
    }

    /// The `n` elements of [`put_elements`]; in place where that is possible.
    pub(crate) fn elements<T: Plain>(&mut self, n: usize) -> Result<Elements<T>> {
        let gap = self.at.next_multiple_of(ALIGN) - self.at;
        if self.pieces::<1>(gap)?.iter().any(|b| *b != [0]) {
            return Err(damaged("the gap before the weights is not zero"));
        }
        let elements = self.packed.elements(self.at, n);
        let missing = || damaged(format!("{n} times {} bytes wanted, {} left", size_of::<T>(), self.left().len()));
        let elements = elements.ok_or_else(missing)?;
        self.at += n * size_of::<T>();
        Ok(elements)
    }

    /// An error unless everything has been read.
    pub(crate) fn end(self) -> Result<()> {
        match self.left().len() {
            0 => Ok(()),
            n => Err(damaged(format!("{n} bytes too many"))),
        }
    }
}
