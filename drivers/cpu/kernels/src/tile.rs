//! The register tile of the integer kernels: four pixels by sixteen channels of i32 accumulators.

use crate::gemm::{COLS, GROUP, Panel};

/// Pixels of a tile.
pub(crate) const ROWS: usize = 4;

/// Accumulators `[pixel][channel]`, passed from a product kernel to an epilogue.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Tile(pub(crate) [[i32; COLS]; ROWS]);

impl Tile {
    /// All zero.
    pub(crate) const ZERO: Self = Self([[0; COLS]; ROWS]);
}

/// Byte offsets of the tile's activation rows; rows past `n` repeat the last one, so that a kernel may compute them harmlessly.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) at: [usize; ROWS],
    pub(crate) n: usize,
}

impl Rows {
    /// Panics unless every read of `width` bytes at `row + offset`, `offset <= max_offset`, stays within `len` bytes: the one check
    /// that the unsafe loads of the kernels rest on.
    pub(crate) fn check(&self, len: usize, max_offset: usize, width: usize) {
        let last = self.at.iter().copied().fold(0, usize::max);
        let end = last.checked_add(max_offset).and_then(|e| e.checked_add(width));
        assert!(end.is_some_and(|e| e <= len), "activation row {last} + {max_offset} + {width} leaves {len} bytes");
        assert!((1..=ROWS).contains(&self.n), "a tile of {} rows", self.n);
    }
}

/// Panics unless the panel's parts have the lengths that its step counts promise.
pub(crate) fn check_panel(panel: &Panel<'_>) {
    use crate::gemm::{FORMS, Form};
    let count =
        |per: fn(Form) -> usize| FORMS.iter().map(|f| panel.steps[*f as usize] as usize * per(*f)).sum::<usize>();
    debug_assert_eq!(panel.blocks.len(), count(Form::blocks));
    debug_assert_eq!(panel.offsets.len(), count(Form::groups));
    debug_assert!(panel.offsets.iter().all(|o| *o as usize <= panel.max_offset));
    const { assert!(GROUP == 4) }
}
