//! Activation rows of a tile, and which steps a kernel meets.

use crate::gemm::{Form, Panel};
use crate::tile::GemmRows;

/// Whether all steps of the panel have one of these forms.
pub(crate) fn only(panel: &Panel<'_>, forms: &[Form]) -> bool {
    forms.iter().map(|form| panel.run(*form).offsets.len()).sum::<usize>() == panel.offsets.len()
}

/// Base addresses of `R` activation rows.
///
/// Invariant: `rows.check` passed for the slice they point into, so whatever a step of the panel reads may be read from each of them.
#[derive(Clone, Copy)]
pub(crate) struct Reader<const R: usize>(pub(crate) [*const u8; R]);

impl<const R: usize> Reader<R> {
    /// Rows `first..first + R`; those past the tile's last repeat it.
    ///
    /// # Safety
    /// `rows.check(a.len(), reach, 0)` passed, and nobody reads beyond `reach` bytes from a row on.
    #[inline(always)]
    pub(crate) unsafe fn new(a: &[u8], rows: &GemmRows, first: usize) -> Self {
        // SAFETY: the check says that every row begins within `a`.
        Self(core::array::from_fn(|r| unsafe { a.as_ptr().add(rows.at[(first + r).min(rows.at.len() - 1)]) }))
    }

    /// Where the step at `offset` reads row `r`.
    ///
    /// # Safety
    /// `offset` is one of the panel's.
    #[inline(always)]
    pub(crate) unsafe fn at(&self, r: usize, offset: u32) -> *const u8 {
        // SAFETY: the invariant of the type.
        unsafe { self.0[r].add(offset as usize) }
    }
}
