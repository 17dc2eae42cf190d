//! `ottava::MaskedSoftmax` and `ottava::MaskedMean`: rows of which a second operand says what counts.
//!
//! The compiler makes them of the additive masks and the masked averages that transformers are written with (numerics.md
//! section 4); in integers both are exact on every device.
//!
//! * (C1) `keep` is boolean or integer and broadcasts to the first input; 0 takes an element out.
//! * (C2) MaskedSoftmax runs along the last axis. An element that is taken out is 0; a row of which all are is uniform.
//! * (C3) With 8 bits in and out per tensor MaskedSoftmax is `softmax_lut` (section 6).
//! * (C4) MaskedMean runs along `axis`, which `keepdims` (default 0) keeps with extent 1. Without an element that counts it
//!   is 0.
//! * (C5) Between per-tensor quantizations MaskedMean is the sum of `x - zx` with `m = fl32(xs / fl32(ys * n))`, `n` the
//!   elements that count; without one it is the zero point.

use super::means::Means;
use super::real::{Real, with_real};
use super::requantize::model;
use crate::elementwise::sample::{bools, case, f32s, ints, quant_case};
use crate::util::{axis, broadcast_strides, strides};
use crate::{AttrKind, AttrSpec, Case, CaseInput, EvalCx, InferCx, OTTAVA, Op, OpSpec, QuantRule};
use ottava_hal::refmath::quantize::Target;
use ottava_hal::refmath::softmax::SoftmaxLut;
use ottava_hal::{Attr, DataType, Dim, Error, Node, QuantParams, Result, Tensor, TensorType};

/// Softmax of what counts.
pub struct MaskedSoftmax;
/// Mean of what counts.
pub struct MaskedMean;

const fn spec(name: &'static str, attrs: &'static [AttrSpec]) -> OpSpec {
    OpSpec { name, domain: OTTAVA, since: 1, inputs: (2, 2), outputs: (1, 1), attrs }
}

static SOFTMAX: OpSpec = spec("MaskedSoftmax", &[]);
static MEAN: OpSpec =
    spec("MaskedMean", &[AttrSpec::required("axis", AttrKind::Int), AttrSpec::optional("keepdims", AttrKind::Int)]);

/// (C1) Whether each element of a shape counts, in row-major order.
fn kept(cx: &EvalCx, shape: &[usize]) -> Result<Vec<bool>> {
    let keep = cx.input(1)?;
    let own = keep.shape();
    let trailing = shape.iter().rev();
    if own.len() > shape.len() || !own.iter().rev().zip(trailing).all(|(a, b)| a == b || *a == 1) {
        return Err(Error::invalid(format!("{}: a mask {own:?} on {shape:?}", cx.node.full_op())));
    }
    let values = keep.to_ints()?;
    let (steps, full) = (broadcast_strides(own, shape), strides(shape));
    let at = |e: usize| (0..shape.len()).map(|d| e / full[d].max(1) % shape[d].max(1) * steps[d]).sum::<usize>();
    Tensor::collect((0..shape.iter().product::<usize>()).map(|e| values[at(e)] != 0))
}

impl Op for MaskedSoftmax {
    fn spec(&self) -> &'static OpSpec {
        &SOFTMAX
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let (n, keep) = (row_len(x), kept(cx, x.shape())?);
        let y = with_real!(x.dtype(), "MaskedSoftmax", T => {
            let data = T::read(x)?;
            let mut y = vec![T::default(); data.len()];
            for ((row, keep), out) in data.chunks(n).zip(keep.chunks(n)).zip(y.chunks_mut(n)) {
                let any = keep.contains(&true);
                let open = |(v, k): (&T, &bool)| match (any, k) {
                    (false, _) => T::default(),
                    (true, true) => *v,
                    (true, false) => T::of(f64::NEG_INFINITY),
                };
                let row: Vec<T> = row.iter().zip(keep).map(open).collect();
                T::softmax_row(&row, out);
            }
            T::write(x.dtype(), x.shape(), &y)
        })?;
        Ok(vec![y])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let x = cx.input(0)?;
        let per_tensor = |q: Option<&QuantParams>| q.and_then(QuantParams::as_per_tensor);
        let byte = |t: DataType| matches!(t, DataType::S8 | DataType::U8);
        let (Some((xs, _)), Some((scale, zp)), Some(dtype)) =
            (per_tensor(cx.in_quant(0)), per_tensor(cx.out_quant(0)), cx.out_dtype(0))
        else {
            return Ok(None);
        };
        let (Some((lo, hi)), true) = (dtype.storage_range(), byte(x.dtype()) && byte(dtype)) else { return Ok(None) };
        let lut = SoftmaxLut::new(xs, Target { scale, zp, lo, hi }).map_err(model)?;
        let (n, keep) = (row_len(x), kept(cx, x.shape())?);
        let masked: Vec<bool> = keep.iter().map(|k| !k).collect();
        let data: Vec<i32> = x.to_ints()?.into_iter().map(|v| v as i32).collect();
        let mut y = vec![0i32; data.len()];
        for ((row, masked), out) in data.chunks(n).zip(masked.chunks(n)).zip(y.chunks_mut(n)) {
            lut.row(row, Some(masked), out).map_err(model)?;
        }
        let y: Vec<i64> = y.into_iter().map(i64::from).collect();
        Ok(Some(vec![Tensor::from_ints(dtype, x.shape(), &y)?]))
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("softmax", "MaskedSoftmax", 1);
        node.domain = OTTAVA.into();
        let keep = ints(DataType::S64, &[1, 3], &[1, 0, 1]);
        let x = f32s(&[1, 3], &[0.5, 9.0, 0.5]);
        let plain = case("c2_masked", node.clone(), &[x, keep.clone()], &[f32s(&[1, 3], &[0.5, 0.0, 0.5])]);
        let typed = |name, keep: Tensor, y: &[i64]| {
            let x = ints(DataType::U8, &[1, 3], &[7, 255, 7]);
            let y = ints(DataType::U8, &[1, 3], y);
            let mut case = quant_case(name, node.clone(), &[(x, 0.1, 3)], (y, 1.0 / 256.0, 0));
            case.inputs.push(Some(CaseInput::plain(keep)));
            case
        };
        let none = bools(&[1, 1], &[false]);
        vec![plain, typed("c3_integers", keep, &[128, 0, 128]), typed("c2_fully_masked", none, &[85, 85, 85])]
    }
}

/// Elements of a row along the last axis, at least 1.
fn row_len(x: &Tensor) -> usize {
    x.shape().last().copied().unwrap_or(1).max(1)
}

/// The rows that a mean is taken of.
struct Along {
    outer: usize,
    n: usize,
    inner: usize,
    /// Shape of the result.
    output: Vec<usize>,
}

impl Along {
    fn of(cx: &EvalCx) -> Result<Self> {
        let shape = cx.input(0)?.shape();
        let at = axis(cx.attrs().int("axis", 0)?, shape.len())?;
        let mut output = shape.to_vec();
        match cx.attrs().int("keepdims", 0)? {
            0 => drop(output.remove(at)),
            _ => output[at] = 1,
        }
        let (outer, inner) = (shape[..at].iter().product(), shape[at + 1..].iter().product());
        Ok(Self { outer, n: shape[at], inner, output })
    }

    /// The sum of what counts and how much that is, per element of the result.
    fn sums<T: Copy + Default>(&self, x: &[T], keep: &[bool], add: impl Fn(T, T) -> T) -> Vec<(T, usize)> {
        let mut sums = vec![(T::default(), 0); self.outer * self.inner];
        for o in 0..self.outer {
            for k in 0..self.n {
                let first = (o * self.n + k) * self.inner;
                for (i, (sum, n)) in sums[o * self.inner..][..self.inner].iter_mut().enumerate() {
                    if keep[first + i] {
                        (*sum, *n) = (add(*sum, x[first + i]), *n + 1);
                    }
                }
            }
        }
        sums
    }
}

impl Op for MaskedMean {
    fn spec(&self) -> &'static OpSpec {
        &MEAN
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let mut dims = cx.shape(0)?.to_vec();
        let at = axis(cx.attrs().int("axis", 0)?, dims.len())?;
        match cx.attrs().int("keepdims", 0)? {
            0 => drop(dims.remove(at)),
            _ => dims[at] = Dim::Known(1),
        }
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, along) = (cx.input(0)?, Along::of(cx)?);
        let keep = kept(cx, x.shape())?;
        let y = with_real!(x.dtype(), "MaskedMean", T => {
            let sums = along.sums(&T::read(x)?, &keep, |a, b| a + b);
            let mean = |(sum, n): (T, usize)| if n == 0 { T::default() } else { sum / T::of(n as f64) };
            let y: Vec<T> = sums.into_iter().map(mean).collect();
            T::write(x.dtype(), &along.output, &y)
        })?;
        Ok(vec![y])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let Some(mut means) = Means::of(cx)? else { return Ok(None) };
        let (x, along) = (cx.input(0)?, Along::of(cx)?);
        let sums = along.sums(&means.centred(x)?, &kept(cx, x.shape())?, |a, b| a + b);
        let mean = |(sum, n): (i64, usize)| means.value(sum, along.n, n.max(1));
        let y: Vec<i64> = sums.into_iter().map(mean).collect::<Result<_>>()?;
        Ok(Some(vec![Tensor::from_ints(means.dtype, &along.output, &y)?]))
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("mean", "MaskedMean", 1);
        node.domain = OTTAVA.into();
        node.attrs.set("axis", Attr::Int(1));
        let keep = || ints(DataType::S64, &[2, 3, 1], &[1, 0, 1, 0, 0, 0]);
        let x = f32s(&[2, 3, 1], &[1.0, 100.0, 4.0, 1.0, 2.0, 3.0]);
        let plain = case("c4_mean_of_what_counts", node.clone(), &[x, keep()], &[f32s(&[2, 1], &[2.5, 0.0])]);
        // About zero point 10: (1 + 4) / 2 = 2.5 goes to even.
        let x = ints(DataType::U8, &[2, 3, 1], &[11, 200, 14, 11, 12, 13]);
        let y = ints(DataType::U8, &[2, 1], &[7, 5]);
        let mut typed = quant_case("c5_integers", node, &[(x, 0.5, 10)], (y, 0.5, 5));
        typed.inputs.push(Some(CaseInput::plain(keep())));
        vec![plain, typed]
    }
}
