//! `LpNormalization`, `MeanVarianceNormalization` and `LRN`.
//!
//! * (C1) LpNormalization divides by the norm along `axis`; a zero norm gives zeros.
//! * (C2) MeanVarianceNormalization: `(x - mean) / (sqrt(mean(x^2) - mean^2) + 1e-9)` over `axes`.
//! * (C3) LRN: `x / (bias + alpha/size * s)^beta`, `s` the sum of squares over `size` channels around x.

use super::average_pool::{norm_order, power, root};
use super::batch_norm::channels;
use super::real::{Real, with_real};
use super::softmax::Rows;
use crate::elementwise::sample::{case, f32s};
use crate::reduce::plan::Plan;
use crate::util::axis;
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, Attrs, Error, Node, Result, Tensor, TensorType};

#[derive(Clone, Copy)]
enum Kind {
    Lp,
    MeanVariance,
    Local,
}

/// A normalization along axes.
pub struct AxisNorm {
    spec: OpSpec,
    kind: Kind,
}

const fn norm(name: &'static str, kind: Kind, attrs: &'static [AttrSpec]) -> AxisNorm {
    AxisNorm { spec: OpSpec { name, domain: "", since: 1, inputs: (1, 1), outputs: (1, 1), attrs }, kind }
}

/// By the norm.
pub static LP: AxisNorm = norm(
    "LpNormalization",
    Kind::Lp,
    &[AttrSpec::optional("axis", AttrKind::Int), AttrSpec::optional("p", AttrKind::Int)],
);
/// By mean and variance.
pub static MEAN_VARIANCE: AxisNorm =
    norm("MeanVarianceNormalization", Kind::MeanVariance, &[AttrSpec::optional("axes", AttrKind::Ints)]);
/// By the response of neighbouring channels.
pub static LRN: AxisNorm = norm(
    "LRN",
    Kind::Local,
    &[
        AttrSpec::optional("alpha", AttrKind::Float),
        AttrSpec::optional("beta", AttrKind::Float),
        AttrSpec::optional("bias", AttrKind::Float),
        AttrSpec::required("size", AttrKind::Int),
    ],
);

impl Op for AxisNorm {
    fn spec(&self) -> &'static OpSpec {
        match self.kind {
            Kind::Lp => &LP.spec,
            Kind::MeanVariance => &MEAN_VARIANCE.spec,
            Kind::Local => &LRN.spec,
        }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let y = with_real!(x.dtype(), self.spec.name, T => {
            let data = T::read(x)?;
            let y = match self.kind {
                Kind::Lp => lp(cx, x, &data)?,
                Kind::MeanVariance => mean_variance(cx, x, &data)?,
                Kind::Local => local(cx, x, &data)?,
            };
            T::write(x.dtype(), x.shape(), &y)
        })?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("norm", self.spec.name, self.spec.since);
        match self.kind {
            Kind::Lp => {
                let (x, y) = (f32s(&[2, 2], &[3.0, -4.0, 0.0, 0.0]), f32s(&[2, 2], &[0.6, -0.8, 0.0, 0.0]));
                vec![case("c1_zero_norm", node, &[x], &[y])]
            }
            Kind::MeanVariance => {
                let (x, y) = (f32s(&[2, 1, 1, 1], &[1.0, 3.0]), f32s(&[2, 1, 1, 1], &[-1.0, 1.0]));
                vec![case("c2_over_batch_and_plane", node, &[x], &[y])]
            }
            Kind::Local => {
                let mut node = node;
                node.attrs = Attrs::default()
                    .with("size", Attr::Int(3))
                    .with("alpha", Attr::Float(3.0))
                    .with("beta", Attr::Float(1.0));
                let (x, y) =
                    (f32s(&[1, 3, 1], &[1.0, 2.0, 3.0]), f32s(&[1, 3, 1], &[1.0 / 6.0, 2.0 / 15.0, 3.0 / 14.0]));
                vec![case("c3_neighbouring_channels", node, &[x], &[y])]
            }
        }
    }
}

/// (C1)
fn lp<T: Real>(cx: &EvalCx, x: &Tensor, data: &[T]) -> Result<Vec<T>> {
    let p = norm_order(cx)?;
    let rows = Rows::along(x.shape(), axis(cx.attrs().int("axis", -1)?, x.shape().len())?);
    let mut y = vec![T::default(); data.len()];
    rows.map(data, &mut y, |row, out| {
        let mut sum = T::default();
        row.iter().for_each(|&v| sum += power(v, p));
        let norm = root(sum, p);
        let is_zero = norm == T::default();
        out.iter_mut().zip(row).for_each(|(o, &v)| *o = if is_zero { T::default() } else { v / norm });
        Ok(())
    })?;
    Ok(y)
}

/// (C2)
fn mean_variance<T: Real>(cx: &EvalCx, x: &Tensor, data: &[T]) -> Result<Vec<T>> {
    let axes = cx.attrs().ints_opt("axes")?.unwrap_or(&[0, 2, 3]);
    let plan = Plan::new(x.shape(), Some(axes), true)?;
    let mut sums = vec![(T::default(), T::default()); plan.outputs()];
    plan.fold(data, &mut sums, |(sum, squares), v| {
        *sum += v;
        *squares += v * v;
    });
    let n = T::of(plan.n as f64);
    let stats: Vec<(T, T)> = sums
        .into_iter()
        .map(|(sum, squares)| {
            let mean = sum / n;
            (mean, (squares / n - mean * mean).sqrt() + T::of(1e-9))
        })
        .collect();
    let place = plan.targets();
    Ok(data.iter().zip(place).map(|(&v, p)| (v - stats[p].0) / stats[p].1).collect())
}

/// (C3)
fn local<T: Real>(cx: &EvalCx, x: &Tensor, data: &[T]) -> Result<Vec<T>> {
    let size = cx.attrs().int("size", 0)?;
    let size =
        usize::try_from(size).ok().filter(|&s| s > 0).ok_or_else(|| Error::invalid(format!("LRN: size {size}")))?;
    let real = |name, default| cx.attrs().float(name, default).map(|v| T::of(v.into()));
    let (alpha, beta, bias) = (real("alpha", 1e-4)?, real("beta", 0.75)?, real("bias", 1.0)?);
    let factor = alpha / T::of(size as f64);
    let (n_channels, inner) = channels(x.shape());
    let mut y = Vec::with_capacity(data.len());
    for (i, &v) in data.iter().enumerate() {
        let (plane, at) = (i / inner.max(1), i % inner.max(1));
        let (image, c) = (plane / n_channels.max(1), plane % n_channels.max(1));
        let first = c.saturating_sub((size - 1) / 2);
        let end = c.saturating_add(size / 2 + 1).min(n_channels);
        let mut sum = T::default();
        for other in first..end {
            let w = data[(image * n_channels + other) * inner + at];
            sum += w * w;
        }
        y.push(v / (bias + factor * sum).pow(beta));
    }
    Ok(y)
}
