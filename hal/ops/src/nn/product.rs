//! The loops of all products: convolution, transposed convolution, matrix product, over any accumulator type.
//!
//! * (C1) One accumulator per output starts at zero and takes its terms in ascending K: (kernel depth, height, width,
//!   input channel within the group) for convolutions, the shared index for matrix products (numerics.md section 7).
//! * (C2) Taps in the padding are skipped, which in integers is the same as padding with the zero point.
//!
//! The inner loop always runs over outputs of one row, so that it vectorises without changing any order. Integer
//! callers prove beforehand that no sum leaves the accumulator type ([`super::typed`]).

use super::real::Real;
use super::window::Axis;
use std::ops::Range;

/// A type that products accumulate in.
pub trait Acc: Copy + Default {
    /// `acc + x * w`: one rounding for floats, modulo 2^n for integers.
    fn mac(acc: Self, x: Self, w: Self) -> Self;
}

impl Acc for f32 {
    #[inline]
    fn mac(acc: Self, x: Self, w: Self) -> Self {
        x.fma(w, acc)
    }
}
impl Acc for f64 {
    #[inline]
    fn mac(acc: Self, x: Self, w: Self) -> Self {
        x.fma(w, acc)
    }
}
impl Acc for i32 {
    #[inline]
    fn mac(acc: Self, x: Self, w: Self) -> Self {
        acc.wrapping_add(x.wrapping_mul(w))
    }
}
impl Acc for i64 {
    #[inline]
    fn mac(acc: Self, x: Self, w: Self) -> Self {
        acc.wrapping_add(x.wrapping_mul(w))
    }
}

/// Maps a flat index of a product's output to its output channel.
#[derive(Debug, Clone, Copy)]
pub struct Channels {
    /// Elements that follow one step of the channel axis.
    pub inner: usize,
    /// Number of channels.
    pub extent: usize,
}

impl Channels {
    /// The channel of element `i`.
    pub fn of(self, i: usize) -> usize {
        i / self.inner.max(1) % self.extent.max(1)
    }
}

/// A product over any accumulator type, with what the integer epilogue must know about it.
pub trait Kernel {
    /// Computes the sums; `out` is zero on entry and has as many elements as the output.
    fn run<T: Acc>(&self, x: &[T], w: &[T], out: &mut [T]);
    /// Where the output channels lie in the output.
    fn channels(&self) -> Channels;
    /// The weights of set `c`; a set is what one output channel is summed over.
    fn weights_of<'a>(&self, c: usize, w: &'a [i32]) -> impl Iterator<Item = i32> + 'a;
    /// Number of sets among `w_len` weights; set `c` belongs to channel `c % channels`.
    fn weight_sets(&self, _w_len: usize) -> usize {
        self.channels().extent
    }
}

/// The convolution of a geometry.
pub struct Forward(pub ConvGeometry);

impl Kernel for Forward {
    fn run<T: Acc>(&self, x: &[T], w: &[T], out: &mut [T]) {
        conv(&self.0, x, w, out);
    }
    fn channels(&self) -> Channels {
        Channels { inner: self.0.outputs(), extent: self.0.groups * self.0.c_out }
    }
    fn weights_of<'a>(&self, c: usize, w: &'a [i32]) -> impl Iterator<Item = i32> + 'a {
        let k = self.0.c_in * self.0.kernel();
        w.iter().skip(c * k).take(k).copied()
    }
}

/// The transposed convolution of a geometry.
pub struct Transposed(pub ConvGeometry);

impl Kernel for Transposed {
    fn run<T: Acc>(&self, x: &[T], w: &[T], out: &mut [T]) {
        conv_transpose(&self.0, x, w, out);
    }
    fn channels(&self) -> Channels {
        Channels { inner: self.0.axes.iter().map(|a| a.input).product(), extent: self.0.groups * self.0.c_out }
    }
    fn weights_of<'a>(&self, c: usize, w: &'a [i32]) -> impl Iterator<Item = i32> + 'a {
        let (taps, c_out, c_in) = (self.0.kernel(), self.0.c_out.max(1), self.0.c_in);
        let first = c / c_out * c_in;
        let row = move |ci: usize| w.iter().skip(((first + ci) * c_out + c % c_out) * taps).take(taps).copied();
        (0..c_in).flat_map(row)
    }
}

/// A batch of matrix products: `(a, b)` of each output matrix as matrix indices.
pub struct Matrices {
    /// Rows of the output.
    pub m: usize,
    /// Shared extent.
    pub k: usize,
    /// Columns of the output.
    pub n: usize,
    /// Which matrices of `a` and `b` make output `i`.
    pub pairs: Vec<(usize, usize)>,
}

impl Kernel for Matrices {
    fn run<T: Acc>(&self, a: &[T], b: &[T], out: &mut [T]) {
        let (ma, mb, mo) = (self.m * self.k, self.k * self.n, self.m * self.n);
        if mo == 0 {
            return;
        }
        for (&(ia, ib), y) in self.pairs.iter().zip(out.chunks_exact_mut(mo)) {
            matmul(self.n, self.k, &a[ia * ma..][..ma], &b[ib * mb..][..mb], y);
        }
    }
    fn channels(&self) -> Channels {
        Channels { inner: 1, extent: self.n }
    }
    fn weights_of<'a>(&self, c: usize, w: &'a [i32]) -> impl Iterator<Item = i32> + 'a {
        let (k, n) = (self.k, self.n.max(1));
        let (matrix, column) = (c / n, c % n);
        (0..k).map(move |kk| w.get((matrix * k + kk) * n + column).copied().unwrap_or(0))
    }
    fn weight_sets(&self, w_len: usize) -> usize {
        w_len / self.k.max(1)
    }
}

/// Geometry of a convolution.
#[derive(Debug, Clone, Copy)]
pub struct ConvGeometry {
    /// Groups.
    pub groups: usize,
    /// Input channels per group.
    pub c_in: usize,
    /// Output channels per group.
    pub c_out: usize,
    /// Depth, height, width.
    pub axes: [Axis; 3],
}

impl ConvGeometry {
    /// The same sums over fewer, longer rows where the window is a single point.
    fn flattened(mut self) -> Self {
        let point = |a: &Axis| *a == Axis::identity(a.input);
        if self.axes.iter().all(point) {
            let n = self.axes.iter().map(|a| a.input).product();
            self.axes = [Axis::identity(1), Axis::identity(1), Axis::identity(n)];
        }
        self
    }

    fn kernel(&self) -> usize {
        self.axes.iter().map(|a| a.kernel).product()
    }

    fn outputs(&self) -> usize {
        self.axes.iter().map(|a| a.output).product()
    }
}

/// `out[n, g*c_out + co, ..] = sum of x * w`, weights `[groups*c_out, c_in, kernel..]`. `out` is zero on entry.
pub fn conv<T: Acc>(geometry: &ConvGeometry, x: &[T], w: &[T], out: &mut [T]) {
    let g = geometry.flattened();
    if g.outputs() == 0 {
        return;
    }
    let columns: Vec<Range<usize>> = (0..g.axes[2].kernel).map(|k| g.axes[2].outputs(k)).collect();
    for (plane_idx, plane) in out.chunks_exact_mut(g.outputs()).enumerate() {
        let image = plane_idx / (g.groups * g.c_out);
        let channel = plane_idx % (g.groups * g.c_out);
        let first_in = (image * g.groups + channel / g.c_out) * g.c_in;
        let weights = &w[channel * g.c_in * g.kernel()..][..g.c_in * g.kernel()];
        for (row_idx, row) in plane.chunks_exact_mut(g.axes[2].output).enumerate() {
            conv_row(&g, x, first_in, weights, row_idx, &columns, row);
        }
    }
}

/// One output row of one channel.
fn conv_row<T: Acc>(
    g: &ConvGeometry,
    x: &[T],
    first_in: usize,
    w: &[T],
    row_idx: usize,
    columns: &[Range<usize>],
    row: &mut [T],
) {
    let [depth, height, width] = &g.axes;
    let (od, oh) = (row_idx / height.output, row_idx % height.output);
    for kd in depth.taps(od) {
        for kh in height.taps(oh) {
            let line = depth.at(od, kd) * height.input + height.at(oh, kh);
            for (kw, range) in columns.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
                let tap = (kd * height.kernel + kh) * width.kernel + kw;
                for ci in 0..g.c_in {
                    let x_line = (first_in + ci) * depth.input * height.input + line;
                    let start = x_line * width.input + width.at(range.start, kw);
                    mac_row(&mut row[range.clone()], &x[start..], width.stride, w[ci * g.kernel() + tap]);
                }
            }
        }
    }
}

/// `row[i] += xs[i * stride] * w`.
#[inline]
fn mac_row<T: Acc>(row: &mut [T], xs: &[T], stride: usize, w: T) {
    if stride == 1 {
        for (acc, &x) in row.iter_mut().zip(xs) {
            *acc = T::mac(*acc, x, w);
        }
    } else {
        for (acc, &x) in row.iter_mut().zip(xs.iter().step_by(stride)) {
            *acc = T::mac(*acc, x, w);
        }
    }
}

/// The transposed convolution: axes are those of the forward convolution that it inverts, so `axis.output` is the
/// extent of `x` and `axis.input` that of `out`. Weights `[groups*c_in, c_out, kernel..]`. `out` is zero on entry.
pub fn conv_transpose<T: Acc>(g: &ConvGeometry, x: &[T], w: &[T], out: &mut [T]) {
    let [depth, height, width] = &g.axes;
    let plane_len = depth.input * height.input * width.input;
    if plane_len == 0 || g.outputs() == 0 {
        return;
    }
    for (plane_idx, plane) in out.chunks_exact_mut(plane_len).enumerate() {
        let image = plane_idx / (g.groups * g.c_out);
        let channel = plane_idx % (g.groups * g.c_out);
        let first_in = channel / g.c_out * g.c_in;
        let weight = |ci: usize, tap: usize| w[((first_in + ci) * g.c_out + channel % g.c_out) * g.kernel() + tap];
        for (row_idx, row) in plane.chunks_exact_mut(width.input).enumerate() {
            let (d, h) = (row_idx / height.input, row_idx % height.input);
            for (kd, id) in sources(depth, d) {
                for (kh, ih) in sources(height, h) {
                    for kw in 0..width.kernel {
                        let range = width.outputs(kw);
                        for ci in 0..g.c_in {
                            let x_plane = image * g.groups * g.c_in + first_in + ci;
                            let line = (x_plane * depth.output + id) * height.output + ih;
                            let xs = &x[line * width.output..][..width.output];
                            let tap = (kd * height.kernel + kh) * width.kernel + kw;
                            scatter_row(row, &xs[range.clone()], width.at(range.start, kw), width, weight(ci, tap));
                        }
                    }
                }
            }
        }
    }
}

/// The (tap, source) pairs that reach position `p` of a transposed axis, taps ascending.
fn sources(axis: &Axis, p: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    (0..axis.kernel).filter_map(move |k| {
        let distance = (p + axis.before).checked_sub(k * axis.dilation)?;
        let source = distance / axis.stride;
        (distance % axis.stride == 0 && source < axis.output).then_some((k, source))
    })
}

/// `row[first + i * stride] += xs[i] * w`.
fn scatter_row<T: Acc>(row: &mut [T], xs: &[T], first: usize, axis: &Axis, w: T) {
    if let Some(tail) = row.get_mut(first..) {
        for (acc, &x) in tail.iter_mut().step_by(axis.stride).zip(xs) {
            *acc = T::mac(*acc, x, w);
        }
    }
}

/// `out[m, n] = sum over k of a[m, k] * b[k, n]`. `out` is zero on entry.
pub fn matmul<T: Acc>(n: usize, k: usize, a: &[T], b: &[T], out: &mut [T]) {
    if n == 0 || k == 0 {
        return;
    }
    for (row, a_row) in out.chunks_exact_mut(n).zip(a.chunks_exact(k)) {
        for (b_row, &x) in b.chunks_exact(n).zip(a_row) {
            mac_row(row, b_row, 1, x);
        }
    }
}

/// The transpose of a row-major matrix.
pub fn transpose<T: Copy + Default>(rows: usize, cols: usize, m: &[T]) -> Vec<T> {
    let mut out = vec![T::default(); m.len()];
    for r in 0..rows {
        for c in 0..cols {
            out[c * rows + r] = m[r * cols + c];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_float_sums_are_fused_and_ascend() {
        let eps = f32::EPSILON;
        let mut out = [0.0f32];
        matmul(1, 2, &[1.0, 1.0 + eps], &[-1.0 - 2.0 * eps, 1.0 + eps], &mut out);
        assert_eq!(out[0], eps * eps);
        out = [0.0];
        matmul(1, 3, &[16_777_216.0, 1.0, 1.0], &[1.0, 1.0, 1.0], &mut out);
        assert_eq!(out[0], 16_777_216.0);
    }

    #[test]
    fn c1_k_order_is_taps_then_channels() {
        // Two channels, two taps: the order decides which of the ones survives next to 2^24.
        let axes = [Axis::identity(1), Axis::identity(1), Axis { output: 1, kernel: 2, ..Axis::identity(2) }];
        let g = ConvGeometry { groups: 1, c_in: 2, c_out: 1, axes };
        let mut out = [0.0f32];
        // x is [channel][column]; (column, channel) reads 1, 1, 2^24, -2^24, then 1, 2^24, 1, -2^24.
        conv(&g, &[1.0, 16_777_216.0, 1.0, -16_777_216.0], &[1.0; 4], &mut out);
        assert_eq!(out[0], 2.0);
        out = [0.0];
        conv(&g, &[1.0, 1.0, 16_777_216.0, -16_777_216.0], &[1.0; 4], &mut out);
        assert_eq!(out[0], 0.0);
    }
}
