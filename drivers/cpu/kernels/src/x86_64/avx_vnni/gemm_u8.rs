//! `gemm_u8_s8_s32_8x16x4_avxvnni`: the tiling of [`crate::dot`] over 256-bit registers, four rows at once.

use core::arch::x86_64::*;

use crate::avx2;
use crate::dot::{self, COLS_BLOCKS, Dot, S4};
use crate::gemm::{Block, COLS, Content, Panel};
use crate::tile::{GemmRows, GemmTile};

/// See [`crate::generic::gemm_u8::tile`].
#[target_feature(enable = "avx2,avxvnni")]
pub(crate) fn tile(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    if panel.content != Content::Dot {
        return avx2::gemm_u8(a, rows, panel, tile);
    }
    // Four rows are eight accumulators; with two registers of weights and one of activations they leave no spills.
    dot::tile::<Ymm, 4, 1>(Ymm(()), a, rows, panel, tile);
}

/// Made and used only inside [`tile`], whose callers have AVX-VNNI.
#[derive(Clone, Copy)]
struct Ymm(());

impl Dot for Ymm {
    type Cols = [__m256i; 2];
    type Group = __m256i;

    #[inline(always)]
    fn zero(self) -> Self::Cols {
        // SAFETY: the value proves AVX2.
        unsafe { [_mm256_setzero_si256(); 2] }
    }

    #[inline(always)]
    fn weights(self, from: &[Block; COLS_BLOCKS]) -> Self::Cols {
        // SAFETY: the value proves AVX2; a block is 32 bytes on a 32-byte boundary.
        unsafe { [_mm256_load_si256(from[0].0.as_ptr().cast()), _mm256_load_si256(from[1].0.as_ptr().cast())] }
    }

    #[inline(always)]
    unsafe fn group(self, from: *const u8) -> __m256i {
        // SAFETY: the value proves AVX2; the caller proves the read.
        unsafe { _mm256_set1_epi32(from.cast::<i32>().read_unaligned()) }
    }

    #[inline(always)]
    fn low(self, w: Self::Cols) -> Self::Cols {
        // SAFETY: the value proves AVX2.
        unsafe {
            let (mask, table) =
                (_mm256_set1_epi8(15), _mm256_broadcastsi128_si256(_mm_loadu_si128(S4.as_ptr().cast())));
            w.map(|w| _mm256_shuffle_epi8(table, _mm256_and_si256(w, mask)))
        }
    }

    #[inline(always)]
    fn high(self, w: Self::Cols) -> Self::Cols {
        // SAFETY: the value proves AVX2.
        self.low(unsafe { w.map(|w| _mm256_srli_epi16::<4>(w)) })
    }

    #[inline(always)]
    fn dot4(self, acc: Self::Cols, x: __m256i, w: Self::Cols) -> Self::Cols {
        // SAFETY: the value proves AVX-VNNI.
        unsafe { [_mm256_dpbusd_avx_epi32(acc[0], x, w[0]), _mm256_dpbusd_avx_epi32(acc[1], x, w[1])] }
    }

    #[inline(always)]
    fn even(self, x: __m256i) -> __m256i {
        // SAFETY: the value proves AVX2.
        unsafe { _mm256_and_si256(x, _mm256_set1_epi16(0xff)) }
    }

    #[inline(always)]
    fn odd(self, x: __m256i) -> __m256i {
        // SAFETY: the value proves AVX2.
        unsafe { _mm256_srli_epi16::<8>(x) }
    }

    #[inline(always)]
    fn dot2(self, acc: Self::Cols, x: __m256i, w: Self::Cols) -> Self::Cols {
        // SAFETY: the value proves AVX-VNNI.
        unsafe { [_mm256_dpwssd_avx_epi32(acc[0], x, w[0]), _mm256_dpwssd_avx_epi32(acc[1], x, w[1])] }
    }

    #[inline(always)]
    fn add(self, a: Self::Cols, b: Self::Cols) -> Self::Cols {
        // SAFETY: the value proves AVX2.
        unsafe { [_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])] }
    }

    #[inline(always)]
    fn store(self, from: Self::Cols, to: &mut [i32; COLS]) {
        let to = to.as_mut_ptr().cast::<__m256i>();
        // SAFETY: the value proves AVX2; sixteen i32 are two unaligned 32-byte stores.
        unsafe {
            _mm256_storeu_si256(to, from[0]);
            _mm256_storeu_si256(to.add(1), from[1]);
        }
    }
}
