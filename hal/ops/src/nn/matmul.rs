//! `MatMul`: the matrix product with NumPy's broadcasting of the leading axes.
//!
//! * (C1) A vector operand is a one-row or one-column matrix whose axis is dropped from the result.
//! * (C2) The typed form may have a third input, the bias over the last axis.
//! * (C3) Plain integer operands are multiplied modulo 2^n of their type.

use super::conv::product_dtype;
use super::plain;
use super::product::Matrices;
use super::real::{alloc, count, with_real};
use super::typed::{Arrange, Bias, BiasIndex, Typed, own};
use crate::util::{broadcast, broadcast_dims, broadcast_strides};
use crate::{Case, CaseInput, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{DataType, Dim, Error, Node, QuantParams, Result, Tensor, TensorType};

/// Matrix product.
pub struct MatMul;

static SPEC: OpSpec = OpSpec { name: "MatMul", domain: "", since: 1, inputs: (2, 3), outputs: (1, 1), attrs: &[] };

/// The products of two shapes, and the output's shape.
pub(crate) fn matrices(a: &[usize], b: &[usize]) -> Result<(super::product::Matrices, Vec<usize>)> {
    let wrong = || Error::invalid(format!("MatMul: shapes {a:?} and {b:?} do not fit"));
    let (wide_a, wide_b) = (if a.len() == 1 { vec![1, a[0]] } else { a.to_vec() }, column(b));
    if a.is_empty() || b.is_empty() {
        return Err(wrong());
    }
    let (ra, rb) = (wide_a.len() - 2, wide_b.len() - 2);
    let (m, k, n) = (wide_a[ra], wide_a[ra + 1], wide_b[rb + 1]);
    if wide_b[rb] != k {
        return Err(wrong());
    }
    let batch = broadcast(&wide_a[..ra], &wide_b[..rb])?;
    let (sa, sb) = (broadcast_strides(&wide_a[..ra], &batch), broadcast_strides(&wide_b[..rb], &batch));
    let mut pairs = Vec::new();
    let n_pairs = count(&batch)?;
    pairs.try_reserve_exact(n_pairs).map_err(|_| wrong())?;
    for mut i in 0..n_pairs {
        let (mut ia, mut ib) = (0, 0);
        for axis in (0..batch.len()).rev() {
            let at = i % batch[axis];
            i /= batch[axis];
            ia += at * sa[axis];
            ib += at * sb[axis];
        }
        pairs.push((ia, ib));
    }
    let mut shape = batch;
    shape.extend((a.len() > 1).then_some(m));
    shape.extend((b.len() > 1).then_some(n));
    Ok((Matrices { m, k, n, pairs }, shape))
}

fn column(b: &[usize]) -> Vec<usize> {
    if b.len() == 1 { vec![b[0], 1] } else { b.to_vec() }
}

/// Input 2 as a bias over the last axis, checked.
fn last_axis_bias<'a>(cx: &EvalCx<'a>, n: usize) -> Result<Option<Bias<'a>>> {
    let Some(tensor) = own(cx, 2) else { return Ok(None) };
    if tensor.elements() != n {
        return Err(Error::invalid(format!("MatMul: bias {:?}, expected [{n}]", tensor.shape())));
    }
    Ok(Some(Bias { tensor, params: cx.in_quant(2), index: BiasIndex::PerChannel }))
}

impl Op for MatMul {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(product_dtype(cx)?, product_dims(cx.shape(0)?, cx.shape(1)?)?)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        let (kernel, shape) = matrices(a.shape(), b.shape())?;
        if a.dtype().is_integer() {
            return Ok(vec![integers(a, b, &kernel, &shape)?]);
        }
        let bias = last_axis_bias(cx, kernel.n)?;
        let y = with_real!(a.dtype(), "MatMul", T => {
            plain::run::<T, _>(cx, &kernel, &shape, Arrange::default(), bias, (1.0, 1.0))
        })?;
        Ok(vec![y])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        let Some(typed) = Typed::of(cx, b.shape().len().saturating_sub(1))? else { return Ok(None) };
        if b.shape().len() < 2 && cx.in_quant(1).is_some_and(|q| q.scales.len() > 1) {
            return Ok(None);
        }
        let (kernel, shape) = matrices(a.shape(), b.shape())?;
        let bias = last_axis_bias(cx, kernel.n)?;
        Ok(Some(vec![typed.run(&kernel, &shape, Arrange::default(), bias)?]))
    }

    fn macs(&self, _node: &Node, inputs: &[Option<&TensorType>], outputs: &[&TensorType]) -> u64 {
        let macs = || {
            let k = inputs.first().copied().flatten()?.shape.0.last()?.known()? as u64;
            k.checked_mul(outputs.first()?.shape.elements()? as u64)
        };
        macs().unwrap_or(0)
    }

    fn cases(&self) -> Vec<Case> {
        cases().unwrap_or_default()
    }
}

/// The shape of a product of symbolic shapes (C1).
pub(crate) fn product_dims(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>> {
    let wrong = || Error::invalid(format!("MatMul: shapes {a:?} and {b:?} do not fit"));
    let (Some(k), Some(last)) = (a.last(), b.last()) else { return Err(wrong()) };
    let shared = if b.len() == 1 { last } else { &b[b.len() - 2] };
    if let (Some(x), Some(y)) = (k.known(), shared.known())
        && x != y
    {
        return Err(wrong());
    }
    let batch = |s: &[Dim]| s[..s.len().saturating_sub(2)].to_vec();
    let mut dims = broadcast_dims(&batch(a), &batch(b))?;
    dims.extend((a.len() > 1).then(|| a[a.len() - 2].clone()));
    dims.extend((b.len() > 1).then(|| last.clone()));
    Ok(dims)
}

/// (C3)
fn integers(a: &Tensor, b: &Tensor, kernel: &Matrices, shape: &[usize]) -> Result<Tensor> {
    use super::product::Kernel;
    let mut out = alloc::<i64>(count(shape)?)?;
    kernel.run(&a.to_ints()?, &b.to_ints()?, &mut out);
    let wrapped: Vec<i64> = out.into_iter().map(|v| wrap(a.dtype(), v)).collect();
    Tensor::from_ints(a.dtype(), shape, &wrapped)
}

/// `v` modulo 2^n in the range of an integer type.
pub(crate) fn wrap(dtype: DataType, v: i64) -> i64 {
    match dtype.int_range() {
        Some((lo, hi)) => lo.wrapping_add(v.wrapping_sub(lo).rem_euclid(hi - lo + 1)),
        None => v,
    }
}

fn cases() -> Result<Vec<Case>> {
    let vector = Case {
        name: "c1_vector_times_matrix",
        node: Node::new("mm", "MatMul", 13),
        inputs: vec![
            Some(CaseInput::plain(Tensor::from_slice(&[2], &[1.0f32, 2.0])?)),
            Some(CaseInput::plain(Tensor::from_slice(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?)),
        ],
        outputs: vec![(Tensor::from_slice(&[3], &[9.0f32, 12.0, 15.0])?, None)],
    };
    // Both operands at full scale: the sum 64 * 255 * 127 must not saturate 16 bits anywhere.
    let full = Case {
        name: "full_scale_does_not_saturate",
        node: Node::new("mm", "MatMul", 13),
        inputs: vec![
            Some(CaseInput::quantized(Tensor::from_slice(&[1, 64], &[255u8; 64])?, QuantParams::per_tensor(1.0, 0))),
            Some(
                CaseInput::quantized(Tensor::from_slice(&[64, 1], &[127i8; 64])?, QuantParams::per_tensor(1.0, 0))
                    .constant(),
            ),
        ],
        outputs: vec![(Tensor::from_slice(&[1, 1], &[2_072_640.0f32])?, None)],
    };
    Ok(vec![vector, full])
}
