//! Pooling over NHWC: maximum and average, 8-bit and f32.
//!
//! One driver walks output pixels and blocks of channels; an [`Operator`] says what happens to a channel. Taps are visited in ascending
//! (kh, kw) order and only inside the image, so f32 sums are deterministic. They come in runs: a row of the window, or all of its rows
//! where they lie next to each other.

use crate::arith::rne_clamped;
use crate::conv::{Axis, out_extent};
use crate::epilogue::{OtherQ, OutQ, Source, Store, check_scale};
use crate::error::{KernelError, Result, check_len, product};
use crate::exec::Exec;
use crate::shared_out::SharedOut;
use crate::vectorize::Vectorize;

/// Channels whose accumulators stay in registers together.
const BLOCK: usize = 32;

/// Shape of a 2-D pooling but the batch, which follows from the input's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Input rows.
    pub in_h: usize,
    /// Input columns.
    pub in_w: usize,
    /// Channels.
    pub channels: usize,
    /// Window height and width.
    pub kernel: [usize; 2],
    /// Vertical and horizontal stride.
    pub stride: [usize; 2],
    /// Vertical and horizontal dilation.
    pub dilation: [usize; 2],
    /// Padding: top, left, bottom, right.
    pub pads: [usize; 4],
    /// Round the output extent up.
    pub ceil: bool,
}

impl PoolShape {
    /// The whole image in one window.
    pub fn global(in_h: usize, in_w: usize, channels: usize) -> Self {
        let (kernel, unit) = ([in_h, in_w], [1; 2]);
        Self { in_h, in_w, channels, kernel, stride: unit, dilation: unit, pads: [0; 4], ceil: false }
    }

    /// Output height and width.
    pub fn out_hw(&self) -> Result<[usize; 2]> {
        let extent = |i: usize, input: usize| {
            let (before, after) = (self.pads[i], self.pads[i + 2]);
            out_extent(input, self.kernel[i], self.stride[i], self.dilation[i], before, after, self.ceil)
        };
        Ok([extent(0, self.in_h)?, extent(1, self.in_w)?])
    }

    fn axes(&self) -> [Axis; 2] {
        let axis = |i: usize, input| Axis {
            input,
            kernel: self.kernel[i],
            stride: self.stride[i],
            dilation: self.dilation[i],
            before: self.pads[i],
        };
        [axis(0, self.in_h), axis(1, self.in_w)]
    }

    /// Taps of an output position inside the padded image: what `count_include_pad` divides by.
    fn padded_taps(&self, i: usize, o: usize) -> usize {
        let input = [self.in_h, self.in_w][i] + self.pads[i] + self.pads[i + 2];
        let axis = Axis { before: 0, input, ..self.axes()[i] };
        axis.taps(o).len()
    }
}

/// Maximum of stored bytes, u8 or s8 (two's complement).
pub fn max_pool(exec: Exec<'_>, shape: &PoolShape, signed: bool, x: &[u8], out: &mut [u8]) -> Result<()> {
    drive(exec, shape, MaxBytes { flip: if signed { 0x80 } else { 0 } }, x, out)
}

/// Maximum of f32; NaN propagates.
pub fn max_pool_f32(exec: Exec<'_>, shape: &PoolShape, x: &[f32], out: &mut [f32]) -> Result<()> {
    drive(exec, shape, MaxF32, x, out)
}

/// Average of 8-bit values: i32 sum of `x - zx`, then `m = fl32(xs / fl32(ys * n))` and the `fp32_rne` requantization.
#[allow(clippy::too_many_arguments)] // the operator's parameters
pub fn average_pool_u8(
    exec: Exec<'_>,
    shape: &PoolShape,
    count_include_pad: bool,
    input: OtherQ,
    y_scale: f32,
    output: OutQ,
    x: &[u8],
    out: &mut [u8],
) -> Result<()> {
    check_scale("output scale", y_scale)?;
    let (source, store) = (Source::new(input)?, Store::new(output)?);
    drive(exec, shape, AverageBytes { source, store, y_scale, all: count_include_pad }, x, out)
}

/// Average of f32: one accumulator, ascending taps, plain additions, then one division.
pub fn average_pool_f32(
    exec: Exec<'_>,
    shape: &PoolShape,
    count_include_pad: bool,
    x: &[f32],
    out: &mut [f32],
) -> Result<()> {
    drive(exec, shape, AverageF32 { all: count_include_pad }, x, out)
}

/// What pooling does to one channel. All methods must be `#[inline(always)]`.
trait Operator: Copy + Sync {
    type Value: Copy + Send + Sync;
    type Acc: Copy;
    fn start(self) -> Self::Acc;
    fn step(self, acc: Self::Acc, x: Self::Value) -> Self::Acc;
    /// Adds `n` taps that begin `step` elements apart, each of `N` channels.
    #[inline(always)]
    fn run<const N: usize>(self, acc: &mut [Self::Acc; N], values: &[Self::Value], step: usize, n: usize) {
        for i in 0..n {
            let values: &[Self::Value; N] = values[i * step..].first_chunk().expect("the run lies inside the image");
            for (acc, value) in acc.iter_mut().zip(values) {
                *acc = self.step(*acc, *value);
            }
        }
    }
    /// `inside` taps lie in the image, `padded` in the padded image.
    fn finish(self, acc: Self::Acc, inside: usize, padded: usize) -> Self::Value;
}

#[derive(Clone, Copy)]
struct MaxBytes {
    flip: u8,
}

impl Operator for MaxBytes {
    type Value = u8;
    type Acc = u8;

    #[inline(always)]
    fn start(self) -> u8 {
        0
    }

    #[inline(always)]
    fn step(self, acc: u8, x: u8) -> u8 {
        acc.max(x ^ self.flip)
    }

    #[inline(always)]
    fn finish(self, acc: u8, _: usize, _: usize) -> u8 {
        acc ^ self.flip
    }
}

#[derive(Clone, Copy)]
struct MaxF32;

impl Operator for MaxF32 {
    type Value = f32;
    type Acc = f32;

    #[inline(always)]
    fn start(self) -> f32 {
        f32::NEG_INFINITY
    }

    #[inline(always)]
    fn step(self, acc: f32, x: f32) -> f32 {
        // The first of equal values stays (+0 and -0 are equal), and the first NaN.
        if x > acc || (x.is_nan() && !acc.is_nan()) { x } else { acc }
    }

    #[inline(always)]
    fn finish(self, acc: f32, _: usize, _: usize) -> f32 {
        acc
    }
}

#[derive(Clone, Copy)]
struct AverageBytes {
    source: Source,
    store: Store,
    y_scale: f32,
    all: bool,
}

impl Operator for AverageBytes {
    type Value = u8;
    type Acc = i32;

    #[inline(always)]
    fn start(self) -> i32 {
        0
    }

    /// The zero point is subtracted once, by `finish`.
    #[inline(always)]
    fn step(self, acc: i32, x: u8) -> i32 {
        acc.wrapping_add(i32::from(x ^ self.source.flip))
    }

    /// Up to 256 taps add in 16 bits before they are widened.
    #[inline(always)]
    fn run<const N: usize>(self, acc: &mut [i32; N], values: &[u8], step: usize, n: usize) {
        const MOST: usize = 256;
        for from in (0..n).step_by(MOST) {
            let mut sums = [0u16; N];
            for i in from..(from + MOST).min(n) {
                let values: &[u8; N] = values[i * step..].first_chunk().expect("the run lies inside the image");
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += u16::from(*value ^ self.source.flip);
                }
            }
            for (acc, sum) in acc.iter_mut().zip(&sums) {
                *acc = acc.wrapping_add(i32::from(*sum));
            }
        }
    }

    #[inline(always)]
    fn finish(self, acc: i32, inside: usize, padded: usize) -> u8 {
        let acc = acc.wrapping_sub((inside as i32).wrapping_mul(self.source.zp));
        let n = if self.all { padded } else { inside }.max(1);
        let m = self.source.scale / (self.y_scale * n as f32);
        (rne_clamped(acc as f32 * m, self.store.lo, self.store.hi) + self.store.zp) as u8 ^ self.store.flip
    }
}

#[derive(Clone, Copy)]
struct AverageF32 {
    all: bool,
}

impl Operator for AverageF32 {
    type Value = f32;
    type Acc = f32;

    #[inline(always)]
    fn start(self) -> f32 {
        0.0
    }

    #[inline(always)]
    fn step(self, acc: f32, x: f32) -> f32 {
        acc + x
    }

    #[inline(always)]
    fn finish(self, acc: f32, inside: usize, padded: usize) -> f32 {
        acc / if self.all { padded } else { inside }.max(1) as f32
    }
}

/// Tasks are output lines; each writes its own.
fn drive<O: Operator>(exec: Exec<'_>, s: &PoolShape, operator: O, x: &[O::Value], out: &mut [O::Value]) -> Result<()> {
    let [out_h, out_w] = s.out_hw()?;
    let image = product("the input image", &[s.in_h, s.in_w, s.channels])?;
    if image == 0 || !x.len().is_multiple_of(image) {
        return Err(KernelError::Length { what: "the input", found: x.len(), expected: image });
    }
    let n_lines = product("the output", &[x.len() / image, out_h])?;
    let length = product("an output line", &[out_w, s.channels])?;
    check_len("the output", out.len(), product("the output", &[n_lines, length])?)?;
    let cost = out.len().saturating_mul(s.kernel[0]).saturating_mul(s.kernel[1]);
    let out = SharedOut::new(out);
    exec.split(n_lines, 1, exec.parts(cost, n_lines), &|from, to| {
        for line in from..to {
            exec.isa.run(PoolLine {
                shape: s,
                operator,
                y: line % out_h,
                image: &x[line / out_h * image..][..image],
                // SAFETY: output lines are disjoint and `split` gives each line to one task.
                out: unsafe { out.part(line * length, length) },
            });
        }
    })
}

/// One output line.
struct PoolLine<'a, O: Operator> {
    shape: &'a PoolShape,
    operator: O,
    y: usize,
    image: &'a [O::Value],
    out: &'a mut [O::Value],
}

impl<O: Operator> Vectorize for PoolLine<'_, O> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let n = self.shape.channels;
        let whole = n - n % BLOCK;
        let out = core::mem::take(&mut self.out);
        for (x, pixel) in out.chunks_exact_mut(n).enumerate() {
            for first in (0..whole).step_by(BLOCK) {
                self.block::<BLOCK>(x, first, pixel);
            }
            for first in whole..n {
                self.block::<1>(x, first, pixel);
            }
        }
    }
}

impl<O: Operator> PoolLine<'_, O> {
    /// Channels `first .. first + N` of output pixel `x`.
    #[inline(always)]
    fn block<const N: usize>(&self, x: usize, first: usize, pixel: &mut [O::Value]) {
        let (s, [v, h]) = (self.shape, self.shape.axes());
        let (rows, columns) = (v.taps(self.y), h.taps(x));
        let (inside, padded) = (rows.len() * columns.len(), s.padded_taps(0, self.y) * s.padded_taps(1, x));
        let mut acc = [self.operator.start(); N];
        // Whole image rows follow one another; any other row is a run of its own.
        let joined = columns.len() == s.in_w && h.dilation == 1 && v.dilation == 1;
        let (runs, n) = if joined { (rows.start..rows.end.min(rows.start + 1), inside) } else { (rows, columns.len()) };
        for ky in runs.filter(|_| n > 0) {
            let row = (self.y * v.stride + ky * v.dilation - v.before) * s.in_w;
            let at = (row + x * h.stride + columns.start * h.dilation - h.before) * s.channels + first;
            self.operator.run(&mut acc, &self.image[at..], s.channels * h.dilation, n);
        }
        for (i, acc) in acc.iter().enumerate() {
            pixel[first + i] = self.operator.finish(*acc, inside, padded);
        }
    }
}
