//! Integer depthwise convolution: bands of image rows, blocks of channels, tiles of pixels.
//!
//! Two output rows are computed together from the image rows that they read, their *band*. Rows are copied, framed by the zero point on
//! both sides, into a ring that holds one band; the next band finds those that it shares already there. So padding costs no copy of
//! the image, the ring stays in the first cache levels, and kernels know no borders. Where nothing is padded and every read stays
//! inside the image's rows, the band is read in place. A task owns whole bands, and so whole output rows.

use super::shape::{ConvShape, Geometry};
use crate::depthwise::{Band, CHANNELS, DepthwiseB, DepthwisePanel, DepthwiseWindow, LINES, PIXELS, Requant};
use crate::epilogue::{Kind, Prepared};
use crate::error::{Result, product};
use crate::exec::Exec;
use crate::finish::{Finish, Out, Place};
use crate::isa::Isa;
use crate::shared_out::SharedOut;
use crate::tile::{ROWS, Tile};

/// Rings, and so tasks, at most: the scratch is sized before the number of threads is known.
const MAX_TASKS: usize = 8;

/// The window of a depthwise convolution.
pub(super) fn window(s: &ConvShape) -> Result<DepthwiseWindow> {
    let out_hw = s.out_hw()?;
    // A stride that no second output row or pixel takes is as good as 1, and bounded.
    let stride = [0, 1].map(|axis| if out_hw[axis] == 1 { 1 } else { s.stride[axis] });
    Ok(DepthwiseWindow { kernel: s.kernel, stride, dilation: s.dilation, lines: out_hw[0].min(LINES) })
}

/// How an image is cut into bands.
pub(super) struct Bands {
    window: DepthwiseWindow,
    /// Bands of an image.
    n: usize,
    /// Image rows of a band.
    rows: usize,
    /// Bytes of a row of the ring.
    line: usize,
    in_place: bool,
}

impl Bands {
    pub(super) fn new(s: &ConvShape, g: &Geometry) -> Result<Self> {
        let window = window(s)?;
        let (n, rows) = (g.out_h.div_ceil(window.lines), window.rows());
        // Kernels read whole tiles and blocks of channels.
        let columns = window.columns(g.out_w.max(PIXELS));
        let slack = CHANNELS.saturating_sub(s.in_c);
        let line = product("a framed image row", &[columns, s.in_c])?.saturating_add(slack);
        let height = (n * window.lines - 1) * window.stride[0] + (s.kernel[0] - 1) * s.dilation[0] + 1;
        let inside = s.pads[0] == 0 && s.pads[1] == 0 && columns <= s.in_w && height <= s.in_h;
        Ok(Self { window, n, rows, line, in_place: inside && slack == 0 })
    }

    fn ring(&self) -> Result<usize> {
        product("the rows of a band", &[self.rows, self.line])
    }

    /// Bytes of scratch.
    pub(super) fn scratch(&self) -> Result<usize> {
        let n = if self.in_place { 0 } else { self.n.min(MAX_TASKS) };
        product("the rings of a depthwise convolution", &[self.ring()?, n])
    }
}

/// One call of `run`, lengths checked.
pub(super) struct Depthwise<'a> {
    pub(super) shape: &'a ConvShape,
    pub(super) geometry: &'a Geometry,
    pub(super) bands: &'a Bands,
    pub(super) filter: &'a DepthwiseB,
    pub(super) epilogue: &'a Prepared,
    /// Zero point of the activations.
    pub(super) fill: u8,
    pub(super) residual: &'a [u8],
    pub(super) out: &'a Out<'a>,
}

impl Depthwise<'_> {
    /// All bands of all images; `scratch` holds [`Bands::scratch`] bytes.
    pub(super) fn run(&self, exec: Exec<'_>, x: &[u8], batch: usize, scratch: &mut [u8]) -> Result<()> {
        let n = product("the bands", &[batch, self.bands.n])?;
        let ring = if self.bands.in_place { 0 } else { self.bands.ring()? };
        let parts = exec.parts(batch.saturating_mul(self.geometry.macs), n.min(self.bands.n).min(MAX_TASKS)).max(1);
        let step = n.div_ceil(parts).max(1);
        let scratch = SharedOut::new(scratch);
        exec.pool.parallel_for(n.div_ceil(step), &|task| {
            // SAFETY: each task has a ring of its own; there are at most `min(bands, MAX_TASKS)` tasks.
            let ring = unsafe { scratch.part(task * ring, ring) };
            self.task(exec.isa, x, task * step..((task + 1) * step).min(n), ring);
        })
    }

    /// Bands `mine` of the batch.
    fn task(&self, isa: Isa, x: &[u8], mine: core::ops::Range<usize>, ring: &mut [u8]) {
        let (s, bands) = (self.shape, self.bands);
        let pixel = s.in_c;
        // The image row, counted from the top of the padding, up to which the ring is filled.
        let mut filled = 0;
        for band in mine.clone() {
            let (index, y) = (band / bands.n, band % bands.n * bands.window.lines);
            let top = y * s.stride[0];
            let image = &x[index * self.geometry.image..][..self.geometry.image];
            let band = if bands.in_place {
                let line = s.in_w * pixel;
                Band { a: image, first: top * line, line, wrap: usize::MAX, n_rows: bands.rows, pixel }
            } else {
                let fresh = if y == 0 || band == mine.start { top } else { filled.max(top) };
                filled = top + bands.rows;
                (fresh..filled).for_each(|row| self.fill_row(image, row, ring));
                let (line, wrap) = (bands.line, bands.rows * bands.line);
                Band { a: ring, first: top % bands.rows * line, line, wrap, n_rows: bands.rows, pixel }
            };
            self.band(isa, &band, index * self.geometry.out_h + y, (self.geometry.out_h - y).min(bands.window.lines));
        }
    }

    /// Copies row `row` of the padded image to its place in the ring.
    fn fill_row(&self, image: &[u8], row: usize, ring: &mut [u8]) {
        let (s, line) = (self.shape, self.bands.line);
        let to = &mut ring[row % self.bands.rows * line..][..line];
        let Some(y) = row.checked_sub(s.pads[0]).filter(|y| *y < s.in_h) else {
            return to.fill(self.fill);
        };
        let (width, left) = (s.in_w * s.in_c, (s.pads[1] * s.in_c).min(line));
        let n = width.min(line - left);
        to[..left].fill(self.fill);
        to[left..left + n].copy_from_slice(&image[y * width..][..n]);
        to[left + n..].fill(self.fill);
    }

    /// Output rows `y .. y + n_lines` of the batch.
    fn band(&self, isa: Isa, band: &Band<'_>, y: usize, n_lines: usize) {
        if self.lines(isa, band, y, n_lines) {
            return;
        }
        for block in 0..self.filter.n_blocks() {
            self.tiles(isa, band, &self.filter.block(block), y, n_lines);
        }
    }

    /// The fused kernel, where there is one for epilogue and shape.
    fn lines(&self, isa: Isa, band: &Band<'_>, y: usize, n_lines: usize) -> bool {
        let (Kind::Requant { m, store }, Out::Bytes(out)) = (&self.epilogue.kind, self.out) else { return false };
        let wide = self.geometry.out_w;
        let to = Requant { bias: &self.epilogue.bias, m, store, wide };
        let line = wide * self.shape.out_c;
        // SAFETY: a task owns the output rows of its bands alone and holds one band of them at a time.
        let out = unsafe { out.part(y * line, n_lines * line) };
        isa.depthwise_u8_lines(band, self.filter, &to, out)
    }

    /// Tile by tile through the general epilogue.
    fn tiles(&self, isa: Isa, band: &Band<'_>, panel: &DepthwisePanel<'_>, y: usize, n_lines: usize) {
        const { assert!(PIXELS <= ROWS) }
        let (wide, stride) = (self.geometry.out_w, self.shape.out_c);
        let mut sums = [[[0; CHANNELS]; PIXELS]; LINES];
        for x0 in (0..wide).step_by(PIXELS).map(|x0| x0.min(wide.saturating_sub(PIXELS))) {
            isa.depthwise_u8(band, panel, x0, &mut sums);
            for (line, sums) in sums.iter().enumerate().take(n_lines) {
                let mut tile: Tile = Tile::ZERO;
                for (to, from) in tile.0.iter_mut().zip(sums) {
                    to[..CHANNELS].copy_from_slice(from);
                }
                let (at, channel) = (((y + line) * wide + x0) * stride + panel.channel, panel.channel);
                let place = Place { at, stride, rows: wide.min(PIXELS), cols: panel.n, channel };
                let (epilogue, residual) = (self.epilogue, self.residual);
                isa.finish(Finish { epilogue, tile: &tile.0, place, residual, out: self.out });
            }
        }
    }
}
