//! `sdot`, and the kernel compiled with it.

use core::arch::aarch64::uint8x16_t;
use core::arch::asm;

use crate::aarch64::neon::Native;
use crate::aarch64::simd::DotProduct;
use crate::gemm::Panel;
use crate::tile::{GemmRows, GemmTile};

/// Whether this CPU has FEAT_DotProd.
pub(crate) fn detect() -> bool {
    has!("neon") && has!("dotprod")
}

/// See [`crate::generic::gemm_u8::tile`].
#[target_feature(enable = "neon,dotprod")]
pub(crate) fn gemm_u8(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    super::gemm_u8::run(Sdot(Native::new()), a, rows, panel, tile);
}

/// Proof that the CPU has NEON and FEAT_DotProd: made only where both are enabled.
#[derive(Clone, Copy)]
struct Sdot(Native);

impl DotProduct for Sdot {
    type Base = Native;
    const FLIP: u8 = 0x80;

    #[inline(always)]
    fn base(self) -> Native {
        self.0
    }

    #[inline(always)]
    fn dot<const L: usize>(self, mut acc: uint8x16_t, w: uint8x16_t, x: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token proves the instruction, which touches registers only.
        unsafe {
            asm!(
                "sdot {acc:v}.4s, {w:v}.16b, {x:v}.4b[{lane}]",
                acc = inout(vreg) acc, w = in(vreg) w, x = in(vreg) x, lane = const L,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        acc
    }
}
