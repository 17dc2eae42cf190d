//! Packed weights in memory of their own, or in place in memory that a plan shares with others: a mapped file.
//!
//! Only what is multiplied is viewed in place. What decides where kernels read (steps, offsets) is always copied, so that
//! a mapped file that a foreign program changes meanwhile gives other numbers and never a read outside an operand.

use alloc::vec::Vec;

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

/// Memory that several own together; its bytes never move.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Saved weights: bytes that are copied, or a part of shared memory that a plan may view in place.
#[derive(Clone, Copy)]
pub struct PackedBytes<'a> {
    bytes: &'a [u8],
    /// The memory, and where in it `bytes` begins.
    owner: Option<(&'a SharedBytes, usize)>,
}

impl<'a> PackedBytes<'a> {
    /// `len` bytes of shared memory from `offset` on; `None` if they are not all in it.
    pub fn shared(owner: &'a SharedBytes, offset: usize, len: usize) -> Option<Self> {
        let bytes = (**owner).as_ref().get(offset..)?.get(..len)?;
        Some(Self { bytes, owner: Some((owner, offset)) })
    }

    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// `n` elements from byte `at` on: in place where the memory is shared and aligned for them, else a copy.
    pub(crate) fn elements<T: Plain>(&self, at: usize, n: usize) -> Option<Elements<T>> {
        let bytes = self.bytes.get(at..)?.get(..n.checked_mul(size_of::<T>())?)?;
        let in_place = cfg!(target_endian = "little") && bytes.as_ptr().cast::<T>().is_aligned();
        Some(match self.owner {
            Some((owner, first)) if in_place => Elements::Shared { owner: Arc::clone(owner), at: first + at, n },
            _ => Elements::Owned(bytes.chunks_exact(size_of::<T>()).map(T::from_stored).collect()),
        })
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for PackedBytes<'a> {
    fn from(bytes: &'a T) -> Self {
        Self { bytes: bytes.as_ref(), owner: None }
    }
}

/// Elements whose stored form is their little-endian bytes.
///
/// # Safety
/// Any `size_of::<Self>()` bytes are a value on a little-endian machine, and the type has no padding.
pub(crate) unsafe trait Plain: Copy {
    /// The element of exactly as many bytes as it has.
    fn from_stored(bytes: &[u8]) -> Self;

    /// Appends the bytes of some elements.
    fn store(elements: &[Self], out: &mut Vec<u8>);
}

// SAFETY: every four bytes are a float.
unsafe impl Plain for f32 {
    fn from_stored(bytes: &[u8]) -> Self {
        let mut own = [0; size_of::<Self>()];
        own.copy_from_slice(bytes);
        Self::from_le_bytes(own)
    }

    fn store(elements: &[Self], out: &mut Vec<u8>) {
        out.extend(elements.iter().flat_map(|n| n.to_le_bytes()));
    }
}

/// The elements of a packed operand; reads as a slice.
pub(crate) enum Elements<T> {
    /// In memory of their own.
    Owned(Vec<T>),
    /// `n` elements in shared memory, from an aligned byte on.
    Shared { owner: SharedBytes, at: usize, n: usize },
}

impl<T> From<Vec<T>> for Elements<T> {
    fn from(elements: Vec<T>) -> Self {
        Self::Owned(elements)
    }
}

impl<T> Default for Elements<T> {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

impl<T: Plain> Elements<T> {
    /// Appends elements; shared ones are copied first.
    pub(crate) fn extend_from_slice(&mut self, more: &[T]) {
        match self {
            Self::Owned(own) => own.extend_from_slice(more),
            Self::Shared { .. } => *self = Self::Owned([&*self, more].concat()),
        }
    }
}

impl<T: Plain> Deref for Elements<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Owned(elements) => elements,
            Self::Shared { owner, at, n } => {
                let bytes = (**owner).as_ref().get(*at..).and_then(|b| b.get(..n * size_of::<T>())).unwrap_or_default();
                // SAFETY: any bytes are elements of a `Plain` type.
                let (before, elements, _) = unsafe { bytes.align_to::<T>() };
                // Memory that has moved, against its contract, has no elements: indexing panics, nothing is misread.
                if before.is_empty() { elements } else { &[] }
            }
        }
    }
}

impl<T: Plain> fmt::Debug for Elements<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self, Self::Owned(_)) { "owned" } else { "shared" };
        write!(f, "{} {kind} elements of {} bytes", self.len(), size_of::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(n: usize) -> SharedBytes {
        Arc::new((0..n as u8).collect::<Vec<u8>>())
    }

    #[test]
    fn aligned_shared_memory_is_viewed_and_all_else_is_copied() {
        let owner = memory(64);
        let to_aligned = (*owner).as_ref().as_ptr().align_offset(4);
        for (first, shared) in [(to_aligned, true), (to_aligned + 4, true), (to_aligned + 1, false)] {
            let packed = PackedBytes::shared(&owner, first, 24).unwrap();
            let viewed = packed.elements::<f32>(8, 3).unwrap();
            assert_eq!(matches!(viewed, Elements::Shared { .. }), shared && cfg!(target_endian = "little"));
            let copied = PackedBytes::from(packed.bytes()).elements::<f32>(8, 3).unwrap();
            assert!(matches!(copied, Elements::Owned(_)));
            assert!(viewed.iter().map(|v| v.to_bits()).eq(copied.iter().map(|v| v.to_bits())) && viewed.len() == 3);
        }
    }

    #[test]
    fn what_is_not_there_is_none() {
        let owner = memory(64);
        assert!(PackedBytes::shared(&owner, 60, 5).is_none() && PackedBytes::shared(&owner, 65, 0).is_none());
        assert!(PackedBytes::shared(&owner, 1, usize::MAX).is_none());
        let packed = PackedBytes::shared(&owner, 0, 64).unwrap();
        assert!(packed.elements::<f32>(4, 16).is_none() && packed.elements::<f32>(0, usize::MAX).is_none());
    }

    #[test]
    fn memory_that_shrinks_has_no_elements() {
        struct Fickle(std::sync::atomic::AtomicBool);
        impl AsRef<[u8]> for Fickle {
            fn as_ref(&self) -> &[u8] {
                if self.0.swap(true, std::sync::atomic::Ordering::Relaxed) { &[] } else { &[0; 16] }
            }
        }
        let owner: SharedBytes = Arc::new(Fickle(false.into()));
        let packed = PackedBytes::shared(&owner, 0, 16).unwrap();
        assert!(packed.elements::<f32>(0, 4).is_some_and(|e| matches!(e, Elements::Owned(_)) || e.is_empty()));
    }
}
