//! `ConvInteger` and `MatMulInteger`: sums of integer products as s32, without requantization.
//!
//! * (C1) `acc = sum of (x - zx)(w - zw[c])`; padding contributes 0.
//! * (C2) Weight zero points are per tensor or per output channel, activation zero points per tensor or per row.
//! * (C3) A sum that does not fit s32 is refused with reason `ACC_OVERFLOW`, never wrapped.

use super::typed_form::{infer_as, renamed};
use crate::elementwise::sample::{case_const, ints};
use crate::nn::conv::geometry;
use crate::nn::matmul::matrices;
use crate::nn::product::{Forward, Kernel};
use crate::nn::real::{alloc, count};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, DataType, Error, Node, Reason, Result, Tensor, TensorType};

/// Integer convolution.
pub struct ConvInteger;
/// Integer matrix product.
pub struct MatMulInteger;

static CONV: OpSpec = OpSpec {
    name: "ConvInteger",
    domain: "",
    since: 10,
    inputs: (2, 4),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("auto_pad", AttrKind::Str),
        AttrSpec::optional("dilations", AttrKind::Ints),
        AttrSpec::optional("group", AttrKind::Int),
        AttrSpec::optional("kernel_shape", AttrKind::Ints),
        AttrSpec::optional("pads", AttrKind::Ints),
        AttrSpec::optional("strides", AttrKind::Ints),
    ],
};

static MATMUL: OpSpec =
    OpSpec { name: "MatMulInteger", domain: "", since: 10, inputs: (2, 4), outputs: (1, 1), attrs: &[] };

/// An operand minus its zero points, which repeat every `inner` elements over `extent` indices.
pub(crate) fn centred(t: &Tensor, zero: Option<&Tensor>, inner: usize, extent: usize) -> Result<Vec<i32>> {
    let byte = |t: &Tensor| matches!(t.dtype(), DataType::S8 | DataType::U8);
    if !byte(t) || zero.is_some_and(|z| z.dtype() != t.dtype()) {
        let found = zero.map(Tensor::dtype);
        let what = format!("an integer product of {} with zero point {found:?}; expected s8 or u8", t.dtype());
        return Err(Error::unsupported(Reason::Dtype, what));
    }
    let zeros: Vec<i32> = match zero {
        Some(z) => z.to_ints()?.into_iter().map(|v| v as i32).collect(),
        None => vec![0],
    };
    if zeros.len() != 1 && zeros.len() != extent {
        return Err(Error::invalid(format!("{} zero points for {extent} channels", zeros.len())));
    }
    let zero_of = |i: usize| if zeros.len() == 1 { zeros[0] } else { zeros[i / inner.max(1) % extent.max(1)] };
    Ok(t.to_ints()?.into_iter().enumerate().map(|(i, v)| v as i32 - zero_of(i)).collect())
}

/// The sums of a kernel over `k` terms each (C3).
pub(crate) fn sums<K: Kernel>(kernel: &K, k: usize, x: Vec<i32>, w: Vec<i32>, shape: &[usize]) -> Result<Vec<i32>> {
    let most = |v: &[i32]| v.iter().map(|a| u64::from(a.unsigned_abs())).max().unwrap_or(0);
    let bound = u128::from(most(&x) * most(&w)) * k as u128;
    let n = count(shape)?;
    if bound <= i32::MAX as u128 {
        let mut out = alloc::<i32>(n)?;
        kernel.run(&x, &w, &mut out);
        return Ok(out);
    }
    let widen = |v: Vec<i32>| v.into_iter().map(i64::from).collect::<Vec<_>>();
    let mut out = alloc::<i64>(n)?;
    kernel.run(&widen(x), &widen(w), &mut out);
    let fit = |v: i64| {
        let what = || Error::unsupported(Reason::AccOverflow, format!("the sum {v} of {k} products does not fit s32"));
        i32::try_from(v).map_err(|_| what())
    };
    out.into_iter().map(fit).collect()
}

impl Op for ConvInteger {
    fn spec(&self) -> &'static OpSpec {
        &CONV
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![infer_as(cx, &renamed(cx.node, "Conv", 22), &[Some(0), Some(1)], DataType::S32)?])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, w) = (cx.input(0)?, cx.input(1)?);
        let (geometry, shape) = geometry(cx.attrs(), x.shape(), w.shape())?;
        let k = count(&w.shape()[1..])?;
        let x = centred(x, cx.opt(2), usize::MAX, 1)?;
        let w = centred(w, cx.opt(3), k, shape[1])?;
        Ok(vec![Tensor::from_slice(&shape, &sums(&Forward(geometry), k, x, w, &shape)?)?])
    }

    fn macs(&self, node: &Node, inputs: &[Option<&TensorType>], outputs: &[&TensorType]) -> u64 {
        crate::lookup("", "Conv").map_or(0, |op| op.macs(node, inputs, outputs))
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("conv", "ConvInteger", 10);
        node.attrs.set("pads", Attr::Ints(vec![1, 0]));
        let inputs = [
            ints(DataType::U8, &[1, 1, 3], &[11, 12, 13]),
            ints(DataType::U8, &[2, 1, 2], &[12, 3, 5, 6]),
            ints(DataType::U8, &[], &[10]),
            ints(DataType::U8, &[2], &[2, 5]),
        ];
        let y = ints(DataType::S32, &[1, 2, 3], &[1, 12, 23, 1, 2, 3]);
        vec![case_const("c2_weight_zero_point_per_channel", node, 1, &inputs, &[y])]
    }
}

impl Op for MatMulInteger {
    fn spec(&self) -> &'static OpSpec {
        &MATMUL
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![infer_as(cx, &renamed(cx.node, "MatMul", 13), &[Some(0), Some(1)], DataType::S32)?])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (y, shape) = matmul_sums(cx, cx.opt(2), cx.opt(3))?;
        Ok(vec![Tensor::from_slice(&shape, &y)?])
    }

    fn macs(&self, node: &Node, inputs: &[Option<&TensorType>], outputs: &[&TensorType]) -> u64 {
        crate::lookup("", "MatMul").map_or(0, |op| op.macs(node, inputs, outputs))
    }

    fn cases(&self) -> Vec<Case> {
        let full = [
            ints(DataType::U8, &[1, 64], &[255; 64]),
            ints(DataType::S8, &[64, 2], &[127; 128]),
            ints(DataType::U8, &[], &[0]),
            ints(DataType::S8, &[2], &[0, 127]),
        ];
        let y = ints(DataType::S32, &[1, 2], &[2_072_640, 0]);
        vec![case_const(
            "c2_full_scale_and_zero_point_per_column",
            Node::new("mm", "MatMulInteger", 10),
            1,
            &full,
            &[y],
        )]
    }
}

/// The sums of inputs 0 and 1 as matrices, with the shape of the result.
pub(crate) fn matmul_sums(
    cx: &EvalCx,
    a_zero: Option<&Tensor>,
    b_zero: Option<&Tensor>,
) -> Result<(Vec<i32>, Vec<usize>)> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let (kernel, shape) = matrices(a.shape(), b.shape())?;
    let rows = a.elements() / kernel.k.max(1);
    // Zero points per row: one for each row of a matrix, or of the whole batch.
    let per_row = match a_zero.map_or(1, Tensor::elements) {
        n if n == rows => rows,
        _ => kernel.m,
    };
    let x = centred(a, a_zero, kernel.k, per_row)?;
    let w = centred(b, b_zero, 1, kernel.n)?;
    let y = sums(&kernel, kernel.k, x, w, &shape)?;
    Ok((y, shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate;

    #[test]
    fn matmul_integer_c3_overflow_is_refused() {
        let n = 70_000;
        let a = Tensor::from_slice(&[1, n], &vec![255u8; n]).unwrap();
        let b = Tensor::from_slice(&[n, 1], &vec![127i8; n]).unwrap();
        let node = Node::new("mm", "MatMulInteger", 10);
        let (ta, tb) = (a.ty(), b.ty());
        let cx =
            EvalCx { node: &node, inputs: &[Some(&a), Some(&b)], in_types: &[Some(&ta), Some(&tb)], out_types: &[] };
        let e = evaluate(&cx).unwrap_err();
        assert!(matches!(e, Error::Unsupported { reason: Reason::AccOverflow, .. }), "{e}");
    }
}
