//! [`ConvF32`]: deterministic f32 convolution and matrix product.
//!
//! Pixels are visited so that neighbours in the visit see the same window of taps: border columns first, top to bottom, then the
//! interior row by row. A tile collects up to six pixels of one window.

use alloc::vec::Vec;
use core::ops::Range;

use super::depthwise_f32::DepthwiseF32;
use super::finish_f32::{FinishF32, StoreTile};
use super::shape::{ConvShape, Geometry};
use super::weights::WeightLayout;
use super::window::{Axis, axes};
use crate::error::{Result, check_len, product};
use crate::exec::Exec;
use crate::float::{PackedF32, ROWS, RowsF32, Runs, TileF32};
use crate::gemm::COLS;
use crate::shared_out::SharedOut;
use crate::stored::Stored;

/// A convolution or matrix product in f32 whose bits do not depend on instruction set, threads or batch.
pub struct ConvF32 {
    shape: ConvShape,
    geometry: Geometry,
    filter: Filter,
    finish: FinishF32,
}

enum Filter {
    /// One packed matrix per group.
    Dense(Vec<PackedF32>),
    Depthwise(DepthwiseF32),
}

impl ConvF32 {
    /// Packs the weights; `lo` and `hi` clip the result (`-inf` and `inf` for none).
    ///
    /// # Errors
    /// When shape and lengths do not fit together.
    pub fn new(
        shape: ConvShape,
        weights: &[f32],
        layout: WeightLayout,
        bias: Option<&[f32]>,
        lo: f32,
        hi: f32,
    ) -> Result<Self> {
        let geometry = shape.geometry()?;
        check_len("the weights", weights.len(), geometry.n_weights)?;
        bias.map_or(Ok(()), |b| check_len("the bias", b.len(), shape.out_c))?;
        let (n_out, index) = (shape.out_c / shape.groups, layout.index(&shape));
        let weight = |k, co| weights[index.of(k, co)];
        let filter = if shape.is_depthwise() {
            Filter::Depthwise(DepthwiseF32::pack(geometry.k, shape.in_c, &weight))
        } else {
            let group = |g: usize| PackedF32::pack(geometry.k, n_out, &|k, c| weight(k, g * n_out + c));
            Filter::Dense((0..shape.groups).map(group).collect::<Result<_>>()?)
        };
        let finish = FinishF32::new(bias, lo, hi);
        Ok(Self { shape, geometry, filter, finish })
    }

    /// The packed weights as bytes: the plan of equal shape comes back from them by [`ConvF32::from_packed`].
    pub fn to_packed(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.packed_bytes());
        match &self.filter {
            Filter::Dense(groups) => groups.iter().for_each(|g| g.save(&mut out)),
            Filter::Depthwise(filter) => filter.save(&mut out),
        }
        out
    }

    /// The plan of [`ConvF32::to_packed`] with this bias and these bounds; nothing is packed again.
    ///
    /// # Errors
    /// When the bytes are not those of a plan of this shape, or the bias does not fit it.
    pub fn from_packed(shape: ConvShape, packed: &[u8], bias: Option<&[f32]>, lo: f32, hi: f32) -> Result<Self> {
        let geometry = shape.geometry()?;
        bias.map_or(Ok(()), |b| check_len("the bias", b.len(), shape.out_c))?;
        let mut packed = Stored::new(packed);
        let filter = if shape.is_depthwise() {
            Filter::Depthwise(DepthwiseF32::restore(geometry.k, shape.in_c, &mut packed)?)
        } else {
            let n_out = shape.out_c / shape.groups;
            let group = |_| PackedF32::restore(geometry.k, n_out, &mut packed);
            Filter::Dense((0..shape.groups).map(group).collect::<Result<_>>()?)
        };
        packed.end()?;
        Ok(Self { shape, geometry, filter, finish: FinishF32::new(bias, lo, hi) })
    }

    /// The shape this plan was built for.
    pub fn shape(&self) -> &ConvShape {
        &self.shape
    }

    /// Multiply-adds per image (per row of a matrix product).
    pub fn macs(&self) -> usize {
        self.geometry.macs
    }

    /// Bytes of packed weights.
    pub fn packed_bytes(&self) -> usize {
        match &self.filter {
            Filter::Dense(groups) => groups.iter().map(PackedF32::bytes).sum(),
            Filter::Depthwise(filter) => filter.bytes(),
        }
    }

    /// Computes a batch: `x` holds any number of images, `out` as many output images.
    ///
    /// # Errors
    /// When a slice has the wrong length, or a task panicked.
    pub fn run(&self, exec: Exec<'_>, x: &[f32], out: &mut [f32]) -> Result<()> {
        let batch = self.geometry.batch(x.len())?;
        let n_out = product("the output", &[batch, self.geometry.out_image])?;
        check_len("the output", out.len(), n_out)?;
        let macs = batch.saturating_mul(self.geometry.macs);
        match &self.filter {
            Filter::Depthwise(filter) => {
                filter.run(exec, &self.shape, [self.geometry.out_h, self.geometry.out_w], &self.finish, x, out)
            }
            Filter::Dense(groups) => self.dense(exec, groups, x, out, macs),
        }
    }

    /// Tasks are rectangles of output lines and channel panels.
    fn dense(&self, exec: Exec<'_>, groups: &[PackedF32], x: &[f32], out: &mut [f32], macs: usize) -> Result<()> {
        let lines = Lines::new(&self.shape, &self.geometry, x.len() / self.shape.in_c);
        let per_group = (self.shape.out_c / self.shape.groups).div_ceil(COLS);
        let n_panels = groups.len() * per_group;
        let parts = exec.parts(macs, usize::MAX);
        let line_parts = parts.min(lines.n).max(1);
        let line_step = lines.n.div_ceil(line_parts).max(1);
        let panel_step = n_panels.div_ceil(parts.div_ceil(line_parts)).max(1);
        let (rows, cols) = (lines.n.div_ceil(line_step), n_panels.div_ceil(panel_step));
        let out = SharedOut::new(out);
        exec.pool.parallel_for(rows * cols, &|t| {
            let (y, p) = (t / cols * line_step, t % cols * panel_step);
            let end = (y + line_step).min(lines.n);
            for from in (y..end).step_by(lines.block) {
                for panel in p..(p + panel_step).min(n_panels) {
                    let at = PanelF32 { group: panel / per_group, first: panel % per_group * COLS };
                    let mut walk = Walk::new(self, exec, &groups[at.group], at, x, &out);
                    lines.visit(from..(from + lines.block).min(end), &mut |line, x| walk.push(&lines, line, x));
                    walk.flush();
                }
            }
        })
    }
}

/// The output as lines of pixels: image rows, or chunks of rows of a matrix.
struct Lines {
    axes: [Axis; 2],
    /// Lines in all, and per image.
    n: usize,
    per_image: usize,
    wide: usize,
    pixels: usize,
    interior: Range<usize>,
    /// Lines whose activations and outputs stay in cache while all panels pass over them.
    block: usize,
}

impl Lines {
    /// Rows of a matrix per line.
    const CHUNK: usize = 8 * ROWS;
    /// About half of a second-level cache.
    const BLOCK_BYTES: usize = 256 << 10;

    fn new(s: &ConvShape, g: &Geometry, in_pixels: usize) -> Self {
        let axes = axes(s);
        let block = |n_in: usize, n_out: usize| (Self::BLOCK_BYTES / 4 / (n_in * s.in_c + n_out * s.out_c)).max(1);
        if s.is_pointwise() {
            let (n, wide) = (in_pixels.div_ceil(Self::CHUNK), Self::CHUNK);
            let block = block(wide, wide);
            return Self { axes, n, per_image: 1, wide, pixels: in_pixels, interior: 0..wide, block };
        }
        let n = in_pixels / (s.in_h * s.in_w) * g.out_h;
        let interior = axes[1].interior(g.out_w);
        let block = block(s.in_w * s.stride[0], g.out_w);
        Self { axes, n, per_image: g.out_h, wide: g.out_w, pixels: n * g.out_w, interior, block }
    }

    /// Calls `f(line, x)` for every pixel of some lines, border columns first.
    fn visit(&self, lines: Range<usize>, f: &mut dyn FnMut(usize, usize)) {
        for x in (0..self.interior.start).chain(self.interior.end..self.wide) {
            lines.clone().for_each(|line| f(line, x));
        }
        for line in lines {
            let end = self.interior.end.min(self.pixels - line * self.wide);
            (self.interior.start..end).for_each(|x| f(line, x));
        }
    }
}

/// Group and first column, within the group, of a panel.
#[derive(Clone, Copy)]
struct PanelF32 {
    group: usize,
    first: usize,
}

/// The taps of a window.
type Window = [Range<usize>; 2];

/// Collects pixels of one window into tiles of one panel.
struct Walk<'a> {
    plan: &'a ConvF32,
    exec: Exec<'a>,
    packed: &'a PackedF32,
    panel: PanelF32,
    x: &'a [f32],
    out: &'a SharedOut<'a, f32>,
    window: Window,
    rows: RowsF32,
    pixels: [usize; ROWS],
}

impl<'a> Walk<'a> {
    fn new(
        plan: &'a ConvF32,
        exec: Exec<'a>,
        packed: &'a PackedF32,
        panel: PanelF32,
        x: &'a [f32],
        out: &'a SharedOut<'a, f32>,
    ) -> Self {
        let rows = RowsF32 { at: [0; ROWS], n: 0 };
        Self { plan, exec, packed, panel, x, out, window: [0..0, 0..0], rows, pixels: [0; ROWS] }
    }

    fn push(&mut self, lines: &Lines, line: usize, x: usize) {
        let s = &self.plan.shape;
        let (image, y) = (line / lines.per_image, line % lines.per_image);
        let at = if s.is_pointwise() {
            (line * lines.wide + x) * s.in_c
        } else {
            let origin = (y * s.stride[0]).wrapping_sub(s.pads[0]).wrapping_mul(s.in_w);
            let pixel = origin.wrapping_add((x * s.stride[1]).wrapping_sub(s.pads[1]));
            (image * self.plan.geometry.image).wrapping_add(pixel.wrapping_mul(s.in_c))
        };
        let window = if s.is_pointwise() { [0..1, 0..1] } else { [lines.axes[0].taps(y), lines.axes[1].taps(x)] };
        if self.rows.n == ROWS || window != self.window {
            self.flush();
            self.window = window;
        }
        self.rows.at[self.rows.n] = at.wrapping_add(self.panel.group * (s.in_c / s.groups));
        self.pixels[self.rows.n] = line * lines.wide + x;
        self.rows.n += 1;
    }

    /// Computes and stores what was collected.
    fn flush(&mut self) {
        let n = core::mem::take(&mut self.rows.n);
        if n == 0 {
            return;
        }
        let mut rows = RowsF32 { at: self.rows.at, n };
        rows.at[n..].fill(self.rows.at[n - 1]);
        let mut tile = TileF32::ZERO;
        let runs = runs(&self.plan.shape, &self.window);
        if !runs.is_empty() {
            self.exec.isa.gemm_f32(self.x, &rows, &runs, self.packed.panel(self.panel.first / COLS), &mut tile);
        }
        self.store(&tile, n);
    }

    fn store(&self, tile: &TileF32, n: usize) {
        let s = &self.plan.shape;
        let n_out = s.out_c / s.groups;
        // This task alone owns the channels of its panel in the pixels of its lines.
        self.exec.isa.run(StoreTile {
            finish: &self.plan.finish,
            tile,
            pixels: &self.pixels[..n],
            stride: s.out_c,
            channel: self.panel.group * n_out + self.panel.first,
            cols: (n_out - self.panel.first).min(COLS),
            out: self.out,
        });
    }
}

/// The runs of a window's taps. Without groups and dilation a kernel row's taps are contiguous.
fn runs(s: &ConvShape, [ys, xs]: &Window) -> Runs {
    let (n_in, line) = (s.in_c / s.groups, s.in_w * s.in_c);
    let merged = s.groups == 1 && s.dilation[1] == 1;
    let (n_inner, len) = if merged { (usize::from(!xs.is_empty()), xs.len() * n_in) } else { (xs.len(), n_in) };
    Runs {
        n_outer: ys.len(),
        n_inner,
        len,
        a: ys.start * s.dilation[0] * line + xs.start * s.dilation[1] * s.in_c,
        a_outer: s.dilation[0] * line,
        a_inner: s.dilation[1] * s.in_c,
        b: (ys.start * s.kernel[1] + xs.start) * n_in,
        b_outer: s.kernel[1] * n_in,
        b_inner: n_in,
    }
}
