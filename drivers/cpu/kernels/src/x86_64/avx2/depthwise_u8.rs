//! `dw_u8_s16_s32_4x16x2_avx2`: sixteen channels of four pixels, two taps per step.
//!
//! ```text
//! for each pair of taps (p, q):
//!     for each pixel:
//!         x <- 16 bytes at row + p,  y <- 16 bytes at row + q
//!         interleave to (x0 y0 x1 y1 ...), widen to 16 bits: 8 channels per register
//!         acc += vpmaddwd(interleaved, weights of the pair)       x*w[p] + y*w[q] per channel, in 32 bits
//! ```

use core::arch::x86_64::*;

use crate::depthwise::DepthwisePanel;
use crate::gemm::{Block, COLS};
use crate::isa::Avx2;
use crate::tile::{ROWS, Rows, Tile};

/// See [`crate::generic::depthwise_u8::tile`].
pub(crate) fn tile(_proof: Avx2, a: &[u8], rows: &Rows, panel: &DepthwisePanel<'_>, tile: &mut Tile) {
    rows.check(a.len(), panel.max_offset, COLS);
    debug_assert!(panel.offsets.iter().flatten().all(|o| *o as usize <= panel.max_offset));
    // SAFETY: the token proves AVX2; the check proves that 16 bytes at every row plus every offset lie within `a`.
    unsafe { run(a, rows, panel, tile) }
}

/// # Safety
/// `rows.check(a.len(), panel.max_offset, 16)` passed, and no offset exceeds `max_offset`.
#[target_feature(enable = "avx2")]
unsafe fn run(a: &[u8], rows: &Rows, panel: &DepthwisePanel<'_>, tile: &mut Tile) {
    // SAFETY: the rows lie within `a`, as checked by the caller.
    let base: [*const u8; ROWS] = core::array::from_fn(|r| unsafe { a.as_ptr().add(rows.at[r]) });
    let mut acc = [[_mm256_setzero_si256(); 2]; ROWS];
    for (weights, [p, q]) in panel.weights.iter().zip(panel.offsets) {
        let w = [load(&weights[0]), load(&weights[1])];
        for (base, acc) in base.iter().zip(&mut acc) {
            // SAFETY: row plus offset plus 16 lies within `a`, as checked by the caller.
            let [x, y] = [*p, *q].map(|o| unsafe { _mm_loadu_si128(base.add(o as usize).cast()) });
            let low = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(x, y));
            let high = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(x, y));
            acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(low, w[0]));
            acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(high, w[1]));
        }
    }
    for (sums, [low, high]) in tile.0.iter_mut().zip(acc) {
        let to = sums.as_mut_ptr().cast::<__m256i>();
        // SAFETY: a tile row is 16 i32: two unaligned 32-byte stores fill it.
        unsafe {
            _mm256_storeu_si256(to, low);
            _mm256_storeu_si256(to.add(1), high);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(block: &Block) -> __m256i {
    // SAFETY: a block is 32 bytes on a 32-byte boundary.
    unsafe { _mm256_load_si256(block.0.as_ptr().cast()) }
}
