//! `gemm_f32_f32_f32_6x16x1_avx2`: six rows by two registers of eight columns, one FMA per accumulator and k.
//!
//! ```text
//! acc[row][2] = +0
//! for each run of taps, for each k in it, ascending:
//!     w <- 16 weights of k
//!     for each row: acc[row] = fma(broadcast a[row][k], w, acc[row])
//! ```
//! The order of k is that of the portable kernel, and a vector FMA rounds each lane as the scalar one does: the bits are equal.

use core::arch::x86_64::*;

use crate::float::{Line, ROWS, RowsF32, Runs, TileF32};

/// See [`crate::generic::gemm_f32::tile`].
#[target_feature(enable = "avx2,fma")]
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
#[target_feature(enable = "avx2,fma")]
unsafe fn run<const R: usize>(a: &[f32], rows: &RowsF32, runs: &Runs, b: &[Line], tile: &mut TileF32) {
    let mut acc = [[_mm256_setzero_ps(); 2]; R];
    for y in 0..runs.n_outer {
        for x in 0..runs.n_inner {
            let at = runs.a + y * runs.a_outer + x * runs.a_inner;
            let line = runs.b + y * runs.b_outer + x * runs.b_inner;
            // SAFETY: the caller checked that `runs.len` activations begin at each row moved by `at`.
            let rows: [*const f32; R] = core::array::from_fn(|r| unsafe { a.as_ptr().add(rows.start(r, at)) });
            // SAFETY: as above for the rows, and for `runs.len` lines from `line` on.
            unsafe { accumulate(rows, &b[line..line + runs.len], &mut acc) };
        }
    }
    for (sums, [low, high]) in tile.0.iter_mut().zip(acc) {
        let to = sums.as_mut_ptr();
        // SAFETY: a tile row is 16 f32: two unaligned 32-byte stores fill it.
        unsafe {
            _mm256_storeu_ps(to, low);
            _mm256_storeu_ps(to.add(8), high);
        }
    }
}

/// # Safety
/// Each row points to at least `lines.len()` readable values.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn accumulate<const R: usize>(rows: [*const f32; R], lines: &[Line], acc: &mut [[__m256; 2]; R]) {
    for (k, line) in lines.iter().enumerate() {
        // SAFETY: a line is 16 f32 on a 64-byte boundary.
        let w = unsafe { [_mm256_load_ps(line.0.as_ptr()), _mm256_load_ps(line.0.as_ptr().add(8))] };
        for (row, acc) in rows.iter().zip(acc.iter_mut()) {
            // SAFETY: `k` is below the number of lines, which the caller has covered.
            let x = _mm256_set1_ps(unsafe { *row.add(k) });
            acc[0] = _mm256_fmadd_ps(x, w[0], acc[0]);
            acc[1] = _mm256_fmadd_ps(x, w[1], acc[1]);
        }
    }
}
