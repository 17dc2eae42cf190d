//! The pixels of one pass, their activation rows, and how a pass is cut into tasks.

use core::ops::Range;

use super::shape::ConvShape;
use crate::error::Result;
use crate::exec::Exec;
use crate::tile::{GEMM_ROWS, GemmRows};

/// Activations that a block of pixels reads before the next panel reads them again; about half of a second-level cache.
const DENSE_BLOCK: usize = 192 << 10;
/// Bytes of a cache line.
const LINE: usize = 64;
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
        let line = *y * self.row_step + offset;
        if *x + n <= self.wide {
            for (r, row) in rows.at.iter_mut().enumerate() {
                *row = line + (*x + r.min(n.wrapping_sub(1))) * self.col_step;
            }
            *x += n;
            if *x == self.wide {
                (*y, *x) = (*y + 1, 0);
            }
            rows.n = n;
            return;
        }
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

/// Pixels per block, so that what a block reads, and the lines of output that a few panels fill piece by piece, stay in cache while all
/// panels pass over them.
pub(crate) fn block_pixels(s: &ConvShape) -> usize {
    let (block, in_c) = (DENSE_BLOCK, s.in_c);
    let read = in_c.saturating_mul(s.stride[0]).saturating_mul(s.stride[1]);
    let halo = (s.kernel[0] - 1).saturating_mul(s.in_w).saturating_mul(in_c).min(block / 2);
    ((block - halo) / read.saturating_add(s.out_c.min(LINE))).next_multiple_of(GEMM_ROWS).max(4 * GEMM_ROWS)
}
