//! `gemm_f32_f32_f32_6x16x1_portable`.

use crate::float::{Line, RowsF32, Runs, TileF32};
#[cfg(not(feature = "std"))]
use crate::float_ops::FloatOps as _;

/// `tile[r][c] = fma(a[row r][k], b[k][c], tile[r][c])` over ascending k of `runs`, from +0.
pub(crate) fn tile(a: &[f32], rows: &RowsF32, runs: &Runs, b: &[Line], tile: &mut TileF32) {
    rows.check(runs, a.len(), b.len());
    *tile = TileF32::ZERO;
    for (r, sums) in tile.0.iter_mut().enumerate().take(rows.n) {
        runs.for_each(|at, line| {
            let x = &a[rows.start(r, at)..][..runs.len];
            for (x, w) in x.iter().zip(&b[line..]) {
                for (sum, w) in sums.iter_mut().zip(&w.0) {
                    *sum = x.mul_add(*w, *sum);
                }
            }
        });
    }
}
