//! The register tile of the integer kernels: some pixels by sixteen channels of i32 accumulators.

use crate::gemm::COLS;

/// Most pixels of a tile of a depthwise kernel.
pub(crate) const ROWS: usize = 4;
/// Most pixels of a tile of a product kernel.
pub(crate) const GEMM_ROWS: usize = 8;
/// Pixels of which a product of words is fastest.
pub(crate) const WORD_ROWS: usize = 6;

/// Accumulators `[pixel][channel]`, passed from a product kernel to an epilogue.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Tile<const N: usize = ROWS>(pub(crate) [[i32; COLS]; N]);

/// The tile of a product kernel.
pub(crate) type GemmTile = Tile<GEMM_ROWS>;

impl<const N: usize> Tile<N> {
    /// All zero.
    pub(crate) const ZERO: Self = Self([[0; COLS]; N]);
}

/// Accumulators of several tiles, one below the other, so that one call stores them all.
pub(crate) type Strip = Tile<STRIP_ROWS>;

/// Most pixels of a strip.
pub(crate) const STRIP_ROWS: usize = 4 * GEMM_ROWS;

impl Strip {
    /// The rows from `first` on, a multiple of a tile's height, as a tile.
    pub(crate) fn tile_mut(&mut self, first: usize) -> &mut GemmTile {
        let rows = &mut self.0[first / GEMM_ROWS * GEMM_ROWS..][..GEMM_ROWS];
        const { assert!(size_of::<GemmTile>() == size_of::<[[i32; COLS]; GEMM_ROWS]>()) }
        // SAFETY: these are the rows of one tile, and since a tile is a multiple of 64 bytes they lie on its boundary.
        unsafe { &mut *rows.as_mut_ptr().cast::<GemmTile>() }
    }
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
