//! The one place that turns an [`Isa`] into a kernel.

use crate::depthwise::DepthwisePanel;
use crate::depthwise_f32::DepthwiseRow;
use crate::float::{GemmF32, Line};
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

    /// f32 product of tiles; see [`generic::gemm_f32::run`].
    pub(crate) fn gemm_f32<L: Line>(self, job: GemmF32<'_, L>) {
        match self {
            Self::Portable => generic::gemm_f32::run(job),
            Self::Avx2(proof) => crate::avx2::gemm_f32(proof, job),
        }
    }

    /// f32 depthwise product of neighbouring pixels; see [`generic::depthwise_f32::run`].
    pub(crate) fn depthwise_f32(self, job: DepthwiseRow<'_>) {
        match self {
            Self::Portable => generic::depthwise_f32::run(job),
            Self::Avx2(proof) => crate::avx2::depthwise_f32(proof, job),
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
