//! A dense f32 product at run time: blocks of tiles, blocks of k, panels.

use core::ops::Range;

use super::finish_f32::{FinishPlan, OutF32};
use super::shape::{ConvShape, Geometry};
use super::tiles_f32::{BLOCK, Chart};
use crate::exec::Exec;
use crate::float::{GemmF32, Line, Panels, ROWS, TileRows};
use crate::gemm::COLS;
use crate::shared_out::SharedOut;

/// Bytes of weights that a first-level cache holds beside activations and outputs.
const SMALL: usize = 16 << 10;
/// Tiles of a block whose weights are small.
const FEW: usize = 4;

/// A product over some images, or over the rows of a matrix.
#[derive(Clone, Copy)]
pub(crate) struct Dense<'a, L> {
    pub(crate) shape: &'a ConvShape,
    pub(crate) geometry: &'a Geometry,
    pub(crate) chart: &'a Chart,
    pub(crate) finish: &'a FinishPlan,
    pub(crate) exec: Exec<'a>,
    /// The weights of a group.
    pub(crate) panels: &'a (dyn Fn(usize) -> Panels<'a, L> + Sync),
    pub(crate) x: &'a [f32],
    /// Laid out as `out`.
    pub(crate) residual: Option<&'a [f32]>,
    pub(crate) out: &'a SharedOut<'a, f32>,
    /// Output pixels in all.
    pub(crate) pixels: usize,
    /// Where in `out` the first one lies.
    pub(crate) first: usize,
}

impl<L: Line> Dense<'_, L> {
    /// The given tiles of the given panels, which the calling task alone writes.
    pub(crate) fn task(&self, tiles: Range<usize>, panels: Range<usize>) {
        let per_image = self.chart.tiles.len();
        // Where all weights stay in the first-level cache, few tiles at a time, so that a pixel's outputs are written together.
        let weights = self.geometry.k * self.shape.out_c * size_of::<L>() / COLS;
        let most = if weights <= SMALL { FEW } else { BLOCK };
        let mut from = tiles.start;
        while from < tiles.end {
            let (image, first) = (from / per_image, from % per_image);
            let n = most.min(per_image - first).min(tiles.end - from);
            let block = &self.chart.tiles[first..first + n];
            let rest = self.pixels - if self.chart.matrix { from * ROWS } else { 0 };
            if self.chart.matrix && rest < n * ROWS {
                let mut own = [TileRows::default(); BLOCK];
                own[..n].copy_from_slice(block);
                own[n - 1].truncate(rest - (n - 1) * ROWS);
                self.block(image, &own[..n], panels.clone());
            } else {
                self.block(image, block, panels.clone());
            }
            from += n;
        }
    }

    /// All blocks of k over some tiles of an image, or of a chunk of rows.
    fn block(&self, image: usize, tiles: &[TileRows], panels: Range<usize>) {
        let (s, g) = (self.shape, self.geometry);
        let rows = BLOCK * ROWS;
        let [in_image, out_image] =
            if self.chart.matrix { [rows * s.in_c, rows * s.out_c] } else { [g.image, g.out_image] };
        let (n_in, n_out) = (s.in_c / s.groups, s.out_c / s.groups);
        let (per_group, last) = (n_out.div_ceil(COLS), self.chart.blocks.len() - 1);
        for (i, windows) in self.chart.blocks.iter().enumerate() {
            for panel in panels.clone() {
                let (group, index) = (panel / per_group, panel % per_group);
                let (channel, weights) = (group * n_out + index * COLS, (self.panels)(group));
                self.exec.isa.gemm_f32(GemmF32 {
                    a: &self.x[image * in_image + group * n_in..],
                    tiles,
                    windows,
                    b: weights.panel(index),
                    next: weights.panel(index + 1),
                    begin: i == 0,
                    finish: (i == last).then(|| self.finish.panel(channel, self.residual)),
                    out: OutF32 {
                        out: self.out,
                        base: self.first + image * out_image + channel,
                        stride: s.out_c,
                        cols: (n_out - index * COLS).min(COLS),
                    },
                });
            }
        }
    }
}
