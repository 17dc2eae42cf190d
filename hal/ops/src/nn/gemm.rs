//! `Gemm`: `alpha * A' * B' + beta * C`.
//!
//! * (C1) Float: `fl32(fl32(alpha*acc) + fl32(beta*C))`, multiplications by 1 omitted.
//! * (C2) Quantized: `m = fl32(fl32(fl32(xs*ws) * alpha) / ys)`, C inside the accumulator (beta must be 1).
//! * (C3) The weight channel axis is `transB ? 0 : 1`.

use super::conv::product_dtype;
use super::plain;
use super::product::Matrices;
use super::real::with_real;
use super::typed::{Arrange, Bias, BiasIndex, Typed, own};
use crate::util::broadcast_strides;
use crate::{AttrKind, AttrSpec, Case, CaseInput, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{Attr, Attrs, Dim, Error, Node, Result, Tensor, TensorType};

/// General matrix product.
pub struct Gemm;

static SPEC: OpSpec = OpSpec {
    name: "Gemm",
    domain: "",
    since: 1,
    inputs: (2, 3),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("alpha", AttrKind::Float),
        AttrSpec::optional("beta", AttrKind::Float),
        AttrSpec::optional("transA", AttrKind::Int),
        AttrSpec::optional("transB", AttrKind::Int),
    ],
};

/// The product of two matrix shapes under the transposition attributes.
fn matrices(attrs: &Attrs, a: &[usize], b: &[usize]) -> Result<(Matrices, Arrange)> {
    let (&[a0, a1], &[b0, b1]) = (a, b) else {
        return Err(Error::invalid(format!("Gemm: A {a:?} and B {b:?} must be matrices")));
    };
    let (trans_a, trans_b) = (attrs.int("transA", 0)? != 0, attrs.int("transB", 0)? != 0);
    let (m, k) = if trans_a { (a1, a0) } else { (a0, a1) };
    let (kb, n) = if trans_b { (b1, b0) } else { (b0, b1) };
    if k != kb {
        return Err(Error::invalid(format!("Gemm: A {a:?} and B {b:?} share no extent ({k} and {kb})")));
    }
    let arrange = Arrange { x_transposed: trans_a.then_some((a0, a1)), w_transposed: trans_b.then_some((b0, b1)) };
    Ok((Matrices { m, k, n, pairs: vec![(0, 0)] }, arrange))
}

/// Input 2, broadcast to the output.
fn matrix_bias<'a>(cx: &EvalCx<'a>, kernel: &Matrices) -> Result<Option<Bias<'a>>> {
    let Some(tensor) = own(cx, 2) else { return Ok(None) };
    let (shape, out) = (tensor.shape(), [kernel.m, kernel.n]);
    let fits = shape.len() <= 2 && shape.iter().rev().zip(out.iter().rev()).all(|(&c, &o)| c == o || c == 1);
    if !fits {
        return Err(Error::invalid(format!("Gemm: C {shape:?} does not broadcast to {out:?}")));
    }
    let strides = broadcast_strides(shape, &out);
    let index = BiasIndex::Matrix { columns: kernel.n, strides: (strides[0], strides[1]) };
    Ok(Some(Bias { tensor, params: cx.in_quant(2), index }))
}

impl Op for Gemm {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (a, b) = (cx.shape(0)?, cx.shape(1)?);
        let ([a0, a1], [b0, b1]) = (a, b) else {
            return Err(Error::invalid(format!("Gemm: inputs of rank {} and {}, expected 2", a.len(), b.len())));
        };
        let (m, k) = if cx.attrs().int("transA", 0)? != 0 { (a1, a0) } else { (a0, a1) };
        let (kb, n) = if cx.attrs().int("transB", 0)? != 0 { (b1, b0) } else { (b0, b1) };
        if let (Dim::Known(x), Dim::Known(y)) = (k, kb)
            && x != y
        {
            return Err(Error::invalid(format!("Gemm: the shared extent is {x} and {y}")));
        }
        Ok(vec![cx.ty(product_dtype(cx)?, vec![m.clone(), n.clone()])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        let (kernel, arrange) = matrices(cx.attrs(), a.shape(), b.shape())?;
        let shape = [kernel.m, kernel.n];
        let (alpha, beta) = (cx.attrs().float("alpha", 1.0)?, cx.attrs().float("beta", 1.0)?);
        let bias = matrix_bias(cx, &kernel)?;
        let y = with_real!(a.dtype(), "Gemm", T => {
            plain::run::<T, _>(cx, &kernel, &shape, arrange, bias, (alpha, beta))
        })?;
        Ok(vec![y])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let w_axis = usize::from(cx.attrs().int("transB", 0)? == 0);
        let Some(mut typed) = Typed::of(cx, w_axis)? else { return Ok(None) };
        let (kernel, arrange) = matrices(cx.attrs(), cx.input(0)?.shape(), cx.input(1)?.shape())?;
        let bias = matrix_bias(cx, &kernel)?;
        typed.alpha = cx.attrs().float("alpha", 1.0)?;
        let per_axis = cx.in_quant(1).is_some_and(|q| q.scales.len() > 1);
        if let Some(bias) = &bias {
            let repeats = matches!(bias.index, BiasIndex::Matrix { strides: (_, 0), .. }) && kernel.n > 1;
            if cx.attrs().float("beta", 1.0)? != 1.0 || (per_axis && repeats) {
                return Ok(None);
            }
        }
        Ok(Some(vec![typed.run(&kernel, &[kernel.m, kernel.n], arrange, bias)?]))
    }

    fn macs(&self, node: &Node, inputs: &[Option<&TensorType>], outputs: &[&TensorType]) -> u64 {
        let macs = || {
            let trans_a = node.attrs.int("transA", 0).ok()? != 0;
            let k = inputs.first().copied().flatten()?.shape.0.get(usize::from(!trans_a))?.known()? as u64;
            k.checked_mul(outputs.first()?.shape.elements()? as u64)
        };
        macs().unwrap_or(0)
    }

    fn cases(&self) -> Vec<Case> {
        cases().unwrap_or_default()
    }
}

fn cases() -> Result<Vec<Case>> {
    let mut node = Node::new("fc", "Gemm", 13);
    node.attrs =
        Attrs::default().with("alpha", Attr::Float(0.5)).with("beta", Attr::Float(2.0)).with("transB", Attr::Int(1));
    Ok(vec![Case {
        name: "c1_alpha_beta_and_transposed_weight",
        node,
        inputs: vec![
            Some(CaseInput::plain(Tensor::from_slice(&[1, 2], &[1.0f32, 2.0])?)),
            Some(CaseInput::plain(Tensor::from_slice(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?).constant()),
            Some(CaseInput::plain(Tensor::from_slice(&[2], &[10.0f32, 20.0])?).constant()),
        ],
        outputs: vec![(Tensor::from_slice(&[1, 2], &[22.5f32, 45.5])?, None)],
    }])
}
