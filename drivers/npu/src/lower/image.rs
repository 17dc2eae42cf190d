//! Tiles of images with their channels last: rows, columns and channels of the output, and the inputs they need.

use super::window::{Axis, Part};
use super::{At, Loc};
use crate::emit::{Op, Rows};
use ottava_npu::isa::Local;
use std::ops::Range;

/// Images and their windows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub batch: usize,
    pub h: Axis,
    pub w: Axis,
    /// Channels of the input.
    pub channels: usize,
    /// Output channels per input channel.
    pub multiplier: usize,
}

/// Sizes of a tile: output rows, output columns, input channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub rows: usize,
    pub columns: usize,
    pub channels: usize,
}

/// One tile.
#[derive(Debug, Clone)]
pub(crate) struct Tile {
    pub image: usize,
    pub h: Part,
    pub w: Part,
    /// Input channels.
    pub channels: Range<usize>,
    /// The first tile of these channels.
    pub first: bool,
}

/// Bytes of input above which an image is cut in rows even where it fits, so that transfers and work overlap.
const OVERLAP_BYTES: usize = 2048;

impl Geometry {
    /// Bytes of input of a tile, whose elements are bytes.
    pub(crate) fn input_bytes(&self, size: Size) -> usize {
        self.h.reach(size.rows) * self.w.reach(size.columns) * size.channels
    }

    /// Elements (or accumulators) of output of a tile.
    pub(crate) fn output_elements(&self, size: Size) -> usize {
        size.rows * size.columns * size.channels * self.multiplier
    }

    /// The largest tile that `fits`: rows are halved first, then channels, then columns. `None` if not even one output
    /// of one channel fits.
    pub(crate) fn choose(&self, fits: impl Fn(Size) -> bool) -> Option<Size> {
        let whole = Size { rows: self.h.output, columns: self.w.output, channels: self.channels };
        let parts = (self.input_bytes(whole) / OVERLAP_BYTES).clamp(1, 4);
        let mut size = Size { rows: self.h.output.div_ceil(parts), ..whole };
        while !fits(size) {
            match size {
                Size { rows: 2.., .. } => size.rows = size.rows.div_ceil(2),
                Size { channels: 2.., .. } => size.channels = size.channels.div_ceil(2),
                Size { columns: 2.., .. } => size.columns = size.columns.div_ceil(2),
                _ => return None,
            }
        }
        Some(size)
    }

    /// Every tile, channels outermost.
    pub(crate) fn tiles(&self, size: Size) -> impl Iterator<Item = Tile> {
        let (g, part) = (*self, |at: usize, step: usize, end: usize| at..end.min(at + step));
        (0..g.channels).step_by(size.channels).flat_map(move |c| {
            (0..g.batch).flat_map(move |image| {
                (0..g.h.output).step_by(size.rows).flat_map(move |y| {
                    (0..g.w.output).step_by(size.columns).map(move |x| Tile {
                        image,
                        h: g.h.part(part(y, size.rows, g.h.output)),
                        w: g.w.part(part(x, size.columns, g.w.output)),
                        channels: part(c, size.channels, g.channels),
                        first: image == 0 && y == 0 && x == 0,
                    })
                })
            })
        })
    }

    /// Whether whole rows of output need whole rows of input, so that rows of a kept image can be read where they lie.
    pub(crate) fn has_whole_rows(&self) -> bool {
        self.w.part(0..self.w.output).inputs == (0..self.w.input)
    }

    /// The first element of a tile's input.
    pub(crate) fn start(&self, tile: &Tile) -> usize {
        let row = tile.image * self.h.input + tile.h.inputs.start;
        (row * self.w.input + tile.w.inputs.start) * self.channels + tile.channels.start
    }

    /// Loads the inputs of a tile; they lie dense on the chip.
    pub(crate) fn loads(&self, from: Loc, tile: &Tile, to: Local, at: At<'_>) -> Vec<Op> {
        let (y, x, c) = (&tile.h.inputs, &tile.w.inputs, &tile.channels);
        let rect = Rect { image: self.w.input, all: self.channels, rows: y.len(), columns: x.len(), channels: c.len() };
        let start = self.start(tile);
        let chip = |offset: usize| Local { offset: to.offset + offset as u32, ..to };
        let ops = rect.transfers(true).into_iter();
        ops.map(|(outside, inside, rows)| Op::load(at(from.plus(start + outside)), chip(inside), rows)).collect()
    }

    /// Stores the outputs of a tile, elements of `size` bytes each. `store` makes the operation from the element's index
    /// on the chip, place and rows; with `join` rows that follow one another may become one.
    pub(crate) fn stores(
        &self,
        (to, size): (Loc, usize),
        tile: &Tile,
        join: bool,
        store: impl Fn(usize, Loc, Rows) -> Op,
    ) -> Vec<Op> {
        let (y, x) = (&tile.h.outputs, &tile.w.outputs);
        let (all, channels) = (self.channels * self.multiplier, tile.channels.len() * self.multiplier);
        let rect = Rect { image: self.w.output, all, rows: y.len(), columns: x.len(), channels };
        let line = (tile.image * self.h.output + y.start) * self.w.output + x.start;
        let start = line * all + tile.channels.start * self.multiplier;
        let ops = rect.transfers(join).into_iter();
        let sized = |rows: Rows| Rows { bytes: rows.bytes * size, pitch: rows.pitch * size, ..rows };
        ops.map(|(outside, inside, rows)| store(inside, to.plus((start + outside) * size), sized(rows))).collect()
    }
}

/// A rectangle of an image: the image's columns and channels, and the rectangle's extents.
struct Rect {
    image: usize,
    all: usize,
    rows: usize,
    columns: usize,
    channels: usize,
}

impl Rect {
    /// Two-dimensional transfers: offset outside, offset on the chip, rows. With `join` whole rows go at once.
    fn transfers(&self, join: bool) -> Vec<(usize, usize, Rows)> {
        let &Self { image, all, rows, columns, channels } = self;
        if join && channels == all {
            return vec![(0, 0, Rows { rows, bytes: columns * all, pitch: image * all })];
        }
        if columns == image {
            return vec![(0, 0, Rows { rows: rows * columns, bytes: channels, pitch: all })];
        }
        let one =
            |r: usize| (r * image * all, r * columns * channels, Rows { rows: columns, bytes: channels, pitch: all });
        (0..rows).map(one).collect()
    }
}
