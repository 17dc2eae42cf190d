//! Scratch bytes as the elements of packed operands.

/// A type for which every bit pattern is a value.
pub(crate) trait Plain: Copy {}

impl Plain for i16 {}

/// The aligned elements within `bytes`.
pub(crate) fn words<T: Plain>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: every bit pattern is a `T` (contract of `Plain`) and every byte pattern of a `T` is bytes.
    unsafe { bytes.align_to_mut::<T>().1 }
}

/// Bytes that hold `n` elements wherever they begin.
pub(crate) fn bytes_for<T>(n: usize) -> Option<usize> {
    n.checked_mul(size_of::<T>())?.checked_add(align_of::<T>())
}
