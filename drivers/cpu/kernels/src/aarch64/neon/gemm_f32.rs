//! `gemm_f32_f32_f32_6x16x1_neon`: six rows by four registers of four columns, one FMA by element per accumulator and k.
//!
//! ```text
//! acc[row][4] = +0
//! for each run of taps, for each k in it, ascending:
//!     w <- 16 weights of k
//!     for each row: acc[row] = fma(w, a[row][k], acc[row])
//! ```
//! The order of k is that of the portable kernel, and a vector FMA rounds each lane as the scalar one does: the bits are equal.

use crate::aarch64::simd::Neon;
use crate::float::{Line, ROWS, RowsF32, Runs, TileF32};

/// See [`crate::generic::gemm_f32::tile`].
#[inline(always)]
pub(crate) fn run<S: Neon>(s: S, a: &[f32], rows: &RowsF32, runs: &Runs, b: &[Line], tile: &mut TileF32) {
    rows.check(runs, a.len(), b.len());
    // SAFETY: `check` proves every activation that `runs` reaches.
    unsafe {
        match rows.n {
            1 => rows_of::<S, 1>(s, a, rows, runs, b, tile),
            2 => rows_of::<S, 2>(s, a, rows, runs, b, tile),
            3 | 4 => rows_of::<S, 4>(s, a, rows, runs, b, tile),
            _ => rows_of::<S, ROWS>(s, a, rows, runs, b, tile),
        }
    }
}

/// # Safety
/// `rows.check(runs, a.len(), b.len())` passed.
#[inline(always)]
unsafe fn rows_of<S: Neon, const R: usize>(
    s: S,
    a: &[f32],
    rows: &RowsF32,
    runs: &Runs,
    b: &[Line],
    tile: &mut TileF32,
) {
    let mut acc = [[s.load_f32(&[0.0; 4]); 4]; R];
    for (y, x) in (0..runs.n_outer).flat_map(|y| (0..runs.n_inner).map(move |x| (y, x))) {
        let at = runs.a + y * runs.a_outer + x * runs.a_inner;
        let line = runs.b + y * runs.b_outer + x * runs.b_inner;
        // SAFETY: the caller checked that `runs.len` activations begin at each row moved by `at`.
        let rows: [*const f32; R] = core::array::from_fn(|r| unsafe { a.as_ptr().add(rows.start(r, at)) });
        for (k, line) in b[line..line + runs.len].iter().enumerate() {
            let w = line.0.as_chunks::<4>().0;
            for (row, acc) in rows.iter().zip(acc.iter_mut()) {
                // SAFETY: `k` is below `runs.len`.
                let x = unsafe { *row.add(k) };
                for (acc, w) in acc.iter_mut().zip(w) {
                    *acc = s.fma(*acc, s.load_f32(w), x);
                }
            }
        }
    }
    for (sums, acc) in tile.0.iter_mut().zip(acc) {
        sums.as_chunks_mut::<4>().0.iter_mut().zip(acc).for_each(|(to, acc)| s.store_f32(acc, to));
    }
}
