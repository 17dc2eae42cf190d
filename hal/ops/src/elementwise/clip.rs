//! Clip: `min(max(x, lo), hi)` with optional scalar bounds.
//!
//! * (C1) NaN stays NaN; where lo > hi everything becomes hi.
//! * (C2) quantized: `Q(clip(x, a, b)) = clip(Q(x), Q(a), Q(b))` in the output's parameters; bounds may be f32 or
//!   quantized themselves.

use super::number::{Compute, Number, with_number};
use super::sample::{case, f32s, ints};
use super::unary::each;
use crate::{Case, CaseInput, EvalCx, InferCx, Op, OpSpec, QuantRule, dequantize, quantize, requantize};
use ottava_hal::{DataType, Error, Node, QuantParams, Result, Tensor, TensorType};

/// The operator.
pub struct Clip;

static SPEC: OpSpec = OpSpec { name: "Clip", domain: "", since: 6, inputs: (1, 3), outputs: (1, 1), attrs: &[] };

impl Op for Clip {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let x = cx.input(0)?.ty;
        Ok(vec![TensorType::new(x.dtype, x.shape.clone())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let mut y = cx.input(0)?.clone();
        with_number!(y.dtype(), "Clip", T => {
            let (lo, hi) = (bound::<T>(cx, 1)?, bound::<T>(cx, 2)?);
            let clip = |v: T| {
                let v = lo.filter(|&lo| v.widen() < lo.widen()).unwrap_or(v);
                hi.filter(|&hi| v.widen() > hi.widen()).unwrap_or(v)
            };
            each(y.as_slice_mut::<T>()?, clip);
            Ok(())
        })?;
        Ok(vec![y])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let (Some(from), Some(to), Some(dtype)) = (cx.in_quant(0), cx.out_quant(0), cx.out_dtype(0)) else {
            return Ok(None);
        };
        if to.as_per_tensor().is_none() {
            return Ok(None);
        }
        let y = requantize(cx.input(0)?, from, dtype, to)?;
        let lo = quantized_bound(cx, 1, dtype, to)?.unwrap_or(i64::MIN);
        let hi = quantized_bound(cx, 2, dtype, to)?.unwrap_or(i64::MAX);
        let clipped: Vec<i64> = y.to_ints()?.into_iter().map(|q| q.max(lo).min(hi)).collect();
        Ok(Some(vec![Tensor::from_ints(dtype, y.shape(), &clipped)?]))
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("clip", "Clip", 13);
        let x = f32s(&[4], &[-2.0, 0.5, 9.0, f32::NAN]);
        let (lo, hi) = (f32s(&[], &[0.0]), f32s(&[], &[6.0]));
        let s8s = |v: &[i64]| CaseInput::quantized(ints(DataType::S8, &[3], v), QuantParams::per_tensor(0.1, -20));
        let bound = |t: &Tensor| Some(CaseInput::plain(t.clone()).constant());
        let relu6 = ints(DataType::S8, &[3], &[-20, 5, 40]);
        let quantized = Case {
            name: "c2_relu6",
            node: node.clone(),
            inputs: vec![Some(s8s(&[-128, 5, 127])), bound(&lo), bound(&hi)],
            outputs: vec![(relu6, Some(QuantParams::per_tensor(0.1, -20)))],
        };
        vec![
            case("c1_floats", node.clone(), &[x, lo.clone(), hi], &[f32s(&[4], &[0.0, 0.5, 6.0, f32::NAN])]),
            case("c1_lo_above_hi", node, &[f32s(&[2], &[0.0, 9.0]), f32s(&[], &[2.0]), lo], &[f32s(&[2], &[0.0, 0.0])]),
            quantized,
        ]
    }
}

/// Bound `i` as an element of the input's type; a NaN bound is ignored.
fn bound<T: Number>(cx: &EvalCx, i: usize) -> Result<Option<T>> {
    let Some(t) = cx.opt(i) else { return Ok(None) };
    match t.as_slice::<T>()? {
        [v] => Ok(Some(*v).filter(|v| !v.widen().is_nan())),
        _ => Err(Error::invalid(format!("Clip: bound {i} has shape {:?}, expected a scalar", t.shape()))),
    }
}

fn quantized_bound(cx: &EvalCx, i: usize, dtype: DataType, to: &QuantParams) -> Result<Option<i64>> {
    let Some(t) = cx.opt(i) else { return Ok(None) };
    let real = match cx.in_quant(i) {
        Some(from) => dequantize(t, from)?,
        None => t.clone(),
    };
    match (real.to_f32s()?.as_slice(), quantize(&real, dtype, to)?.to_ints()?.as_slice()) {
        ([v], [q]) => Ok(Some(*q).filter(|_| !v.is_nan())),
        _ => Err(Error::invalid(format!("Clip: bound {i} has shape {:?}, expected a scalar", t.shape()))),
    }
}
