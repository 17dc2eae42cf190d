//! `ottava::DynamicMatMul`: a matrix product with integer weights whose activations are quantized at run time, each row by
//! itself, so that no sample depends on the others of its batch (numerics.md, sections 2 and 4).
//!
//! Inputs: x (f32), the weights as an s8 matrix `[K, N]`, their scale (one, or one per column), and optionally a bias.
//!
//! * (C1) A row's scale is `s = fl32(max|x| / 127)`; 0 counts as 1. NaN has no part in the largest value.
//! * (C2) `q = rne(fl32(x / s))` within -127..127; NaN is 0.
//! * (C3) `y = fl32(f32(sum of q * w) * fl32(s * ws))`, then the bias as one more `fl32` addition.

use crate::elementwise::sample::{case_const, f32s, ints};
use crate::nn::matmul::product_dims;
use crate::{Case, EvalCx, InferCx, OTTAVA, Op, OpSpec};
use ottava_hal::refmath::dynamic::{quantize_row, row_scale};
use ottava_hal::{DataType, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct DynamicMatMul;

static SPEC: OpSpec =
    OpSpec { name: "DynamicMatMul", domain: OTTAVA, since: 1, inputs: (3, 4), outputs: (1, 1), attrs: &[] };

/// Rows longer than this could take a sum out of 32 bits.
const MAX_K: usize = (i32::MAX / (127 * 128)) as usize;

impl Op for DynamicMatMul {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(DataType::F32, product_dims(cx.shape(0)?, cx.shape(1)?)?)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, w) = (cx.input(0)?, cx.input(1)?);
        let wrong = |what: String| Error::invalid(format!("{}: {what}", cx.node.full_op()));
        let (&[k, n], Some((&last, outer))) = (w.shape(), x.shape().split_last()) else {
            return Err(wrong(format!("{:?} times {:?}", x.shape(), w.shape())));
        };
        if k != last || k > MAX_K || w.dtype() != DataType::S8 {
            return Err(wrong(format!("{:?} times {} {:?}, at most {MAX_K} deep", x.shape(), w.dtype(), w.shape())));
        }
        let per_column = |i: usize| -> Result<Option<Vec<f32>>> {
            let Some(t) = cx.opt(i) else { return Ok(None) };
            match t.to_f32s()? {
                v if v.len() == n => Ok(Some(v)),
                v if v.len() == 1 => Ok(Some(vec![v[0]; n])),
                v => Err(wrong(format!("input {i} has {} elements for {n} columns", v.len()))),
            }
        };
        let scales = per_column(2)?.ok_or_else(|| wrong("the weights have no scale".into()))?;
        let bias = per_column(3)?;
        let (data, weights) = (x.to_f32s()?, w.as_slice::<i8>()?);
        let shape = [outer, &[n]].concat();
        let mut y = crate::util::output(DataType::F32, &shape)?;
        let mut codes = vec![0i8; k];
        let mut sums = vec![0i32; n];
        let rows = data.len().checked_div(k).unwrap_or(0);
        for (row, out) in (0..rows).zip(y.as_slice_mut::<f32>()?.chunks_exact_mut(n.max(1))) {
            let xs = &data[row * k..][..k];
            let s = row_scale(xs);
            quantize_row(xs, s, &mut codes);
            sums.fill(0);
            for (&q, w) in codes.iter().zip(weights.chunks_exact(n.max(1))) {
                sums.iter_mut().zip(w).for_each(|(sum, &w)| *sum += i32::from(q) * i32::from(w));
            }
            for (c, v) in out.iter_mut().enumerate() {
                *v = sums[c] as f32 * (s * scales[c]);
                if let Some(bias) = &bias {
                    *v += bias[c];
                }
            }
        }
        Ok(vec![y])
    }

    fn macs(&self, node: &Node, inputs: &[Option<&TensorType>], outputs: &[&TensorType]) -> u64 {
        crate::lookup("", "MatMul").map_or(0, |op| op.macs(node, inputs, outputs))
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("mm", "DynamicMatMul", 1);
        node.domain = OTTAVA.into();
        let w = ints(DataType::S8, &[2, 2], &[1, -2, 3, 4]);
        // Row 0 has scale 1 and is 127, 2 (2.5 to even); row 1 is zero.
        let x = f32s(&[2, 2], &[127.0, 2.5, 0.0, 0.0]);
        let inputs = [x, w, f32s(&[2], &[1.0, 0.5]), f32s(&[2], &[0.25, 0.0])];
        vec![case_const("c3_rows", node, 1, &inputs, &[f32s(&[2, 2], &[133.25, -123.0, 0.25, 0.0])])]
    }
}
