//! `gemm_f32_f32_f32_6x16x1_portable`, the same with f16 and bf16 weights, and the frame for kernels that compute one tile in memory.

use crate::float::{GemmF32, Line, RowsF32, Runs, TileF32};
#[cfg(not(feature = "std"))]
use crate::float_ops::FloatOps as _;

/// `sum[r][c] = fma(a[row r][k], b[k][c], sum[r][c])` over ascending k of the tile's runs, for every tile.
pub(crate) fn run<L: Line>(job: GemmF32<'_, L>) {
    by_tiles(job, tile);
}

/// Loads, finishes and stores each tile of a job; `tile` continues its sums. The rows and runs that it gets are inside the slices.
#[inline(always)]
pub(crate) fn by_tiles<L: Line>(mut job: GemmF32<'_, L>, tile: impl Fn(&[f32], &RowsF32, &Runs, &[L], &mut TileF32)) {
    for rows in job.tiles {
        let runs = *job.runs(rows);
        let (n, out, mut sums) = (rows.n as usize, rows.out.map(|pixel| job.out.at(pixel)), TileF32::ZERO);
        if !job.begin {
            sums.0.iter_mut().zip(out).take(n).for_each(|(sums, at)| *sums = job.out.load(at));
        }
        tile(job.a, &RowsF32 { at: rows.at.map(|at| at as usize), n }, &runs, job.b, &mut sums);
        for (sums, at) in sums.0.iter_mut().zip(out).take(n) {
            if let Some(finish) = &job.finish {
                finish.apply(sums, at, job.out.cols);
            }
            job.out.store(at, sums);
        }
    }
}

/// One tile in plain Rust.
fn tile<L: Line>(a: &[f32], rows: &RowsF32, runs: &Runs, b: &[L], tile: &mut TileF32) {
    for (r, sums) in tile.0.iter_mut().enumerate().take(rows.n) {
        runs.for_each(|at, line| {
            for (x, line) in a[rows.at[r] + at..][..runs.len].iter().zip(&b[line..]) {
                for (sum, w) in sums.iter_mut().zip(line.widen()) {
                    *sum = x.mul_add(w, *sum);
                }
            }
        });
    }
}
