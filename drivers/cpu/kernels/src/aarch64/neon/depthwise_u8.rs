//! `dw_u8_s16_s32_4x16x2_neon`: sixteen channels of up to four pixels, two taps of a kernel column per step.
//!
//! ```text
//! for each pair of taps p, q:
//!     w[p], w[q] <- ld2 of the interleaved 16-bit weights, 8 channels per register
//!     for each pixel:
//!         x <- 16 bytes at row + p, widened to 16 bits;  acc += smlal(x, w[p])
//!         y <- 16 bytes at row + q, widened to 16 bits;  acc += smlal(y, w[q])
//! ```

use crate::aarch64::simd::Neon;
use crate::depthwise::DepthwisePanel;
use crate::gemm::COLS;
use crate::tile::{ROWS, Rows, Tile};

/// See [`crate::generic::depthwise_u8::tile`].
#[inline(always)]
pub(crate) fn run<S: Neon>(s: S, a: &[u8], rows: &Rows, panel: &DepthwisePanel<'_>, tile: &mut Tile) {
    rows.check(a.len(), panel.max_offset, COLS);
    debug_assert!(panel.offsets.iter().flatten().all(|o| *o as usize <= panel.max_offset));
    let mut acc = [[s.zero(); 4]; ROWS];
    for (weights, offsets) in panel.weights.iter().zip(panel.offsets) {
        let w = [s.load_pairs(&weights[0].0), s.load_pairs(&weights[1].0)];
        for (row, acc) in rows.at.iter().zip(&mut acc) {
            for (tap, offset) in offsets.iter().enumerate() {
                // SAFETY: the check proves that 16 bytes at every row plus every offset lie within `a`.
                let x = unsafe { s.load(a.as_ptr().add(row + *offset as usize)) };
                let halves = [s.widen_low(x), s.widen_high(x)];
                for (h, x) in halves.into_iter().enumerate() {
                    acc[h * 2] = s.mul_add_low(acc[h * 2], x, w[h][tap]);
                    acc[h * 2 + 1] = s.mul_add_high(acc[h * 2 + 1], x, w[h][tap]);
                }
            }
        }
    }
    for (sums, acc) in tile.0.iter_mut().zip(acc) {
        sums.as_chunks_mut::<4>().0.iter_mut().zip(acc).for_each(|(to, acc)| s.store(acc, to));
    }
}
