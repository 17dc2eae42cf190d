//! Deterministic f32 depthwise convolution: the driver over output lines.

use alloc::vec::Vec;

use super::finish_f32::FinishPlan;
use super::shape::ConvShape;
use super::window::{Axis, axes};
use crate::depthwise_f32::DepthwiseRow;
use crate::elements::Elements;
use crate::error::{Result, product};
use crate::exec::Exec;
use crate::shared_out::SharedOut;
use crate::stored::{Stored, put_elements};

/// Weights `[tap][channel]`.
pub(crate) struct DepthwiseF32 {
    weights: Elements<f32>,
}

impl DepthwiseF32 {
    pub(crate) fn pack(taps: usize, channels: usize, weight: &dyn Fn(usize, usize) -> f32) -> Self {
        let weights: Vec<f32> = (0..taps).flat_map(|t| (0..channels).map(move |c| weight(t, c))).collect();
        Self { weights: weights.into() }
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_elements(out, &self.weights);
    }

    pub(crate) fn restore(taps: usize, channels: usize, from: &mut Stored<'_>) -> Result<Self> {
        Ok(Self { weights: from.elements(product("the packed weights", &[taps, channels])?)? })
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[f32]>(&self.weights)
    }

    /// Tasks are output lines; each writes its own.
    pub(crate) fn run(
        &self,
        exec: Exec<'_>,
        s: &ConvShape,
        [out_h, out_w]: [usize; 2],
        (finish, residual): (&FinishPlan, Option<&[f32]>),
        x: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        let image = s.in_h * s.in_w * s.in_c;
        let n_lines = x.len() / image * out_h;
        let parts = exec.parts(out.len().saturating_mul(s.kernel[0] * s.kernel[1]), n_lines);
        let (axes, out, length) = (axes(s), SharedOut::new(out), out_w * s.in_c);
        let interior = axes[1].interior(out_w);
        exec.split(n_lines, 1, parts, &|from, to| {
            for n in from..to {
                let line = Line { s, axes, weights: &self.weights, finish, image: &x[n / out_h * image..][..image] };
                let residual = residual.map(|r| &r[n * length..][..length]);
                // SAFETY: output lines are disjoint and `split` gives each line to one task.
                let out = unsafe { out.part(n * length, length) };
                for x in (0..interior.start).chain(interior.end..out_w) {
                    line.pixels(exec, [n % out_h, x], 1, residual, out);
                }
                line.pixels(exec, [n % out_h, interior.start], interior.len(), residual, out);
            }
        })
    }
}

/// What all pixels of an output line share.
struct Line<'a> {
    s: &'a ConvShape,
    axes: [Axis; 2],
    weights: &'a [f32],
    finish: &'a FinishPlan,
    image: &'a [f32],
}

impl Line<'_> {
    /// Computes `n` pixels from column `x` on that see the same taps.
    fn pixels(&self, exec: Exec<'_>, [y, x]: [usize; 2], n: usize, residual: Option<&[f32]>, out: &mut [f32]) {
        if n == 0 {
            return;
        }
        let (s, [v, h], c) = (self.s, &self.axes, self.s.in_c);
        let (ys, xs) = (v.taps(y), h.taps(x));
        let (mut a, mut weights) = (self.image, self.weights);
        if !ys.is_empty() && !xs.is_empty() {
            let row = y * v.stride + ys.start * v.dilation - v.before;
            let column = x * h.stride + xs.start * h.dilation - h.before;
            a = &a[(row * s.in_w + column) * c..];
            weights = &weights[(ys.start * h.kernel + xs.start) * c..];
        }
        let own = x * c..(x + n) * c;
        exec.isa.depthwise_f32(DepthwiseRow {
            a,
            weights,
            channels: c,
            taps: [ys.len(), xs.len()],
            a_steps: [v.dilation * s.in_w * c, h.dilation * c, h.stride * c],
            w_step: h.kernel * c,
            bias: self.finish.bias(),
            residual: residual.map(|r| &r[own.clone()]),
            bounds: self.finish.bounds(),
            out: &mut out[own],
        });
    }
}
