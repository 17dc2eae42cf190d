//! The one place that turns an [`Isa`] into a kernel.

use crate::depthwise::{Band, DepthwiseB, DepthwisePanel, Requant, Sums};
use crate::float::{Line, RowsF32, Runs, TileF32};
use crate::gemm::Panel;
use crate::generic;
use crate::isa::Isa;
use crate::tile::{Rows, Tile};

impl Isa {
    /// Integer product of a tile; see [`generic::gemm_u8::tile`].
    pub(crate) fn gemm_u8(self, a: &[u8], rows: &Rows, panel: &Panel<'_>, tile: &mut Tile) {
        match self {
            Self::Portable => generic::gemm_u8::tile(a, rows, panel, tile),
            Self::Avx2(proof) => crate::avx2::gemm_u8(proof, a, rows, panel, tile),
        }
    }

    /// f32 product of a tile; see [`generic::gemm_f32::tile`].
    pub(crate) fn gemm_f32(self, a: &[f32], rows: &RowsF32, runs: &Runs, b: &[Line], tile: &mut TileF32) {
        match self {
            Self::Portable => generic::gemm_f32::tile(a, rows, runs, b, tile),
            Self::Avx2(proof) => crate::avx2::gemm_f32(proof, a, rows, runs, b, tile),
        }
    }

    /// Integer depthwise product of a tile; see [`generic::depthwise_u8::tile`].
    pub(crate) fn depthwise_u8(self, band: &Band<'_>, panel: &DepthwisePanel<'_>, x0: usize, sums: &mut Sums) {
        match self {
            Self::Portable => generic::depthwise_u8::tile(band, panel, x0, sums),
            Self::Avx2(proof) => crate::avx2::depthwise_u8(proof, band, panel, x0, sums),
        }
    }

    /// Whole output rows of all channels, requantized (`fp32_rne`) into `out`, which holds one or two output rows; false where the
    /// instruction set has no such kernel for the shape.
    pub(crate) fn depthwise_u8_lines(
        self,
        band: &Band<'_>,
        filter: &DepthwiseB,
        to: &Requant<'_>,
        out: &mut [u8],
    ) -> bool {
        match self {
            Self::Portable => false,
            Self::Avx2(proof) => crate::avx2::depthwise_u8_lines(proof, band, filter, to, out),
        }
    }
}
