//! The pixels of one pass, their activation rows, and how a pass is cut into tasks.

use core::ops::Range;

use crate::error::Result;
use crate::exec::Exec;
use crate::tile::{GEMM_ROWS, GemmRows};

/// Activations that a block of pixels reads before the next panel reads them again; about half of a second-level cache.
const DENSE_BLOCK: usize = 192 << 10;
/// Fewest pixels worth a task of their own.
const MIN_PIXELS: usize = 16;

/// Output pixels `0..n` of a pass and where each finds its activations.
#[derive(Clone, Copy)]
pub(crate) struct Pixels<'a> {
    /// The activations.
    pub(crate) a: &'a [u8],
    /// Pixels.
    pub(crate) n: usize,
    /// Pixels per output row.
    pub(crate) wide: usize,
    /// Bytes from one output row's activations to the next.
    pub(crate) row_step: usize,
    /// Bytes from one pixel's activations to the next.
    pub(crate) col_step: usize,
    /// Index of pixel 0 in the whole output.
    pub(crate) first_out: usize,
}

impl Pixels<'_> {
    /// Row and column of pixel `i`.
    pub(crate) fn cursor(&self, i: usize) -> [usize; 2] {
        [i / self.wide, i % self.wide]
    }

    /// Sets the activation rows of the tile of `n` pixels at the cursor, each moved by `offset` bytes; advances the cursor. In place,
    /// because copying rows just written would stall on the pending stores.
    #[inline]
    pub(crate) fn fill(&self, rows: &mut GemmRows, [y, x]: &mut [usize; 2], n: usize, offset: usize) {
        let mut last = 0;
        for (r, row) in rows.at.iter_mut().enumerate() {
            if r < n {
                last = *y * self.row_step + *x * self.col_step + offset;
                *x += 1;
                if *x == self.wide {
                    (*y, *x) = (*y + 1, 0);
                }
            }
            *row = last;
        }
        rows.n = n;
    }

    /// Runs `task(pixels, panels)` over a grid of disjoint rectangles that covers everything; `macs` is the cost of the whole pass.
    pub(crate) fn grid(
        &self,
        exec: Exec<'_>,
        n_panels: usize,
        macs: usize,
        task: &(dyn Fn(Range<usize>, Range<usize>) + Sync),
    ) -> Result<()> {
        let parts = exec.parts(macs, usize::MAX);
        let pixel_parts = parts.min(self.n.div_ceil(MIN_PIXELS)).max(1);
        let panel_parts = parts.div_ceil(pixel_parts).min(n_panels).max(1);
        let pixel_step = self.n.div_ceil(pixel_parts).next_multiple_of(GEMM_ROWS).max(1);
        let panel_step = n_panels.div_ceil(panel_parts).max(1);
        let (rows, cols) = (self.n.div_ceil(pixel_step), n_panels.div_ceil(panel_step));
        exec.pool.parallel_for(rows * cols, &|t| {
            let (p, q) = (t / cols * pixel_step, t % cols * panel_step);
            task(p..(p + pixel_step).min(self.n), q..(q + panel_step).min(n_panels));
        })
    }
}

/// Pixels per block so that their activations stay in cache while all panels pass over them.
pub(crate) fn block_pixels(bytes_per_pixel: usize) -> usize {
    (DENSE_BLOCK / bytes_per_pixel.max(1)).next_multiple_of(GEMM_ROWS).max(2 * GEMM_ROWS)
}
