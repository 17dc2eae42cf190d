//! The one place that turns an [`Isa`] into a kernel.

use crate::depthwise::DepthwisePanel;
use crate::finish::Finish;
use crate::float::{Line, RowsF32, Runs, TileF32};
use crate::gemm::Panel;
use crate::generic;
use crate::isa::Isa;
use crate::tile::{GemmRows, GemmTile, Rows, Tile};

impl Isa {
    /// Integer product of a tile; see [`generic::gemm_u8::tile`].
    pub(crate) fn gemm_u8(self, a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
        match self {
            Self::Portable => generic::gemm_u8::tile(a, rows, panel, tile),
            Self::Avx2(proof) => crate::avx2::gemm_u8(proof, a, rows, panel, tile),
        }
    }

    /// Stores a tile; see [`Finish`].
    #[inline]
    pub(crate) fn finish(self, finish: Finish<'_>) {
        match self {
            Self::Avx2(proof) if crate::avx2::finish_u8(proof, &finish) => {}
            _ => self.finish_plainly(finish),
        }
    }

    /// The compiled loops; out of line, so that the fast forms are not slowed by their prologue.
    #[inline(never)]
    fn finish_plainly(self, finish: Finish<'_>) {
        self.run(finish);
    }

    /// f32 product of a tile; see [`generic::gemm_f32::tile`].
    pub(crate) fn gemm_f32(self, a: &[f32], rows: &RowsF32, runs: &Runs, b: &[Line], tile: &mut TileF32) {
        match self {
            Self::Portable => generic::gemm_f32::tile(a, rows, runs, b, tile),
            Self::Avx2(proof) => crate::avx2::gemm_f32(proof, a, rows, runs, b, tile),
        }
    }

    /// Integer depthwise product of a tile; see [`generic::depthwise_u8::tile`].
    pub(crate) fn depthwise_u8(self, a: &[u8], rows: &Rows, panel: &DepthwisePanel<'_>, tile: &mut Tile) {
        match self {
            Self::Portable => generic::depthwise_u8::tile(a, rows, panel, tile),
            Self::Avx2(proof) => crate::avx2::depthwise_u8(proof, a, rows, panel, tile),
        }
    }
}
