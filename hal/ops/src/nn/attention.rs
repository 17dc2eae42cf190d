//! `Attention`: scaled dot-product attention with masks, a cache, and grouped heads.
//!
//! * (C1) Inputs are `[batch, heads, steps, size]`, or `[batch, steps, heads * size]` with the numbers of heads as
//!   attributes; query head h reads key head `h / (q_heads / kv_heads)`.
//! * (C2) Scores: `q * sqrt(scale)` times `k * sqrt(scale)`, soft cap, then the mask's bias, then Softmax.
//! * (C3) The mask is boolean or additive, broadcasts from the right, and is closed beyond its last column.
//! * (C4) Causal and windowed positions count from the cached steps, or from `nonpad_kv_seqlen - steps`.
//! * (C5) A row whose bias is -inf everywhere has probabilities 0.
//! * (C6) With bf16 operands every intermediate value is rounded to bf16, as in the operator's function body.

use super::attention_scores::{Mask, attend};
use super::real::{Real, with_real};
use crate::elementwise::sample::{case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attrs, Dim, Error, Node, Result, Tensor, TensorType};

/// Scaled dot-product attention.
pub struct Attention;

static SPEC: OpSpec = OpSpec {
    name: "Attention",
    domain: "",
    since: 23,
    inputs: (3, 7),
    outputs: (1, 4),
    attrs: &[
        AttrSpec::optional("is_causal", AttrKind::Int),
        AttrSpec::optional("kv_num_heads", AttrKind::Int),
        AttrSpec::optional("left_window_size", AttrKind::Int),
        AttrSpec::optional("q_num_heads", AttrKind::Int),
        AttrSpec::optional("qk_matmul_output_mode", AttrKind::Int),
        AttrSpec::optional("right_window_size", AttrKind::Int),
        AttrSpec::optional("scale", AttrKind::Float),
        AttrSpec::optional("softcap", AttrKind::Float),
        AttrSpec::optional("softmax_precision", AttrKind::Int),
    ],
};

/// A number of heads, which 3-D inputs need.
fn heads(attrs: &Attrs, name: &str) -> Result<usize> {
    let n = attrs.int(name, 0)?;
    let heads = usize::try_from(n).ok().filter(|&n| n > 0);
    heads.ok_or_else(|| Error::invalid(format!("Attention: `{name}` is {n}; 3-D inputs need a number of heads")))
}

/// Batch, heads, steps, size of an operand.
fn extents(attrs: &Attrs, shape: &[usize], name: &str) -> Result<[usize; 4]> {
    match *shape {
        [b, h, s, d] => Ok([b, h, s, d]),
        [b, s, hidden] => {
            let h = heads(attrs, name)?;
            if hidden % h != 0 {
                return Err(Error::invalid(format!("Attention: {hidden} elements in {h} heads")));
            }
            Ok([b, h, s, hidden / h])
        }
        _ => Err(Error::invalid(format!("Attention: an operand of shape {shape:?}, expected rank 3 or 4"))),
    }
}

/// The same for symbolic shapes.
fn dims(attrs: &Attrs, shape: &[Dim], name: &str, fresh: Dim) -> Result<[Dim; 4]> {
    match shape {
        [b, h, s, d] => Ok([b.clone(), h.clone(), s.clone(), d.clone()]),
        [b, s, hidden] => {
            let h = heads(attrs, name)?;
            let size = hidden.known().map_or(fresh, |n| Dim::Known(n / h));
            Ok([b.clone(), Dim::Known(h), s.clone(), size])
        }
        _ => Err(Error::invalid(format!("Attention: an operand of rank {}, expected 3 or 4", shape.len()))),
    }
}

impl Op for Attention {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let attrs = cx.attrs();
        let [batch, q_heads, steps, _] = dims(attrs, cx.shape(0)?, "q_num_heads", cx.fresh(0, 3))?;
        let [_, kv_heads, keys, size] = dims(attrs, cx.shape(1)?, "kv_num_heads", cx.fresh(1, 3))?;
        let [.., v_size] = dims(attrs, cx.shape(2)?, "kv_num_heads", cx.fresh(2, 3))?;
        let total = match cx.opt(4).map(|p| p.ty.shape.0.get(2).cloned()) {
            None => keys,
            Some(past) => match (past.and_then(|p| p.known()), keys.known()) {
                (Some(p), Some(k)) => Dim::Known(p.saturating_add(k)),
                _ => cx.fresh(1, 2),
            },
        };
        let y = if cx.shape(0)?.len() == 4 {
            vec![batch.clone(), q_heads.clone(), steps.clone(), v_size.clone()]
        } else {
            let hidden = match (q_heads.known(), v_size.known()) {
                (Some(h), Some(d)) => Dim::Known(h.saturating_mul(d)),
                _ => cx.fresh(0, 2),
            };
            vec![batch.clone(), steps.clone(), hidden]
        };
        let dtype = cx.dtype(0)?;
        Ok(vec![
            cx.ty(dtype, y),
            cx.ty(cx.dtype(1)?, vec![batch.clone(), kv_heads.clone(), total.clone(), size]),
            cx.ty(cx.dtype(2)?, vec![batch.clone(), kv_heads, total.clone(), v_size]),
            cx.ty(dtype, vec![batch, q_heads, steps, total]),
        ])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        with_real!(cx.input(0)?.dtype(), "Attention", T => {
            let q = Operand::<T>::of(cx, 0, None, "q_num_heads")?;
            let k = Operand::<T>::of(cx, 1, cx.opt(4), "kv_num_heads")?;
            let v = Operand::<T>::of(cx, 2, cx.opt(5), "kv_num_heads")?;
            let past = cx.opt(4).map(|p| p.shape()[2]);
            let mask = Mask::<T>::of(cx, &q, &k, past)?;
            let result = attend(cx, &q, &k, &v, &mask)?;
            let dtype = cx.input(0)?.dtype();
            let y = if cx.input(0)?.shape().len() == 3 { result.y.heads_last() } else { result.y };
            let mut outputs = vec![
                T::write(dtype, &y.shape(), &y.data)?,
                T::write(cx.input(1)?.dtype(), &k.shape(), &k.data)?,
                T::write(cx.input(2)?.dtype(), &v.shape(), &v.data)?,
            ];
            if cx.node.outputs.len() > 3 {
                outputs.push(T::write(dtype, &result.scores.shape(), &result.scores.data)?);
            }
            Ok(outputs)
        })
    }

    fn macs(&self, _node: &Node, inputs: &[Option<&TensorType>], outputs: &[&TensorType]) -> u64 {
        let macs = || {
            let of = |i: usize| inputs.get(i).copied().flatten()?.shape.known();
            let (q, k) = (of(0)?, of(1)?);
            let keys = k
                .get(k.len().checked_sub(2)?)?
                .checked_add(of(4).map_or(0, |p| p.get(2).copied().unwrap_or(0)))? as u64;
            let n = q.iter().product::<usize>() as u64 + outputs.first()?.shape.elements()? as u64;
            n.checked_mul(keys)
        };
        macs().unwrap_or(0)
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("attention", "Attention", 23);
        // Equal scores: the mean of the values.
        let (q, k) = (f32s(&[1, 1, 1, 1], &[0.0]), f32s(&[1, 1, 2, 1], &[1.0, 2.0]));
        let v = f32s(&[1, 1, 2, 1], &[3.0, 5.0]);
        let mask = Tensor::from_bools(&[1, 2], &[false, true]).expect("two elements fit the shape");
        let shut = Tensor::from_bools(&[1, 2], &[false, false]).expect("two elements fit the shape");
        let y = |v: f32| f32s(&[1, 1, 1, 1], &[v]);
        let inputs = |m: Option<Tensor>| [q.clone(), k.clone(), v.clone()].into_iter().chain(m).collect::<Vec<_>>();
        vec![
            case("c2_mean_of_equal_scores", node.clone(), &inputs(None), &[y(4.0)]),
            case("c3_boolean_mask", node.clone(), &inputs(Some(mask)), &[y(5.0)]),
            case("c5_closed_row_is_zero", node, &inputs(Some(shut)), &[y(0.0)]),
        ]
    }
}

/// An operand as `[batch, heads, steps, size]`.
pub(super) struct Operand<T> {
    /// Batch, heads, steps, size.
    pub extents: [usize; 4],
    /// Elements in that order; heads and steps swapped after [`Self::heads_last`].
    pub data: Vec<T>,
    heads_last: bool,
}

impl<T: Real> Operand<T> {
    /// A result in the operand order.
    pub fn new(extents: [usize; 4], data: Vec<T>) -> Self {
        Self { extents, data, heads_last: false }
    }

    /// Input `i` behind its cached steps (C1).
    fn of(cx: &EvalCx, i: usize, past: Option<&Tensor>, name: &str) -> Result<Self> {
        let t = cx.input(i)?;
        let extents = extents(cx.attrs(), t.shape(), name)?;
        let mut operand = Self::new(extents, T::read(t)?);
        if t.shape().len() == 3 {
            let [b, h, s, d] = extents;
            operand = Self::new([b, s, h, d], operand.data).swapped();
        }
        match past {
            Some(past) => operand.behind(past),
            None => Ok(operand),
        }
    }

    /// Heads and steps exchanged.
    fn swapped(&self) -> Self {
        let [b, h, s, d] = self.extents;
        let mut data = Vec::with_capacity(self.data.len());
        for image in 0..b {
            for step in 0..s {
                for head in 0..h {
                    data.extend_from_slice(&self.data[((image * h + head) * s + step) * d..][..d]);
                }
            }
        }
        Self::new([b, s, h, d], data)
    }

    /// The result of 3-D inputs.
    fn heads_last(self) -> Self {
        Self { heads_last: true, ..self.swapped() }
    }

    fn behind(self, past: &Tensor) -> Result<Self> {
        let [b, h, s, d] = self.extents;
        let &[pb, ph, p, pd] = past.shape() else {
            return Err(Error::invalid(format!("Attention: a cache of shape {:?}, expected rank 4", past.shape())));
        };
        if [pb, ph, pd] != [b, h, d] {
            return Err(Error::invalid(format!("Attention: a cache {:?} before {:?}", past.shape(), self.extents)));
        }
        let old = T::read(past)?;
        let mut data = Vec::with_capacity(old.len().saturating_add(self.data.len()));
        for head in 0..b * h {
            data.extend_from_slice(&old[head * p * d..][..p * d]);
            data.extend_from_slice(&self.data[head * s * d..][..s * d]);
        }
        Ok(Self::new([b, h, p + s, d], data))
    }

    /// Extents of the tensor.
    pub fn shape(&self) -> Vec<usize> {
        let [b, h, s, d] = self.extents;
        if self.heads_last { vec![b, h, s * d] } else { vec![b, h, s, d] }
    }
}
