//! `gemm_f32_f32_f32_6x16x1_avx512vnni`: six rows by one register of sixteen columns, one FMA per accumulator and k.
//!
//! The order of k is that of the portable kernel, and a vector FMA rounds each lane as the scalar one does: the bits are equal.

use core::arch::x86_64::*;

use crate::float::{Line, ROWS, RowsF32, Runs, TileF32};

/// See [`crate::generic::gemm_f32::tile`].
#[target_feature(enable = "avx512f")]
pub(crate) fn tile(a: &[f32], rows: &RowsF32, runs: &Runs, b: &[Line], tile: &mut TileF32) {
    rows.check(runs, a.len(), b.len());
    // SAFETY: `check` proves every activation and every weight line that `runs` reaches.
    unsafe {
        match rows.n {
            1 => run::<1>(a, rows, runs, b, tile),
            2 => run::<2>(a, rows, runs, b, tile),
            3 | 4 => run::<4>(a, rows, runs, b, tile),
            _ => run::<ROWS>(a, rows, runs, b, tile),
        }
    }
}

/// # Safety
/// `rows.check(runs, a.len(), b.len())` passed.
#[target_feature(enable = "avx512f")]
unsafe fn run<const R: usize>(a: &[f32], rows: &RowsF32, runs: &Runs, b: &[Line], tile: &mut TileF32) {
    let mut acc = [_mm512_setzero_ps(); R];
    runs.for_each(|at, line| {
        // SAFETY: the caller checked that `runs.len` activations begin at each row moved by `at`.
        let rows: [*const f32; R] = core::array::from_fn(|r| unsafe { a.as_ptr().add(rows.start(r, at)) });
        for (k, line) in b[line..line + runs.len].iter().enumerate() {
            // SAFETY: a line is 16 f32 on a 64-byte boundary.
            let w = unsafe { _mm512_load_ps(line.0.as_ptr()) };
            for (row, acc) in rows.iter().zip(&mut acc) {
                // SAFETY: `k` is below `runs.len`, which the caller has checked.
                *acc = _mm512_fmadd_ps(_mm512_set1_ps(unsafe { *row.add(k) }), w, *acc);
            }
        }
    });
    for (sums, acc) in tile.0.iter_mut().zip(acc) {
        // SAFETY: a tile row is 16 f32: one unaligned 64-byte store fills it.
        unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), acc) };
    }
}
