//! `gemm_s16_s16_s32_4x16x2_avx2`: four rows by sixteen columns of 16-bit words, two k's per step.
//!
//! ```text
//! acc[row][2 halves of 8 columns] = 0
//! for each step:
//!     w <- 32 words: two k's of 16 columns
//!     for each row: acc[row] += vpmaddwd(broadcast the row's 2 words, w)
//! ```
//! `vpmaddwd` adds two products in 32 bits, which is exact for any words but -2^15 squared twice.

use core::arch::x86_64::*;

use crate::gemm::COLS;
use crate::tile::{ROWS, Rows, Tile};

/// Words of a step.
const STEP: usize = 2 * COLS;

/// See [`crate::generic::gemm_s16::tile`].
#[target_feature(enable = "avx2")]
pub(crate) fn tile(a: &[i16], rows: &Rows, b: &[i16], tile: &mut Tile) {
    let steps = b.as_chunks::<STEP>().0;
    rows.check(a.len(), 0, 2 * steps.len());
    // SAFETY: the check proves that two words per step may be read from every row on.
    unsafe {
        match rows.n {
            1 => run::<1>(a, rows, steps, tile),
            2 => run::<2>(a, rows, steps, tile),
            _ => run::<ROWS>(a, rows, steps, tile),
        }
    }
}

/// # Safety
/// `rows.check(a.len(), 0, 2 * steps.len())` passed.
#[target_feature(enable = "avx2")]
unsafe fn run<const R: usize>(a: &[i16], rows: &Rows, steps: &[[i16; STEP]], tile: &mut Tile) {
    // SAFETY: the rows lie within `a`, as checked by the caller.
    let x: [*const i16; R] = core::array::from_fn(|r| unsafe { a.as_ptr().add(rows.at[r]) });
    let mut acc = [[_mm256_setzero_si256(); 2]; R];
    for (i, step) in steps.iter().enumerate() {
        let w = step.as_ptr().cast::<__m256i>();
        // SAFETY: a step is 32 words: two unaligned 32-byte loads.
        let w = unsafe { [_mm256_loadu_si256(w), _mm256_loadu_si256(w.add(1))] };
        for (x, acc) in x.iter().zip(&mut acc) {
            // SAFETY: words `2 i` and `2 i + 1` of the row exist, as checked by the caller.
            let pair = unsafe { x.add(2 * i).cast::<i32>().read_unaligned() };
            let pair = _mm256_set1_epi32(pair);
            acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(pair, w[0]));
            acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(pair, w[1]));
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
