//! One output matrix written by several tasks at once.
//!
//! The tasks of a parallel region own disjoint rectangles (rows x columns) of the output. Rectangles of a row-major matrix are not
//! slices, so the borrow checker cannot see that they are disjoint. [`SharedOut`] holds the matrix as a raw pointer and hands out
//! one row of a rectangle at a time. The rule that makes it sound: *within a region, no element belongs to the rectangles of two
//! tasks, and a task holds at most one row slice at a time.* Each caller states why its rectangles are disjoint.

use core::marker::PhantomData;

/// A mutable slice that several tasks may cut into disjoint parts.
pub(crate) struct SharedOut<'a, T> {
    ptr: *mut T,
    len: usize,
    _owner: PhantomData<&'a mut [T]>,
}

// SAFETY: the only access is `part`, whose contract forbids two tasks from touching the same element; `T: Send` lets elements be written
// from other threads.
unsafe impl<T: Send> Sync for SharedOut<'_, T> {}

impl<'a, T> SharedOut<'a, T> {
    /// Takes over the borrow of `out` for the length of a parallel region.
    pub(crate) fn new(out: &'a mut [T]) -> Self {
        Self { ptr: out.as_mut_ptr(), len: out.len(), _owner: PhantomData }
    }

    /// The address of element `at`, behind which `n` elements lie.
    ///
    /// # Panics
    /// When the range leaves the matrix.
    #[inline]
    pub(crate) fn address(&self, at: usize, n: usize) -> *mut T {
        assert!(n <= self.len && at <= self.len - n, "output range {at}+{n} leaves a matrix of {} elements", self.len);
        // SAFETY: the range lies inside the borrowed slice (checked above).
        unsafe { self.ptr.add(at) }
    }

    /// Elements `at .. at + n`.
    ///
    /// # Safety
    /// No other live slice of this matrix, on any thread, may overlap `at .. at + n`.
    ///
    /// # Panics
    /// When the range leaves the matrix.
    #[allow(clippy::mut_from_ref)] // the point of the type; see the module text
    pub(crate) unsafe fn part(&self, at: usize, n: usize) -> &mut [T] {
        // SAFETY: `address` has checked that the range lies inside the borrowed slice; exclusiveness is the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(self.address(at, n), n) }
    }
}
