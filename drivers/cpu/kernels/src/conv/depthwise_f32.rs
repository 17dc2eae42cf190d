//! Deterministic f32 depthwise convolution: plain loops over channels, compiled per instruction set.

use alloc::vec::Vec;

use super::finish_f32::FinishF32;
use super::shape::ConvShape;
use super::window::{Axis, axes};
use crate::error::{Result, product};
use crate::exec::Exec;
#[cfg(not(feature = "std"))]
use crate::float_ops::FloatOps as _;
use crate::shared_out::SharedOut;
use crate::stored::{Stored, put_f32s};
use crate::vectorize::Vectorize;

/// Channels whose accumulators stay in registers together.
const BLOCK: usize = 32;

/// Weights `[tap][channel]`.
pub(crate) struct DepthwiseF32 {
    weights: Vec<f32>,
}

impl DepthwiseF32 {
    pub(crate) fn pack(taps: usize, channels: usize, weight: &dyn Fn(usize, usize) -> f32) -> Self {
        Self { weights: (0..taps).flat_map(|t| (0..channels).map(move |c| weight(t, c))).collect() }
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_f32s(out, &self.weights);
    }

    pub(crate) fn restore(taps: usize, channels: usize, from: &mut Stored<'_>) -> Result<Self> {
        Ok(Self { weights: from.f32s(product("the packed weights", &[taps, channels])?)? })
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.weights.as_slice())
    }

    /// Tasks are output lines; each writes its own.
    pub(crate) fn run(
        &self,
        exec: Exec<'_>,
        s: &ConvShape,
        [out_h, out_w]: [usize; 2],
        finish: &FinishF32,
        x: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        let image = s.in_h * s.in_w * s.in_c;
        let n_lines = x.len() / image * out_h;
        let parts = exec.parts(out.len().saturating_mul(s.kernel[0] * s.kernel[1]), n_lines);
        let (axes, out, length) = (axes(s), SharedOut::new(out), out_w * s.in_c);
        exec.split(n_lines, 1, parts, &|from, to| {
            for line in from..to {
                exec.isa.run(DepthwiseLine {
                    weights: &self.weights,
                    channels: s.in_c,
                    axes,
                    y: line % out_h,
                    image: &x[line / out_h * image..][..image],
                    finish,
                    // SAFETY: output lines are disjoint and `split` gives each line to one task.
                    out: unsafe { out.part(line * length, length) },
                });
            }
        })
    }
}

/// One output line.
struct DepthwiseLine<'a> {
    weights: &'a [f32],
    channels: usize,
    axes: [Axis; 2],
    y: usize,
    image: &'a [f32],
    finish: &'a FinishF32,
    out: &'a mut [f32],
}

impl Vectorize for DepthwiseLine<'_> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let n = self.channels;
        let out = core::mem::take(&mut self.out);
        for (x, pixel) in out.chunks_exact_mut(n).enumerate() {
            let whole = n - n % BLOCK;
            for first in (0..whole).step_by(BLOCK) {
                self.block::<BLOCK>(x, first, pixel);
            }
            for first in whole..n {
                self.block::<1>(x, first, pixel);
            }
        }
    }
}

impl DepthwiseLine<'_> {
    /// Channels `first .. first + N` of pixel `x`, taps inside the image in ascending order.
    #[inline(always)]
    fn block<const N: usize>(&self, x: usize, first: usize, pixel: &mut [f32]) {
        let [v, h] = self.axes;
        let mut acc = [0f32; N];
        for ky in v.taps(self.y) {
            let row = (self.y * v.stride + ky * v.dilation - v.before) * h.input;
            for kx in h.taps(x) {
                let column = x * h.stride + kx * h.dilation - h.before;
                let a = lanes::<N>(self.image, (row + column) * self.channels + first);
                let w = lanes::<N>(self.weights, (ky * h.kernel + kx) * self.channels + first);
                for i in 0..N {
                    acc[i] = a[i].mul_add(w[i], acc[i]);
                }
            }
        }
        self.finish.apply(&mut acc, first);
        pixel[first..first + N].copy_from_slice(&acc);
    }
}

#[inline(always)]
fn lanes<const N: usize>(values: &[f32], at: usize) -> &[f32; N] {
    values[at..].first_chunk().expect("the window lies inside the image")
}
