//! Calls through an [`Isa`]: its own kernels, or those of the instruction set that it falls back on.

use crate::depthwise::DepthwisePanel;
use crate::float::{Line, RowsF32, Runs, TileF32};
use crate::gemm::Panel;
use crate::isa::Isa;
use crate::tile::{GemmRows, GemmTile, Rows, Tile};

impl Isa {
    /// Integer product of a tile; see [`crate::generic::gemm_u8::tile`].
    #[inline]
    pub(crate) fn gemm_u8(self, a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
        // SAFETY: an `Isa` exists only where its features were detected, and so those of what it falls back on.
        unsafe { (self.gemm_u8)(a, rows, panel, tile) }
    }

    /// f32 product of a tile; see [`crate::generic::gemm_f32::tile`].
    #[inline]
    pub(crate) fn gemm_f32(self, a: &[f32], rows: &RowsF32, runs: &Runs, b: &[Line], tile: &mut TileF32) {
        // SAFETY: as in `gemm_u8`.
        unsafe { (self.gemm_f32)(a, rows, runs, b, tile) }
    }

    /// Integer depthwise product of a tile; see [`crate::generic::depthwise_u8::tile`].
    #[inline]
    pub(crate) fn depthwise_u8(self, a: &[u8], rows: &Rows, panel: &DepthwisePanel<'_>, tile: &mut Tile) {
        // SAFETY: as in `gemm_u8`.
        unsafe { (self.depthwise_u8)(a, rows, panel, tile) }
    }

    /// Product of centred 16-bit words; see [`crate::generic::gemm_s16::tile`].
    #[inline]
    pub(crate) fn gemm_s16(self, a: &[i16], rows: &Rows, b: &[i16], tile: &mut Tile) {
        // SAFETY: as in `gemm_u8`.
        unsafe { (self.gemm_s16)(a, rows, b, tile) }
    }
}
