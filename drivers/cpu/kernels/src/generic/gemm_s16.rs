//! `gemm_s16_s16_s32_6x16x2_portable`.

use crate::gemm::COLS;
use crate::tile::{GemmRows, GemmTile};

/// Words of two neighbouring k's of sixteen columns.
pub(crate) const STEP: usize = 2 * COLS;

/// Sixteen columns of some rows: `tile[r][c] = sum over k of a[row r + k] * b[k / 2][c][k % 2]`, k below `b.len() / 16`.
///
/// Words are centred bytes or what a transformation makes of bytes, a few thousand at most, so that a pair of products fits i32. Sums
/// wrap.
pub(crate) fn tile(a: &[i16], rows: &GemmRows, b: &[i16], tile: &mut GemmTile) {
    let steps = b.as_chunks::<STEP>().0;
    rows.check(a.len(), 0, 2 * steps.len());
    *tile = GemmTile::ZERO;
    for (row, sums) in rows.at.iter().zip(&mut tile.0).take(rows.n) {
        for (x, step) in a[*row..].as_chunks::<2>().0.iter().zip(steps) {
            let [even, odd] = x.map(i32::from);
            for (c, sum) in sums.iter_mut().enumerate() {
                let pair = even * i32::from(step[2 * c]) + odd * i32::from(step[2 * c + 1]);
                *sum = sum.wrapping_add(pair);
            }
        }
    }
}
