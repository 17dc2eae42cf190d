//! `InstanceNormalization` and `GroupNormalization`: each group of channels of each image is normalized.
//!
//! * (C1) `y = fl32(fl32(d * inv) * scale) + bias`, statistics in two passes as in LayerNormalization.
//! * (C2) Scale and bias hold one value per channel; GroupNormalization 18 has one per group.

use super::batch_norm::channels;
use super::real::{Real, with_real};
use crate::elementwise::sample::{case_const, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, Error, Node, Result, Tensor, TensorType};

/// A normalization of groups of channels.
pub struct ChannelNorm {
    spec: OpSpec,
    grouped: bool,
}

/// One channel at a time.
pub static INSTANCE: ChannelNorm = ChannelNorm {
    spec: OpSpec {
        name: "InstanceNormalization",
        domain: "",
        since: 1,
        inputs: (3, 3),
        outputs: (1, 1),
        attrs: &[AttrSpec::optional("epsilon", AttrKind::Float)],
    },
    grouped: false,
};

/// `num_groups` groups.
pub static GROUP: ChannelNorm = ChannelNorm {
    spec: OpSpec {
        name: "GroupNormalization",
        domain: "",
        since: 18,
        inputs: (3, 3),
        outputs: (1, 1),
        attrs: &[
            AttrSpec::optional("epsilon", AttrKind::Float),
            AttrSpec::required("num_groups", AttrKind::Int),
            AttrSpec::optional("stash_type", AttrKind::Int),
        ],
    },
    grouped: true,
};

impl Op for ChannelNorm {
    fn spec(&self) -> &'static OpSpec {
        if self.grouped { &GROUP.spec } else { &INSTANCE.spec }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let (n_channels, _) = channels(x.shape());
        let groups = if self.grouped { cx.attrs().int("num_groups", 0)? } else { n_channels as i64 };
        let groups = usize::try_from(groups)
            .ok()
            .filter(|&g| g > 0 && n_channels % g == 0)
            .ok_or_else(|| Error::invalid(format!("{}: {groups} groups of {n_channels} channels", self.spec.name)))?;
        let y = with_real!(x.dtype(), self.spec.name, T => normalize::<T>(cx, x, groups))?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("norm", self.spec.name, 21);
        node.attrs.set("epsilon", Attr::Float(0.0));
        if self.grouped {
            node.attrs.set("num_groups", Attr::Int(1));
        }
        let x = f32s(&[1, 2, 2], &[1.0, 3.0, 1.0, 3.0]);
        let inputs = [x, f32s(&[2], &[1.0, 2.0]), f32s(&[2], &[0.0, 0.5])];
        vec![case_const("c1_scale_per_channel", node, 1, &inputs, &[f32s(&[1, 2, 2], &[-1.0, 1.0, -1.5, 2.5])])]
    }
}

fn normalize<T: Real>(cx: &EvalCx, x: &Tensor, groups: usize) -> Result<Tensor> {
    let (n_channels, inner) = channels(x.shape());
    let (scale, bias) = (affine::<T>(cx, 1, n_channels, groups)?, affine::<T>(cx, 2, n_channels, groups)?);
    let eps = T::of(cx.attrs().float("epsilon", 1e-5)?.into());
    let mut y = T::read(x)?;
    let len = n_channels / groups * inner;
    for (g, group) in y.chunks_exact_mut(len.max(1)).enumerate() {
        let mean = T::mean(group);
        let inv = T::ONE / (T::variance(group, mean) + eps).sqrt();
        let first = g % groups * (n_channels / groups);
        for (c, plane) in group.chunks_exact_mut(inner.max(1)).enumerate() {
            let (s, b) = (scale[first + c], bias[first + c]);
            plane.iter_mut().for_each(|v| *v = (*v - mean) * inv * s + b);
        }
    }
    T::write(x.dtype(), x.shape(), &y)
}

/// (C2) One value per channel.
fn affine<T: Real>(cx: &EvalCx, i: usize, n_channels: usize, groups: usize) -> Result<Vec<T>> {
    let values = T::read(cx.input(i)?)?;
    match values.len() {
        n if n == n_channels => Ok(values),
        n if n == groups => Ok((0..n_channels).map(|c| values[c / (n_channels / groups)]).collect()),
        n => Err(Error::invalid(format!("{}: {n} values in input {i}, expected {n_channels}", cx.node.full_op()))),
    }
}
