//! Calls through an [`Isa`]: its own kernels, or those of the instruction set that it falls back on.

use crate::depthwise::{Band, DepthwiseB, DepthwisePanel, Requant, Sums};
use crate::depthwise_f32::DepthwiseRow;
use crate::finish::Finish;
use crate::float::{GemmF32, Line};
use crate::gemm::Panel;
use crate::isa::Isa;
use crate::stripe::Stripe;
use crate::tile::{GemmRows, GemmTile};

impl Isa {
    /// Integer product of a tile; see [`crate::generic::gemm_u8::tile`].
    #[inline]
    pub(crate) fn gemm_u8(self, a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
        // SAFETY: an `Isa` exists only where its features were detected, and so those of what it falls back on.
        unsafe { (self.gemm_u8)(a, rows, panel, tile) }
    }

    /// Product and epilogue of many pixels; see [`Stripe`]. False where the instruction set has no such kernel for the layout.
    #[inline]
    pub(crate) fn stripe_u8(self, stripe: &Stripe<'_>) -> bool {
        // SAFETY: as in `gemm_u8`.
        self.stripe_u8.is_some_and(|run| unsafe { run(stripe) })
    }

    /// Stores a tile; see [`Finish`].
    #[inline]
    pub(crate) fn finish(self, finish: Finish<'_>) {
        // SAFETY: as in `gemm_u8`.
        if !self.finish_u8.is_some_and(|fast| unsafe { fast(&finish) }) {
            self.finish_plainly(finish);
        }
    }

    /// The compiled loops; out of line, so that the fast forms are not slowed by their prologue.
    #[inline(never)]
    fn finish_plainly(self, finish: Finish<'_>) {
        self.run(finish);
    }

    /// f32 product of tiles; see [`crate::generic::gemm_f32::run`].
    #[inline]
    pub(crate) fn gemm_f32<L: Line>(self, job: GemmF32<'_, L>) {
        // SAFETY: as in `gemm_u8`.
        unsafe { (L::kernel(self))(job) }
    }

    /// f32 depthwise product of neighbouring pixels; see [`crate::generic::depthwise_f32::run`].
    #[inline]
    pub(crate) fn depthwise_f32(self, job: DepthwiseRow<'_>) {
        // SAFETY: as in `gemm_u8`.
        unsafe { (self.depthwise_f32)(job) }
    }

    /// Integer depthwise product of a tile; see [`crate::generic::depthwise_u8::tile`].
    #[inline]
    pub(crate) fn depthwise_u8(self, band: &Band<'_>, panel: &DepthwisePanel<'_>, x0: usize, sums: &mut Sums) {
        // SAFETY: as in `gemm_u8`.
        unsafe { (self.depthwise_u8)(band, panel, x0, sums) }
    }

    /// Whole output rows of all channels, requantized (`fp32_rne`) into `out`, which holds one or two output rows; false where the
    /// instruction set has no such kernel for the shape.
    #[inline]
    pub(crate) fn depthwise_u8_lines(
        self,
        band: &Band<'_>,
        filter: &DepthwiseB,
        to: &Requant<'_>,
        out: &mut [u8],
    ) -> bool {
        // SAFETY: as in `gemm_u8`.
        self.depthwise_u8_lines.is_some_and(|lines| unsafe { lines(band, filter, to, out) })
    }

    /// Product of 16-bit words; see [`crate::generic::gemm_s16::tile`].
    #[inline]
    pub(crate) fn gemm_s16(self, a: &[i16], rows: &GemmRows, b: &[i16], tile: &mut GemmTile) {
        // SAFETY: as in `gemm_u8`.
        unsafe { (self.gemm_s16)(a, rows, b, tile) }
    }

    /// A table of bytes over slices of one length; see [`crate::generic::lut_u8::run`].
    #[inline]
    pub(crate) fn lut_u8(self, table: &[u8; 256], x: &[u8], out: &mut [u8]) {
        // SAFETY: as in `gemm_u8`.
        unsafe { (self.lut_u8)(table, x, out) }
    }
}
