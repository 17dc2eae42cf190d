//! `gemm_f32_f32_f32_6x16x1_avx512vnni`: six rows by one register of sixteen columns, one FMA per accumulator and k.
//!
//! The order of k is that of the portable kernel, and a vector FMA rounds each lane as the scalar one does: the bits are equal.

use core::arch::x86_64::*;

use crate::float::{GemmF32, LineF32, ROWS, RowsF32, Runs, TileF32};
use crate::generic::gemm_f32::by_tiles;

/// See [`crate::generic::gemm_f32::run`].
#[target_feature(enable = "avx512f")]
pub(crate) fn run(job: GemmF32<'_, LineF32>) {
    by_tiles(job, |a, rows, runs, b, tile| {
        // SAFETY: `by_tiles` has checked every activation and every weight line that `runs` reaches.
        unsafe {
            match rows.n {
                1 => continued::<1>(a, rows, runs, b, tile),
                2 => continued::<2>(a, rows, runs, b, tile),
                3 | 4 => continued::<4>(a, rows, runs, b, tile),
                _ => continued::<ROWS>(a, rows, runs, b, tile),
            }
        }
    });
}

/// # Safety
/// The runs of all rows lie inside `a` and `b`.
#[target_feature(enable = "avx512f")]
unsafe fn continued<const R: usize>(a: &[f32], rows: &RowsF32, runs: &Runs, b: &[LineF32], tile: &mut TileF32) {
    // SAFETY: a tile row is 16 f32 on a 64-byte boundary.
    let mut acc: [__m512; R] = core::array::from_fn(|r| unsafe { _mm512_load_ps(tile.0[r].as_ptr()) });
    runs.for_each(|at, line| {
        // SAFETY: `runs.len` activations begin at each row moved by `at`.
        let rows: [*const f32; R] = core::array::from_fn(|r| unsafe { a.as_ptr().add(rows.at[r] + at) });
        for (k, line) in b[line..line + runs.len].iter().enumerate() {
            // SAFETY: a line is 16 f32 on a 64-byte boundary.
            let w = unsafe { _mm512_load_ps(line.0.as_ptr()) };
            for (row, acc) in rows.iter().zip(&mut acc) {
                // SAFETY: `k` is below `runs.len`, as said of the row.
                *acc = _mm512_fmadd_ps(_mm512_set1_ps(unsafe { *row.add(k) }), w, *acc);
            }
        }
    });
    for (sums, acc) in tile.0.iter_mut().zip(acc) {
        // SAFETY: a tile row is 16 f32: one unaligned 64-byte store fills it.
        unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), acc) };
    }
}
