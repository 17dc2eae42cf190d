//! `usmmla` and `sudot`, and the kernel compiled with them.

use core::arch::aarch64::uint8x16_t;
use core::arch::asm;

use crate::aarch64::neon::Native;
use crate::aarch64::simd::{DotProduct, MatrixProduct};
use crate::gemm::Panel;
use crate::tile::{GemmRows, GemmTile};

/// Whether this CPU has FEAT_I8MM.
pub(crate) fn detect() -> bool {
    has!("neon") && has!("i8mm")
}

/// See [`crate::generic::gemm_u8::tile`].
#[target_feature(enable = "neon,i8mm")]
pub(crate) fn gemm_u8(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    super::gemm_u8::run(Usmmla(Native::new()), a, rows, panel, tile);
}

/// Proof that the CPU has NEON and FEAT_I8MM: made only where both are enabled.
#[derive(Clone, Copy)]
struct Usmmla(Native);

impl DotProduct for Usmmla {
    type Base = Native;
    const FLIP: u8 = 0;

    #[inline(always)]
    fn base(self) -> Native {
        self.0
    }

    #[inline(always)]
    fn dot<const L: usize>(self, mut acc: uint8x16_t, w: uint8x16_t, x: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token proves the instruction, which touches registers only.
        unsafe {
            asm!(
                "sudot {acc:v}.4s, {w:v}.16b, {x:v}.4b[{lane}]",
                acc = inout(vreg) acc, w = in(vreg) w, x = in(vreg) x, lane = const L,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        acc
    }
}

impl MatrixProduct for Usmmla {
    #[inline(always)]
    fn matrix(self, mut acc: uint8x16_t, x: uint8x16_t, w: uint8x16_t) -> uint8x16_t {
        // SAFETY: as in `dot`.
        unsafe {
            asm!(
                "usmmla {acc:v}.4s, {x:v}.16b, {w:v}.16b",
                acc = inout(vreg) acc, x = in(vreg) x, w = in(vreg) w,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        acc
    }
}
