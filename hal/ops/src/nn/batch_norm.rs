//! `BatchNormalization` with stored statistics.
//!
//! * (C1) `y = fl32(fl32(fl32(x - mean) * inv) * scale) + bias`, `inv = 1 / sqrt(var + eps)` as two operations.

use super::real::{Real, with_real};
use crate::elementwise::sample::{case_const, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, Error, Node, Reason, Result, Tensor, TensorType};

/// Batch normalization.
pub struct BatchNormalization;

static SPEC: OpSpec = OpSpec {
    name: "BatchNormalization",
    domain: "",
    since: 1,
    inputs: (5, 5),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("epsilon", AttrKind::Float),
        AttrSpec::optional("momentum", AttrKind::Float),
        AttrSpec::optional("training_mode", AttrKind::Int),
        AttrSpec::optional("spatial", AttrKind::Int),
    ],
};

/// Number of channels (axis 1) and elements per channel of an input.
pub(super) fn channels(x: &[usize]) -> (usize, usize) {
    (x.get(1).copied().unwrap_or(1), x.iter().skip(2).product())
}

/// One value per channel of an input.
pub(super) fn per_channel<T: Real>(cx: &EvalCx, i: usize, n: usize) -> Result<Vec<T>> {
    let t = cx.input(i)?;
    if t.elements() != n {
        let (op, found) = (cx.node.full_op(), t.shape());
        return Err(Error::invalid(format!("{op}: input {i} has shape {found:?}, expected [{n}]")));
    }
    T::read(t)
}

impl Op for BatchNormalization {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        if cx.attrs().int("training_mode", 0)? != 0 || cx.attrs().int("spatial", 1)? != 1 {
            let what = "BatchNormalization in training mode or per element; export the model for inference";
            return Err(Error::unsupported(Reason::AttrValue, what));
        }
        let x = cx.input(0)?;
        let y = with_real!(x.dtype(), "BatchNormalization", T => normalize::<T>(cx, x))?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("bn", "BatchNormalization", 15);
        node.attrs.set("epsilon", Attr::Float(0.0));
        let one = |v: f32| f32s(&[1], &[v]);
        let inputs = [f32s(&[1, 1, 2], &[1.0, 7.0]), one(3.0), one(0.5), one(3.0), one(4.0)];
        vec![case_const("c1_stored_statistics", node, 1, &inputs, &[f32s(&[1, 1, 2], &[-2.5, 6.5])])]
    }
}

fn normalize<T: Real>(cx: &EvalCx, x: &Tensor) -> Result<Tensor> {
    let (n_channels, inner) = channels(x.shape());
    let [scale, bias, mean, var] = [1, 2, 3, 4].map(|i| per_channel::<T>(cx, i, n_channels));
    let (scale, bias, mean, var) = (scale?, bias?, mean?, var?);
    let eps = T::of(cx.attrs().float("epsilon", 1e-5)?.into());
    let inv: Vec<T> = var.into_iter().map(|v| T::ONE / (v + eps).sqrt()).collect();
    let mut y = T::read(x)?;
    for (plane_idx, plane) in y.chunks_exact_mut(inner.max(1)).enumerate() {
        let c = plane_idx % n_channels.max(1);
        plane.iter_mut().for_each(|v| *v = (*v - mean[c]) * inv[c] * scale[c] + bias[c]);
    }
    T::write(x.dtype(), x.shape(), &y)
}
