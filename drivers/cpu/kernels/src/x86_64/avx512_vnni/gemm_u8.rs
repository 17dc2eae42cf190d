//! `gemm_u8_s8_s32_8x16x4_avx512vnni`: the tiling of [`crate::dot`] over 512-bit registers, eight rows in two chains.

use core::arch::x86_64::*;

use crate::avx2;
use crate::dot::{self, COLS_BLOCKS, Dot, S4};
use crate::gemm::{Block, COLS, Content, Panel};
use crate::tile::{GemmRows, GemmTile};

/// See [`crate::generic::gemm_u8::tile`].
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vnni")]
pub(crate) fn tile(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    if panel.content != Content::Dot {
        return avx2::gemm_u8(a, rows, panel, tile);
    }
    // Two units with a latency of five want ten sums in flight: eight rows need a second chain.
    dot::tile::<Zmm, 8, 2>(Zmm(()), a, rows, panel, tile);
}

/// Made and used only inside [`tile`], whose callers have AVX512-VNNI.
#[derive(Clone, Copy)]
struct Zmm(());

impl Dot for Zmm {
    type Cols = __m512i;
    type Group = __m512i;

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: the value proves AVX-512 F.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn weights(self, from: &[Block; COLS_BLOCKS]) -> __m512i {
        // SAFETY: the value proves AVX-512 F; two blocks are 64 bytes.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn group(self, from: *const u8) -> __m512i {
        // SAFETY: the value proves AVX-512 F; the caller proves the read.
        unsafe { _mm512_set1_epi32(from.cast::<i32>().read_unaligned()) }
    }

    #[inline(always)]
    fn low(self, w: __m512i) -> __m512i {
        // SAFETY: the value proves AVX-512 F and BW.
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(S4.as_ptr().cast()));
            _mm512_shuffle_epi8(table, _mm512_and_si512(w, _mm512_set1_epi8(15)))
        }
    }

    #[inline(always)]
    fn high(self, w: __m512i) -> __m512i {
        // SAFETY: the value proves AVX-512 BW.
        self.low(unsafe { _mm512_srli_epi16::<4>(w) })
    }

    #[inline(always)]
    fn dot4(self, acc: __m512i, x: __m512i, w: __m512i) -> __m512i {
        // SAFETY: the value proves AVX512-VNNI.
        unsafe { _mm512_dpbusd_epi32(acc, x, w) }
    }

    #[inline(always)]
    fn even(self, x: __m512i) -> __m512i {
        // SAFETY: the value proves AVX-512 F.
        unsafe { _mm512_and_si512(x, _mm512_set1_epi32(0x00ff_00ff)) }
    }

    #[inline(always)]
    fn odd(self, x: __m512i) -> __m512i {
        // SAFETY: the value proves AVX-512 BW.
        unsafe { _mm512_srli_epi16::<8>(x) }
    }

    #[inline(always)]
    fn dot2(self, acc: __m512i, x: __m512i, w: __m512i) -> __m512i {
        // SAFETY: the value proves AVX512-VNNI.
        unsafe { _mm512_dpwssd_epi32(acc, x, w) }
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the value proves AVX-512 F.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    fn store(self, from: __m512i, to: &mut [i32; COLS]) {
        // SAFETY: the value proves AVX-512 F; sixteen i32 are one unaligned 64-byte store.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), from) }
    }
}
