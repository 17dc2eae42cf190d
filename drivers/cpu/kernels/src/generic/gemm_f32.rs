//! `gemm_f32_f32_f32_6x16x1_portable`, and the same with f16 and bf16 weights.

use crate::float::{GemmF32, Line};
#[cfg(not(feature = "std"))]
use crate::float_ops::FloatOps as _;
use crate::gemm::COLS;

/// `sum[r][c] = fma(a[row r][k], b[k][c], sum[r][c])` over ascending k of the tile's runs, for every tile.
pub(crate) fn run<L: Line>(mut job: GemmF32<'_, L>) {
    for tile in job.tiles {
        let runs = *job.runs(tile);
        for r in 0..tile.n as usize {
            let (row, at) = (tile.at[r] as usize, job.out.at(tile.out[r]));
            let mut sums = if job.begin { [0.0; COLS] } else { job.out.load(at) };
            runs.for_each(|a, b| {
                for (x, line) in job.a[row + a..][..runs.len].iter().zip(&job.b[b..]) {
                    for (sum, w) in sums.iter_mut().zip(line.widen()) {
                        *sum = x.mul_add(w, *sum);
                    }
                }
            });
            if let Some(finish) = &job.finish {
                finish.apply(&mut sums, at, job.out.cols);
            }
            job.out.store(at, &sums);
        }
    }
}
