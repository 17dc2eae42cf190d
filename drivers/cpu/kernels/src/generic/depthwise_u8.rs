//! `dw_u8_s16_s32_4x16x2_portable`.

use crate::depthwise::DepthwisePanel;
use crate::gemm::COLS;
use crate::tile::{Rows, Tile};

/// Sixteen channels of up to four pixels: `tile[r][c] = sum over taps of a[row r + tap offset + c] * w[tap][c]`.
pub(crate) fn tile(a: &[u8], rows: &Rows, panel: &DepthwisePanel<'_>, tile: &mut Tile) {
    rows.check(a.len(), panel.max_offset, COLS);
    *tile = Tile::ZERO;
    for (weights, offsets) in panel.weights.iter().zip(panel.offsets) {
        for (row, sums) in rows.at.iter().zip(&mut tile.0).take(rows.n) {
            let [x, y] = offsets.map(|o| &a[row + o as usize..][..COLS]);
            for (c, sum) in sums.iter_mut().enumerate() {
                let (block, at) = (&weights[c / 8].0, c % 8 * 4);
                let [v, w] = [at, at + 2].map(|i| i32::from(i16::from_le_bytes([block[i], block[i + 1]])));
                *sum = sum.wrapping_add(i32::from(x[c]) * v + i32::from(y[c]) * w);
            }
        }
    }
}
