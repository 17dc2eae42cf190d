//! `dw_u8_s16_s32_8x8x2_neon`: eight channels of a tile of two output rows by four pixels, two image rows per step.
//!
//! ```text
//! for each step, for each kernel column, for each pixel:
//!     x <- 8 bytes of one image row, y <- 8 bytes of the other, widened to 16 bits
//!     for each output row that the step serves:
//!         v, w <- ld2 of the interleaved 16-bit weights;  acc += smlal(x, v);  acc += smlal(y, w)
//! ```

use crate::aarch64::simd::Neon;
use crate::depthwise::{Band, CHANNELS, DepthwisePanel, LINES, PIXELS, Sums, Uses};
use crate::gemm::Block;

/// `[output row][pixel]`, four channels per register.
type Acc<N> = [[[<N as Neon>::Q; 2]; PIXELS]; LINES];

/// See [`crate::generic::depthwise_u8::tile`].
#[inline(always)]
pub(crate) fn run<N: Neon>(n: N, band: &Band<'_>, panel: &DepthwisePanel<'_>, x0: usize, sums: &mut Sums) {
    const { assert!(CHANNELS == 8) }
    band.check(panel, x0 + PIXELS);
    let mut acc: Acc<N> = [[[n.zero(); 2]; PIXELS]; LINES];
    let mut weights = panel.weights;
    for step in panel.steps {
        // SAFETY: the check covers the panel's channels of every column that the tile reads, in each row of the band.
        let rows = step.rows.map(|row| unsafe { band.a.as_ptr().add(band.row(row) + panel.channel) });
        let (mine, rest) = weights.split_at(step.uses.lines().len() * panel.window.kernel[1]);
        weights = rest;
        // SAFETY: as above.
        unsafe {
            match step.uses {
                Uses::First => columns::<N, 0, 1>(n, rows, mine, band, panel, x0, &mut acc),
                Uses::Second => columns::<N, 1, 1>(n, rows, mine, band, panel, x0, &mut acc),
                Uses::Both => columns::<N, 0, 2>(n, rows, mine, band, panel, x0, &mut acc),
            }
        }
    }
    for (to, acc) in sums.as_flattened_mut().iter_mut().zip(acc.as_flattened()) {
        to.as_chunks_mut().0.iter_mut().zip(acc).for_each(|(to, acc)| n.store(*acc, to));
    }
}

/// One step: `USED` output rows from `FIRST` on.
///
/// # Safety
/// `band.check(panel, x0 + 4)` passed, and `rows` are rows of the band at the panel's channel.
#[inline(always)]
unsafe fn columns<N: Neon, const FIRST: usize, const USED: usize>(
    n: N,
    rows: [*const u8; 2],
    weights: &[Block],
    band: &Band<'_>,
    panel: &DepthwisePanel<'_>,
    x0: usize,
    acc: &mut Acc<N>,
) {
    let window = panel.window;
    for (kx, blocks) in weights.as_chunks::<USED>().0.iter().enumerate() {
        for px in 0..PIXELS {
            let at = ((x0 + px) * window.stride[1] + kx * window.dilation[1]) * band.pixel;
            // SAFETY: the column is one of those checked.
            let both = unsafe { n.load8(rows[0].add(at), rows[1].add(at)) };
            let (x, y) = (n.widen_low(both), n.widen_high(both));
            for (block, acc) in blocks.iter().zip(&mut acc[FIRST..FIRST + USED]) {
                let [v, w] = n.load_pairs(&block.0);
                acc[px][0] = n.mul_add_low(n.mul_add_low(acc[px][0], x, v), y, w);
                acc[px][1] = n.mul_add_high(n.mul_add_high(acc[px][1], x, v), y, w);
            }
        }
    }
}
