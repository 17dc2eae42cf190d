//! `STFT`: the discrete Fourier transform of overlapping frames of a signal.
//!
//! * (C1) Frame f begins at element f * frame_step; frames that do not fit are left out. (C2) Elements are multiplied
//!   with the window before the transform. (C3) `onesided` gives the first n/2 + 1 values, for real signals only.

use super::fourier::{Complex, Fourier};
use super::real::{Real, with_real};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Stft;

static SPEC: OpSpec = OpSpec {
    name: "STFT",
    domain: "",
    since: 17,
    inputs: (2, 4),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("onesided", AttrKind::Int)],
};

/// Frames of a signal.
#[derive(Clone, Copy)]
struct Frames {
    step: usize,
    length: usize,
    onesided: bool,
}

impl Frames {
    fn new(attrs: &ottava_hal::Attrs, step: Option<i64>, window: Option<usize>, length: Option<i64>) -> Result<Self> {
        let positive = |n: Option<i64>| n.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let wrong = |what: &str| Error::invalid(format!("STFT: {what}"));
        let step = positive(step).ok_or_else(|| wrong("frame_step must be 1 or more"))?;
        let length = match (length, window) {
            (None, window) => window.filter(|n| *n > 0),
            (given, None) => positive(given),
            (given, Some(window)) => positive(given).filter(|n| *n == window),
        };
        let length = length.ok_or_else(|| wrong("frame_length must be 1 or more, and the length of the window"))?;
        Ok(Self { step, length, onesided: attrs.int("onesided", 1)? != 0 })
    }

    fn bins(self) -> usize {
        if self.onesided { self.length / 2 + 1 } else { self.length }
    }

    /// (C1)
    fn count(self, signal: usize) -> usize {
        signal.checked_sub(self.length).map_or(0, |rest| rest / self.step + 1)
    }
}

impl Op for Stft {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let shape = cx.shape(0)?;
        if !(2..=3).contains(&shape.len()) {
            return Err(Error::invalid(format!("STFT: a signal of rank {}, expected 2 or 3", shape.len())));
        }
        let window = cx.opt(2).map(|w| w.ty.shape.elements());
        let batch = shape[0].clone();
        if cx.any_open(&[1, 3]) || window == Some(None) {
            return Ok(vec![cx.ty(cx.dtype(0)?, vec![batch, cx.fresh(0, 1), cx.fresh(0, 2), Dim::Known(2)])]);
        }
        let number = |i| Ok::<_, Error>(cx.opt_const_ints(i)?.and_then(|v| v.first().copied()));
        let frames = Frames::new(cx.attrs(), number(1)?, window.flatten(), number(3)?)?;
        let n = shape[1].known().map_or_else(|| cx.fresh(0, 1), |n| Dim::Known(frames.count(n)));
        Ok(vec![cx.ty(cx.dtype(0)?, vec![batch, n, Dim::Known(frames.bins()), Dim::Known(2)])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let number = |i| Ok::<_, Error>(cx.opt_ints(i)?.and_then(|v| v.first().copied()));
        let window = cx.opt(2).map(f64::read).transpose()?;
        let frames = Frames::new(cx.attrs(), number(1)?, window.as_ref().map(Vec::len), number(3)?)?;
        let y = with_real!(x.dtype(), "STFT", T => run::<T>(x, window.as_deref(), frames))?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("stft", "STFT", 17);
        let x = f32s(&[1, 5, 1], &[1.0, 2.0, 3.0, 4.0, 9.0]);
        let inputs = [x, ints(DataType::S64, &[], &[2]), f32s(&[2], &[1.0, 0.5])];
        let y = f32s(&[1, 2, 2, 2], &[2.0, 0.0, 0.0, 0.0, 5.0, 0.0, 1.0, 0.0]);
        vec![case_const("c2_windowed", node, 1, &inputs, &[y])]
    }
}

fn run<T: Real>(x: &Tensor, window: Option<&[f64]>, frames: Frames) -> Result<Tensor> {
    let (batch, n, parts) = match *x.shape() {
        [batch, n] => (batch, n, 1),
        [batch, n, parts @ 1..=2] => (batch, n, parts),
        ref other => return Err(Error::invalid(format!("STFT: a signal of shape {other:?}, expected [B, N, 1 or 2]"))),
    };
    if parts == 2 && frames.onesided {
        return Err(Error::invalid("STFT: onesided is for real signals"));
    }
    let shape = [batch, frames.count(n), frames.bins(), 2];
    let mut y = util::output(DataType::F64, &shape)?;
    let values = f64::read(x)?;
    let fourier = Fourier::new(frames.length, false)?;
    let rows = y.as_slice_mut::<f64>()?.chunks_exact_mut(frames.bins() * 2);
    for (row, to) in rows.enumerate() {
        let (image, frame) = (row / shape[1], row % shape[1]);
        let at = |j: usize| (image * n + frame * frames.step + j) * parts;
        let element = |j: usize| -> Complex {
            let weight = window.map_or(1.0, |w| w[j]);
            [values[at(j)] * weight, if parts == 2 { values[at(j) + 1] * weight } else { 0.0 }]
        };
        let line = fourier.run(&(0..frames.length).map(element).collect::<Vec<_>>());
        to.iter_mut().zip(line.iter().flatten()).for_each(|(to, v)| *to = *v);
    }
    T::write(x.dtype(), &shape, &Tensor::collect(y.as_slice::<f64>()?.iter().map(|v| T::of(*v)))?)
}
