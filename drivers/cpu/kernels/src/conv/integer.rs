//! [`ConvU8`]: exact integer convolution and matrix product with a fused epilogue.
//!
//! `acc = sum (x - zx)(w - zw[c]) + b[c]`, computed as `sum x * w' + (b[c] - zx * sum w')` with `w' = w - zw`. All i32 sums wrap, so the
//! value is exact whenever the true one fits. Padding is a frame of `zx` around a copy of the image; where no tap leaves the image
//! nothing is copied.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::depthwise::{Bands, Depthwise};
use super::filter::{Filter, PanelPlace, reach};
use super::pad::Frame;
use super::pixels::{Pixels, block_pixels};
use super::shape::{ConvShape, Geometry};
use super::weights::Weights;
use super::winograd::{Tiles, Winograd, WinogradB};
use crate::elements::PackedBytes;
use crate::epilogue::{Epilogue, Kind, OutMut, Prepared};
use crate::error::{KernelError, Result, check_len, product};
use crate::exec::Exec;
use crate::finish::{Finish, Out, Place, lanes};
use crate::gemm::{COLS, Packing, Panel};
use crate::isa::Isa;
use crate::shared_out::SharedOut;
use crate::stored::{Stored, damaged, put_i32s, put_u32s};
use crate::stripe::Stripe;
use crate::tile::{GEMM_ROWS, GemmRows, STRIP_ROWS, Strip};

/// A convolution (2-D, 1-D, grouped, depthwise, pointwise) or matrix product over u8 activations, weights packed.
///
/// s8 activations are held as u8: every byte XORed with 0x80, the zero point plus 128.
pub struct ConvU8 {
    shape: ConvShape,
    geometry: Geometry,
    x_zero_point: u8,
    packing: Packing,
    filter: Filter,
    epilogue: Prepared,
    route: Route,
    scratch: usize,
}

/// Where the kernels read activations.
enum Route {
    /// The input is a matrix of pixels; the last `tail` rows are copied because their reads would leave the slice.
    Matrix { tail: usize },
    /// Each image is read in place.
    Image,
    /// Each image is first copied into a frame of zero points.
    Framed(Frame),
    /// A depthwise filter over bands of image rows.
    Depthwise(Bands),
    /// 3 x 3 windows over tiles of transformed activations.
    Winograd(Tiles),
}

impl ConvU8 {
    /// Packs the weights for `shape`, for this machine and many rows; [`ConvU8::with_packing`] lets the caller choose.
    ///
    /// # Errors
    /// When shape, lengths or parameters do not fit together; see [`KernelError`].
    pub fn new(
        shape: ConvShape,
        weights: &Weights<'_>,
        x_zero_point: u8,
        bias: Option<&[i32]>,
        epilogue: Epilogue,
    ) -> Result<Self> {
        Self::with_packing(shape, weights, x_zero_point, bias, epilogue, Isa::detect().packing(usize::MAX, false))
    }

    /// As [`ConvU8::new`], with a choice of the layout: [`Isa::packing`] for the rows that are expected, [`Packing::Dot`] where
    /// weights are packed at run time.
    ///
    /// # Errors
    /// As [`ConvU8::new`].
    pub fn with_packing(
        shape: ConvShape,
        weights: &Weights<'_>,
        x_zero_point: u8,
        bias: Option<&[i32]>,
        epilogue: Epilogue,
        packing: Packing,
    ) -> Result<Self> {
        let geometry = shape.geometry()?;
        weights.check(&shape, &geometry)?;
        let mut folded = weights.channel_sums(&shape, &geometry);
        for sum in &mut folded {
            *sum = sum.wrapping_mul(-i32::from(x_zero_point));
        }
        if let Some(bias) = bias {
            check_len("the bias", bias.len(), shape.out_c)?;
            folded.iter_mut().zip(bias).for_each(|(f, b)| *f = f.wrapping_add(*b));
        }
        let epilogue = Prepared::new(epilogue, &folded)?;
        let (route, strides, scratch) = plan_route(&shape, &geometry, packing)?;
        let filter = match &route {
            Route::Winograd(_) => Filter::Winograd(WinogradB::pack(&shape, weights)),
            _ => Filter::new(&shape, weights, strides, packing)?,
        };
        Ok(Self { shape, geometry, x_zero_point, packing, filter, epilogue, route, scratch })
    }

    /// Everything that follows from weights, bias and zero points, as bytes: the plan of equal shape and epilogue comes back from
    /// them by [`ConvU8::from_packed`], on every instruction set.
    pub fn to_packed(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.filter.bytes() + self.shape.out_c * size_of::<i32>());
        put_i32s(&mut out, &self.epilogue.bias[..self.shape.out_c]);
        put_u32s(&mut out, &[self.packing.tag()]);
        self.filter.save(&mut out);
        out
    }

    /// The plan of [`ConvU8::to_packed`]; nothing is packed again, and shared memory ([`PackedBytes::shared`]) is used in place.
    ///
    /// # Errors
    /// As [`ConvU8::new`], and when the bytes are not those of a plan of this shape. Bytes that are changed in place may compute
    /// other numbers, but never read outside their operands.
    pub fn from_packed<'a>(
        shape: ConvShape,
        packed: impl Into<PackedBytes<'a>>,
        x_zero_point: u8,
        epilogue: Epilogue,
    ) -> Result<Self> {
        let geometry = shape.geometry()?;
        let mut packed = Stored::new(packed.into());
        let epilogue = Prepared::new(epilogue, &packed.i32s(shape.out_c)?)?;
        let tag = packed.u32s(1)?[0];
        let packing = Packing::from_tag(tag).ok_or_else(|| damaged(format!("unknown layout {tag}")))?;
        let (route, strides, scratch) = plan_route(&shape, &geometry, packing)?;
        let filter = match &route {
            Route::Winograd(_) => Filter::Winograd(WinogradB::restore(&shape, &mut packed)?),
            _ => Filter::restore(&shape, strides, packing, &mut packed)?,
        };
        packed.end()?;
        Ok(Self { shape, geometry, x_zero_point, packing, filter, epilogue, route, scratch })
    }

    /// The shape this plan was built for.
    pub fn shape(&self) -> &ConvShape {
        &self.shape
    }

    /// Bytes of scratch that [`ConvU8::run`] needs, whatever the batch.
    pub fn scratch_len(&self) -> usize {
        self.scratch
    }

    /// Multiply-adds per image (per row of a matrix product).
    pub fn macs(&self) -> usize {
        self.geometry.macs
    }

    /// Bytes of packed weights.
    pub fn packed_bytes(&self) -> usize {
        self.filter.bytes()
    }

    /// Computes a batch: `x` holds any number of images, `out` as many output images of the epilogue's type, `residual` (epilogues that
    /// add one only) as many bytes as `out`, `scratch` at least [`ConvU8::scratch_len`] bytes of any content.
    ///
    /// # Errors
    /// When a slice has the wrong length or type, or a task panicked.
    pub fn run(
        &self,
        exec: Exec<'_>,
        x: &[u8],
        residual: Option<&[u8]>,
        out: OutMut<'_>,
        scratch: &mut [u8],
    ) -> Result<()> {
        let batch = self.geometry.batch(x.len())?;
        let n_out = product("the output", &[batch, self.geometry.out_image])?;
        let residual = self.check_residual(residual, n_out)?;
        let out = self.check_out(out, n_out)?;
        if scratch.len() < self.scratch {
            return Err(KernelError::Length { what: "the scratch", found: scratch.len(), expected: self.scratch });
        }
        if let (Route::Depthwise(bands), Filter::Depthwise(filter)) = (&self.route, &self.filter) {
            let (shape, geometry, fill) = (&self.shape, &self.geometry, self.x_zero_point);
            let job = Depthwise { shape, geometry, bands, filter, epilogue: &self.epilogue, fill, residual, out: &out };
            return job.run(exec, x, batch, scratch);
        }
        if let (Route::Winograd(tiles), Filter::Winograd(filter)) = (&self.route, &self.filter) {
            let (shape, geometry, fill) = (&self.shape, &self.geometry, self.x_zero_point);
            let job = Winograd { shape, geometry, tiles, filter, epilogue: &self.epilogue, fill, residual, out: &out };
            return (0..batch).try_for_each(|i| job.image(exec, self.image(x, i), i, scratch));
        }
        let job = Job { plan: self, exec, residual, out: &out };
        match &self.route {
            Route::Matrix { tail } => job.matrix(x, *tail, scratch),
            Route::Image => (0..batch).try_for_each(|i| job.image(self.image(x, i), self.shape.in_w, i)),
            Route::Framed(frame) => (0..batch).try_for_each(|i| {
                frame.copy(exec, self.image(x, i), self.x_zero_point, scratch)?;
                job.image(scratch, frame.w, i)
            }),
            Route::Depthwise(_) | Route::Winograd(_) => unreachable!("the route follows the filter"),
        }
    }

    fn image<'a>(&self, x: &'a [u8], index: usize) -> &'a [u8] {
        &x[index * self.geometry.image..][..self.geometry.image]
    }

    fn check_residual<'a>(&self, residual: Option<&'a [u8]>, n_out: usize) -> Result<&'a [u8]> {
        match (residual, self.epilogue.wants_residual()) {
            (Some(r), true) => check_len("the residual", r.len(), n_out).map(|()| r),
            (None, false) => Ok(&[]),
            (given, _) => {
                let what =
                    format!("residual operand given: {}, wanted by the epilogue: {}", given.is_some(), given.is_none());
                Err(KernelError::Parameter { what })
            }
        }
    }

    fn check_out<'a>(&self, out: OutMut<'a>, n_out: usize) -> Result<Out<'a>> {
        let (len, out) = match (&self.epilogue.kind, out) {
            (
                Kind::Requant { .. } | Kind::Q31 { .. } | Kind::Residual { .. } | Kind::RequantAdd { .. },
                OutMut::Bytes(o),
            ) => (o.len(), Out::Bytes(SharedOut::new(o))),
            (Kind::Float { .. }, OutMut::F32(o)) => (o.len(), Out::F32(SharedOut::new(o))),
            (Kind::Raw, OutMut::I32(o)) => (o.len(), Out::I32(SharedOut::new(o))),
            _ => {
                return Err(KernelError::Parameter {
                    what: "the output slice is not of the epilogue's type".to_owned(),
                });
            }
        };
        check_len("the output", len, n_out)?;
        Ok(out)
    }
}

/// Chooses the route, the bytes between activation rows and pixels that weights are packed for, and the size of the scratch.
fn plan_route(s: &ConvShape, g: &Geometry, packing: Packing) -> Result<(Route, [usize; 2], usize)> {
    let line = product("an image row", &[s.in_w, s.in_c])?;
    check_extent(s)?;
    let in_place = [line, s.in_c];
    if s.is_depthwise() {
        let bands = Bands::new(s, g)?;
        let scratch = bands.scratch()?;
        return Ok((Route::Depthwise(bands), in_place, scratch));
    }
    if let Some(tiles) = Tiles::new(s, g).filter(|_| packing == Packing::Windows) {
        let scratch = tiles.scratch()?;
        return Ok((Route::Winograd(tiles), in_place, scratch));
    }
    if s.is_pointwise() {
        let reach = reach(s, in_place, packing);
        let tail = reach.saturating_sub(s.in_c).div_ceil(s.in_c);
        return Ok((Route::Matrix { tail }, in_place, tail * s.in_c + reach));
    }
    let extent = |out: usize, axis: usize| (out - 1) * s.stride[axis] + (s.kernel[axis] - 1) * s.dilation[axis] + 1;
    let (h, wide) = (extent(g.out_h, 0), extent(g.out_w, 1));
    let inside = s.pads[0] == 0 && s.pads[1] == 0 && h <= s.in_h && wide <= s.in_w;
    if inside && last_pixel(s, g, in_place) + reach(s, in_place, packing) <= g.image {
        return Ok((Route::Image, in_place, 0));
    }
    let c = s.in_c;
    let frame = Frame { in_h: s.in_h, in_w: s.in_w, in_c: s.in_c, top: s.pads[0], left: s.pads[1], h, w: wide, c };
    let len = frame.len()?;
    let framed = [wide * c, c];
    let scratch = len.max(last_pixel(s, g, framed) + reach(s, framed, packing));
    Ok((Route::Framed(frame), framed, scratch))
}

/// Every offset below lies in the padded image or a little behind it; none overflows if four times its size fits.
fn check_extent(s: &ConvShape) -> Result<()> {
    let what = "the padded image";
    let [top, left, bottom, right] = s.pads;
    let padded = |axis: usize, before: usize, after: usize| axis.checked_add(before).and_then(|n| n.checked_add(after));
    let extents =
        padded(s.in_h, top, bottom).zip(padded(s.in_w, left, right)).zip(s.in_c.checked_next_multiple_of(COLS));
    let ((h, w), c) = extents.ok_or(KernelError::Overflow { what })?;
    product(what, &[h, w, c, 4]).map(|_| ())
}

/// Byte at which the last output pixel's activations begin.
fn last_pixel(s: &ConvShape, g: &Geometry, [line, pixel]: [usize; 2]) -> usize {
    (g.out_h - 1) * s.stride[0] * line + (g.out_w - 1) * s.stride[1] * pixel
}

/// One call of `run`, lengths checked.
struct Job<'a> {
    plan: &'a ConvU8,
    exec: Exec<'a>,
    residual: &'a [u8],
    out: &'a Out<'a>,
}

impl Job<'_> {
    /// Pixels are the rows of a matrix. The last rows are read from a copy with slack behind it.
    fn matrix(&self, x: &[u8], tail: usize, scratch: &mut [u8]) -> Result<()> {
        let c = self.plan.shape.in_c;
        let (n, direct) = (x.len() / c, (x.len() / c).saturating_sub(tail));
        let pixels = |a, n, first_out| Pixels { a, n, wide: n.max(1), row_step: 0, col_step: c, first_out };
        self.pass(&pixels(x, direct, 0))?;
        if direct < n {
            scratch[..(n - direct) * c].copy_from_slice(&x[direct * c..]);
            self.pass(&pixels(scratch, n - direct, direct))?;
        }
        Ok(())
    }

    /// One image, in place or framed, `wide` pixels per row.
    fn image(&self, a: &[u8], wide: usize, index: usize) -> Result<()> {
        let (s, g) = (&self.plan.shape, &self.plan.geometry);
        let c = match &self.plan.route {
            Route::Framed(frame) => frame.c,
            _ => s.in_c,
        };
        self.pass(&Pixels {
            a,
            n: g.out_h * g.out_w,
            wide: g.out_w,
            row_step: s.stride[0] * wide * c,
            col_step: s.stride[1] * c,
            first_out: index * g.out_h * g.out_w,
        })
    }

    /// All panels over all pixels. The grid's rectangles are disjoint in pixels or in channels, so each output element has one owner.
    fn pass(&self, pixels: &Pixels<'_>) -> Result<()> {
        let plan = self.plan;
        let macs = pixels.n.saturating_mul(plan.geometry.k).saturating_mul(plan.shape.out_c);
        let block = block_pixels(&plan.shape);
        pixels.grid(self.exec, plan.filter.n_panels(), macs, &|mine, panels| {
            for from in mine.clone().step_by(block) {
                for panel in panels.clone() {
                    self.panel(pixels, from..(from + block).min(mine.end), panel);
                }
            }
        })
    }

    fn panel(&self, pixels: &Pixels<'_>, mut range: Range<usize>, panel: usize) {
        let (plan, isa, stride) = (self.plan, self.exec.isa, self.plan.shape.out_c);
        let (at, weights) = plan.filter.panel(panel);
        loop {
            let n = self.stripe(pixels, range.clone(), at, &weights);
            range.start += n;
            if n == 0 || range.is_empty() {
                break;
            }
        }
        let (mut strip, mut rows, mut cursor) = (Strip::ZERO, GemmRows::default(), pixels.cursor(range.start));
        // Tiles of equal height: the last one is not left with a row or two.
        let n_tiles = range.len().div_ceil(GEMM_ROWS).max(1);
        let (height, higher) = (range.len() / n_tiles, range.len() % n_tiles);
        let (mut i, mut held) = (range.start, 0);
        while i < range.end {
            let n = height + usize::from(i - range.start < higher * (height + 1));
            pixels.fill(&mut rows, &mut cursor, n, at.offset);
            isa.gemm_u8(pixels.a, &rows, &weights, strip.tile_mut(held));
            (i, held) = (i + n, held + n);
            // Tiles that are not full, or the last one, end a strip.
            if n == GEMM_ROWS && held < STRIP_ROWS && i < range.end {
                continue;
            }
            let first = (pixels.first_out + i - held) * stride + at.channel;
            let place = Place { at: first, stride, rows: held, cols: at.cols, channel: at.channel };
            let (epilogue, tile) = (&plan.epilogue, &strip.0[..held]);
            isa.finish(Finish { epilogue, tile, place, residual: self.residual, out: self.out });
            held = 0;
        }
    }

    /// The pixels from the start of the range on that one call can compute and store, and their number; what is left goes tile by tile.
    fn stripe(&self, pixels: &Pixels<'_>, range: Range<usize>, place: PanelPlace, panel: &Panel<'_>) -> usize {
        let (Some((scales, store)), Out::Bytes(out)) = (self.plan.epilogue.kind.scales(), self.out) else { return 0 };
        let [y, x] = pixels.cursor(range.start);
        let line = range.len().min(pixels.wide - x);
        // A line that ends within a tile is cheaper as tiles that go on in the next one.
        let splits = line < range.len() && !line.is_multiple_of(GEMM_ROWS);
        let tiles = line / GEMM_ROWS;
        if tiles == 0 || splits || place.cols != COLS {
            return 0;
        }
        let stride = self.plan.shape.out_c;
        let stripe = Stripe {
            a: pixels.a,
            first: y * pixels.row_step + x * pixels.col_step + place.offset,
            step: pixels.col_step,
            tiles,
            panel,
            bias: lanes(&self.plan.epilogue.bias, place.channel),
            scales,
            channel: place.channel,
            store,
            out,
            to: (pixels.first_out + range.start) * stride + place.channel,
            stride,
        };
        if self.exec.isa.stripe_u8(&stripe) { tiles * GEMM_ROWS } else { 0 }
    }
}
