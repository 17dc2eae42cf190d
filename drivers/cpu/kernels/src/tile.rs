//! The register tile of the integer kernels: some pixels by sixteen channels of i32 accumulators.

use crate::gemm::COLS;

/// Most pixels of a tile of a depthwise kernel.
pub(crate) const ROWS: usize = 4;
/// Most pixels of a tile of a product kernel.
pub(crate) const GEMM_ROWS: usize = 8;

/// Accumulators `[pixel][channel]`, passed from a product kernel to an epilogue.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Tile<const N: usize = ROWS>(pub(crate) [[i32; COLS]; N]);

/// The tile of a product kernel.
pub(crate) type GemmTile = Tile<GEMM_ROWS>;

impl<const N: usize> Tile<N> {
    /// All zero.
    pub(crate) const ZERO: Self = Self([[0; COLS]; N]);
}

/// Byte offsets of the tile's activation rows; rows past `n` repeat the last one, so that a kernel may compute them harmlessly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<const N: usize = ROWS> {
    pub(crate) at: [usize; N],
    pub(crate) n: usize,
}

/// The rows of a product kernel.
pub(crate) type GemmRows = Rows<GEMM_ROWS>;

impl<const N: usize> Default for Rows<N> {
    fn default() -> Self {
        Self { at: [0; N], n: 0 }
    }
}

impl<const N: usize> Rows<N> {
    /// Panics unless every read of `width` bytes at `row + offset`, `offset <= max_offset`, stays within `len` bytes: the one check
    /// that the unsafe loads of the kernels rest on.
    #[inline]
    pub(crate) fn check(&self, len: usize, max_offset: usize, width: usize) {
        let last = self.at.iter().copied().fold(0, usize::max);
        let end = last.checked_add(max_offset).and_then(|e| e.checked_add(width));
        assert!(end.is_some_and(|e| e <= len), "activation row {last} + {max_offset} + {width} leaves {len} bytes");
        assert!((1..=N).contains(&self.n), "a tile of {} rows", self.n);
    }
}
