//! How the pixels of an f32 convolution are gathered into tiles, and how k is cut into blocks.
//!
//! A tile's pixels see the same window of taps. Pixels are visited so that neighbours in the visit share a window: the rows of an image
//! that see the same kernel rows form a class; a class is visited in bands, in each the border columns from top to bottom first, then
//! the interior row by row. All of this is a table of the plan; rows of a matrix are the table of one chunk, repeated.
//!
//! A block of k is a box of kernel rows x kernel columns x input channels whose lines stay in the first-level cache while the tiles of
//! a block of pixels pass over them. Boxes are ordered as k is.

use alloc::vec;
use alloc::vec::Vec;

use core::ops::Range;

use super::shape::{ConvShape, Geometry};
use super::window::{Axis, axes};
use crate::error::{KernelError, Result};
use crate::float::{ROWS, Runs, TileRows};

/// Tiles whose activations stay in the second-level cache while all panels pass over them.
pub(crate) const BLOCK: usize = 48;
/// Rows of an image that are visited together; a multiple of [`ROWS`].
const BAND: usize = 2 * ROWS;
/// Weight lines (64 bytes in f32) that a first-level cache holds beside activations.
const K_BLOCK: usize = 256;
/// No blocks of k below this.
const K_WHOLE: usize = 384;

/// Tiles and blocks of k of a plan.
pub(crate) struct Chart {
    /// Tiles of an image, or of a chunk of matrix rows.
    pub(crate) tiles: Vec<TileRows>,
    /// Per block of k: the runs of each window.
    pub(crate) blocks: Vec<Vec<Runs>>,
    /// Whether the input is a matrix of pixels, so that the table is that of a chunk.
    pub(crate) matrix: bool,
}

impl Chart {
    pub(crate) fn new(s: &ConvShape, g: &Geometry) -> Result<Self> {
        let limit = u32::MAX as usize;
        let (tiles, windows) = if s.is_pointwise() {
            (matrix(s)?, vec![[0..1, 0..1]])
        } else if g.image > limit || g.out_image > limit {
            return Err(KernelError::Overflow { what: "an image" });
        } else {
            image(s, g)?
        };
        let block = |cube: &Cube| windows.iter().map(|w| cube.runs(s, w)).collect();
        Ok(Self { tiles, blocks: cubes(s).iter().map(block).collect(), matrix: s.is_pointwise() })
    }

    /// For plans that have no use for one.
    pub(crate) fn none() -> Self {
        Self { tiles: vec![], blocks: vec![], matrix: false }
    }

    /// Tiles of `pixels` output pixels, `per_image` of them in an image.
    pub(crate) fn count(&self, pixels: usize, per_image: usize) -> usize {
        if self.matrix { pixels.div_ceil(ROWS) } else { pixels / per_image.max(1) * self.tiles.len() }
    }
}

/// The taps of a window.
type Window = [Range<usize>; 2];

/// A chunk of matrix rows.
fn matrix(s: &ConvShape) -> Result<Vec<TileRows>> {
    let overflow = KernelError::Overflow { what: "a block of rows" };
    let at = |row: usize| row.checked_mul(s.in_c).and_then(|at| u32::try_from(at).ok()).ok_or(overflow.clone());
    let tile = |t: usize| {
        let mut tile = TileRows { n: ROWS as u32, ..TileRows::default() };
        for (r, (from, to)) in tile.at.iter_mut().zip(&mut tile.out).enumerate() {
            (*from, *to) = (at(t * ROWS + r)?, (t * ROWS + r) as u32);
        }
        Ok(tile)
    };
    (0..BLOCK).map(tile).collect()
}

/// The tiles of an image, whose elements fit u32, and their windows.
fn image(s: &ConvShape, g: &Geometry) -> Result<(Vec<TileRows>, Vec<Window>)> {
    let [v, h] = axes(s);
    let interior = h.interior(g.out_w);
    let mut gather =
        Gather { s, axes: [v, h], out_w: g.out_w, tiles: vec![], windows: vec![], window: 0, pixels: vec![] };
    let memory = gather.tiles.try_reserve(g.out_h * g.out_w / ROWS);
    memory.map_err(|_| KernelError::Overflow { what: "the table of tiles" })?;
    for rows in classes(&v, g.out_h) {
        for from in rows.clone().step_by(BAND) {
            let band = from..(from + BAND).min(rows.end);
            for x in (0..interior.start).chain(interior.end..g.out_w) {
                gather.run(band.clone(), x..x + 1);
            }
            band.for_each(|y| gather.run(y..y + 1, interior.clone()));
        }
    }
    gather.flush();
    Ok((gather.tiles, gather.windows))
}

/// Output rows that see the same kernel rows, together.
fn classes(axis: &Axis, n: usize) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = vec![];
    for y in 0..n {
        match out.last_mut() {
            Some(last) if axis.taps(last.start) == axis.taps(y) => last.end = y + 1,
            _ => out.push(y..y + 1),
        }
    }
    out
}

/// Collects pixels into tiles.
struct Gather<'a> {
    s: &'a ConvShape,
    axes: [Axis; 2],
    out_w: usize,
    tiles: Vec<TileRows>,
    windows: Vec<Window>,
    /// Window of the pixels collected last.
    window: usize,
    pixels: Vec<[u32; 2]>,
}

impl Gather<'_> {
    /// Adds a rectangle of pixels of one window.
    fn run(&mut self, ys: Range<usize>, xs: Range<usize>) {
        if ys.is_empty() || xs.is_empty() {
            return;
        }
        let window = [self.axes[0].taps(ys.start), self.axes[1].taps(xs.start)];
        let known = self.windows.iter().position(|w| *w == window);
        let index = known.unwrap_or(self.windows.len());
        if known.is_none() {
            self.windows.push(window.clone());
        }
        if index != self.window {
            self.flush();
            self.window = index;
        }
        for (y, x) in ys.flat_map(|y| xs.clone().map(move |x| (y, x))) {
            self.pixels.push([self.origin(y, x, &window), (y * self.out_w + x) as u32]);
            if self.pixels.len() == ROWS {
                self.flush();
            }
        }
    }

    /// The first activation of a pixel's window.
    fn origin(&self, y: usize, x: usize, [ys, xs]: &Window) -> u32 {
        if ys.is_empty() || xs.is_empty() {
            return 0;
        }
        let ([v, h], s) = (&self.axes, self.s);
        let row = y * s.stride[0] + ys.start * s.dilation[0] - v.before;
        let column = x * s.stride[1] + xs.start * s.dilation[1] - h.before;
        ((row * s.in_w + column) * s.in_c) as u32
    }

    fn flush(&mut self) {
        let Some(last) = self.pixels.last().copied() else { return };
        let n = self.pixels.len();
        let pixel = |r: usize| self.pixels.get(r).copied().unwrap_or(last);
        let (at, out) = (core::array::from_fn(|r| pixel(r)[0]), core::array::from_fn(|r| pixel(r)[1]));
        self.tiles.push(TileRows { at, out, n: n as u32, window: self.window as u32 });
        self.pixels.clear();
    }
}

/// A block of k.
struct Cube {
    ys: Range<usize>,
    xs: Range<usize>,
    channels: Range<usize>,
}

/// The blocks of k, ascending.
fn cubes(s: &ConvShape) -> Vec<Cube> {
    let ([kh, kw], n_in) = (s.kernel, s.in_c / s.groups);
    let row = kw * n_in;
    let cube = |ys, xs, channels| Cube { ys, xs, channels };
    if kh * row <= K_WHOLE {
        return vec![cube(0..kh, 0..kw, 0..n_in)];
    }
    if row <= K_BLOCK {
        return even(kh, K_BLOCK / row).map(|ys| cube(ys, 0..kw, 0..n_in)).collect();
    }
    let rows = (0..kh).map(|y| y..y + 1);
    if n_in <= K_BLOCK {
        return rows.flat_map(|y| even(kw, K_BLOCK / n_in).map(move |xs| cube(y.clone(), xs, 0..n_in))).collect();
    }
    let taps = rows.flat_map(|y| (0..kw).map(move |x| (y.clone(), x..x + 1)));
    taps.flat_map(|(y, x)| even(n_in, K_BLOCK).map(move |c| cube(y.clone(), x.clone(), c))).collect()
}

/// `0..n` in as few parts of at most `most` as there can be, of about equal length.
fn even(n: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let step = n.div_ceil(n.div_ceil(most.max(1)).max(1)).max(1);
    (0..n).step_by(step).map(move |from| from..(from + step).min(n))
}

impl Cube {
    /// The runs of the window's taps that lie in this block; activations count from the window's first tap. Without groups and dilation
    /// a kernel row's taps are contiguous.
    fn runs(&self, s: &ConvShape, [wy, wx]: &Window) -> Runs {
        let (n_in, line) = (s.in_c / s.groups, s.in_w * s.in_c);
        let [ys, xs] = [common(&self.ys, wy), common(&self.xs, wx)];
        if ys.is_empty() || xs.is_empty() {
            return Runs::default();
        }
        let merged = s.groups == 1 && s.dilation[1] == 1 && self.channels.len() == n_in;
        let (n_inner, len) = if merged { (1, xs.len() * n_in) } else { (xs.len(), self.channels.len()) };
        let (a_outer, a_inner) = (s.dilation[0] * line, s.dilation[1] * s.in_c);
        Runs {
            n_outer: ys.len(),
            n_inner,
            len,
            a: (ys.start - wy.start) * a_outer + (xs.start - wx.start) * a_inner + self.channels.start,
            a_outer,
            a_inner,
            b: (ys.start * s.kernel[1] + xs.start) * n_in + self.channels.start,
            b_outer: s.kernel[1] * n_in,
            b_inner: n_in,
        }
    }
}

fn common(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_k_cover_k_once_in_order() {
        for (kernel, in_c, groups) in
            [([3, 3], 64, 1), ([3, 3], 300, 1), ([7, 7], 3, 1), ([5, 1], 700, 2), ([1, 1], 3072, 1)]
        {
            let s = ConvShape { in_h: 9, in_w: 9, kernel, groups, ..ConvShape::gemm(in_c, 2 * groups) };
            let (n_in, whole) = (in_c / groups, [0..kernel[0], 0..kernel[1]]);
            let mut seen = vec![];
            for cube in cubes(&s) {
                let runs = cube.runs(&s, &whole);
                runs.for_each(|_, b| seen.extend(b..b + runs.len));
            }
            assert_eq!(seen, (0..kernel[0] * kernel[1] * n_in).collect::<Vec<_>>(), "{s:?}");
        }
    }

    #[test]
    fn tiles_hold_each_pixel_once() {
        for (hw, kernel, stride, pad) in [([7, 7], 3, 1, 1), ([14, 13], 3, 2, 1), ([30, 5], 5, 1, 2), ([3, 3], 3, 1, 4)]
        {
            let s = ConvShape {
                in_h: hw[0],
                in_w: hw[1],
                kernel: [kernel; 2],
                stride: [stride; 2],
                pads: [pad; 4],
                ..ConvShape::gemm(4, 4)
            };
            let g = s.geometry().unwrap();
            let chart = Chart::new(&s, &g).unwrap();
            let mut pixels: Vec<u32> = chart.tiles.iter().flat_map(|t| &t.out[..t.n as usize]).copied().collect();
            pixels.sort_unstable();
            assert_eq!(pixels, (0..(g.out_h * g.out_w) as u32).collect::<Vec<_>>());
        }
    }
}
