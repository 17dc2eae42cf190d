//! `dw_u8_s16_s32_4x16x2_avx2`: sixteen channels of four pixels, two taps of a kernel column per step.
//!
//! ```text
//! for each pair of kernel rows, for each kernel column:          the general loop
//!     for each pixel:
//!         x <- 16 bytes at row + p,  y <- 16 bytes at row + q
//!         interleave to (x0 y0 x1 y1 ...), widen to 16 bits: 8 channels per register
//!         acc += vpmaddwd(interleaved, weights of the pair)       x*w[p] + y*w[q] per channel, in 32 bits
//! ```
//! Where the four pixels are `STRIDE` columns apart and the kernel is 3 or 5 wide, `sliding` walks over image columns instead: each is
//! interleaved once and multiplied for every pixel whose window it belongs to.

use core::arch::x86_64::*;

use crate::depthwise::DepthwisePanel;
use crate::gemm::{Block, COLS};
use crate::tile::{ROWS, Rows, Tile};

type Half = [__m256i; 2];
type Acc = [Half; ROWS];

/// See [`crate::generic::depthwise_u8::tile`].
#[target_feature(enable = "avx2")]
pub(crate) fn tile(a: &[u8], rows: &Rows, panel: &DepthwisePanel<'_>, tile: &mut Tile) {
    rows.check(a.len(), panel.max_offset, COLS);
    debug_assert!(panel.offsets.iter().flatten().all(|o| *o as usize <= panel.max_offset));
    // SAFETY: the check proves that 16 bytes at every row plus every offset lie within `a`.
    unsafe { run(a, rows, panel, tile) }
}

/// Columns between neighbouring pixels of a full tile, if they are evenly spaced by one or two.
fn stride(rows: &Rows, column: usize) -> Option<usize> {
    let even = |step: usize| rows.at.windows(2).all(|w| w[1].checked_sub(w[0]) == Some(step));
    (1..=2).find(|s| rows.n == ROWS && column > 0 && even(s * column))
}

/// # Safety
/// `rows.check(a.len(), panel.max_offset, 16)` passed, and no offset exceeds `max_offset`.
#[target_feature(enable = "avx2")]
unsafe fn run(a: &[u8], rows: &Rows, panel: &DepthwisePanel<'_>, tile: &mut Tile) {
    // SAFETY: the rows lie within `a`, as checked by the caller.
    let base: [*const u8; ROWS] = core::array::from_fn(|r| unsafe { a.as_ptr().add(rows.at[r]) });
    // SAFETY: `sliding` reads what `general` reads, since its pixels are evenly spaced; the caller checked those reads.
    let acc = unsafe {
        match (panel.window.kernel[1], stride(rows, panel.window.column)) {
            (3, Some(1)) => sliding::<3, 1>(base[0], panel),
            (3, Some(2)) => sliding::<3, 2>(base[0], panel),
            (5, Some(1)) => sliding::<5, 1>(base[0], panel),
            (5, Some(2)) => sliding::<5, 2>(base[0], panel),
            _ => general(base, panel),
        }
    };
    for (sums, [low, high]) in tile.0.iter_mut().zip(acc) {
        let to = sums.as_mut_ptr().cast::<__m256i>();
        // SAFETY: a tile row is 16 i32: two unaligned 32-byte stores fill it.
        unsafe {
            _mm256_storeu_si256(to, low);
            _mm256_storeu_si256(to.add(1), high);
        }
    }
}

/// # Safety
/// 16 bytes at each base plus each offset of the panel may be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn general(base: [*const u8; ROWS], panel: &DepthwisePanel<'_>) -> Acc {
    let mut acc = [[_mm256_setzero_si256(); 2]; ROWS];
    for (weights, [p, q]) in panel.weights.iter().zip(panel.offsets) {
        let w = [load(&weights[0]), load(&weights[1])];
        for (base, acc) in base.iter().zip(&mut acc) {
            // SAFETY: passed on to the caller.
            let x = unsafe { interleaved(base.add(*p as usize), base.add(*q as usize)) };
            add(acc, x, w);
        }
    }
    acc
}

/// # Safety
/// The pixels begin at `base`, `STRIDE` columns apart, and 16 bytes at each plus each offset of the panel may be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn sliding<const WIDTH: usize, const STRIDE: usize>(base: *const u8, panel: &DepthwisePanel<'_>) -> Acc {
    let mut acc = [[_mm256_setzero_si256(); 2]; ROWS];
    let (pairs, offsets) = (panel.weights.as_chunks::<WIDTH>().0, panel.offsets.as_chunks::<WIDTH>().0);
    for (weights, offsets) in pairs.iter().zip(offsets) {
        let [p, q] = offsets[0];
        for column in 0..(ROWS - 1) * STRIDE + WIDTH {
            let at = column * panel.window.column;
            // SAFETY: the column is tap `column - r * STRIDE` of some pixel r, whose reads the caller has covered.
            let x = unsafe { interleaved(base.add(p as usize + at), base.add(q as usize + at)) };
            for (r, acc) in acc.iter_mut().enumerate() {
                if column >= r * STRIDE && column - r * STRIDE < WIDTH {
                    let [low, high] = &weights[column - r * STRIDE];
                    add(acc, x, [load(low), load(high)]);
                }
            }
        }
    }
    acc
}

/// Two rows of sixteen bytes as pairs of 16 bits, channels 0..8 and 8..16.
///
/// # Safety
/// 16 bytes may be read at both addresses.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn interleaved(p: *const u8, q: *const u8) -> Half {
    // SAFETY: passed on to the caller.
    let [x, y] = unsafe { [_mm_loadu_si128(p.cast()), _mm_loadu_si128(q.cast())] };
    [_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(x, y)), _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(x, y))]
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(acc: &mut Half, x: Half, w: Half) {
    for h in 0..2 {
        acc[h] = _mm256_add_epi32(acc[h], _mm256_madd_epi16(x[h], w[h]));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(block: &Block) -> __m256i {
    // SAFETY: a block is 32 bytes on a 32-byte boundary.
    unsafe { _mm256_load_si256(block.0.as_ptr().cast()) }
}
