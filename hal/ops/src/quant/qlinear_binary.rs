//! com.microsoft `QLinearAdd` and `QLinearMul`, and the typed Add and Mul that they mean.
//!
//! * (C1) The zero point is added before rounding, unlike QDQ Add and Mul (numerics.md section 4).
//! * (C2) Add: `sat(rne(fl32(fl32(As*(A-Az) + Bs*(B-Bz)) / Cs + Cz)))`, every operation in f32.
//! * (C3) Mul: `sat(rne(fl32(fl32(f32((A-Az)(B-Bz)) * m) + Cz)))`, `m = fl32(fl32(As*Bs)/Cs)`.
//! * (C4) Shapes broadcast.

use super::params::per_tensor;
use super::typed_form::infer_as;
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::nn::real::count;
use crate::util::{broadcast, broadcast_strides};
use crate::{Case, EvalCx, InferCx, MICROSOFT, Op, OpSpec};
use ottava_hal::refmath::elementwise::{qlinear_add, qlinear_mul, qlinear_mul_multiplier};
use ottava_hal::refmath::quantize::{Affine, Target};
use ottava_hal::{DataType, Error, Node, QuantParams, Result, Tensor, TensorType};

/// A binary operator whose scales are inputs.
pub struct QLinearBinary {
    spec: OpSpec,
    op: Binary,
}

/// Which operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    /// Sum.
    Add,
    /// Product.
    Mul,
}

const fn binary(name: &'static str, op: Binary) -> QLinearBinary {
    let spec = OpSpec { name, domain: MICROSOFT, since: 1, inputs: (7, 8), outputs: (1, 1), attrs: &[] };
    QLinearBinary { spec, op }
}

/// Quantized sum.
pub static ADD: QLinearBinary = binary("QLinearAdd", Binary::Add);
/// Quantized product.
pub static MUL: QLinearBinary = binary("QLinearMul", Binary::Mul);

/// Computes the operation with the zero point added before rounding; parameters are per tensor.
pub(crate) fn before_round(
    op: Binary,
    (a, pa): (&Tensor, &QuantParams),
    (b, pb): (&Tensor, &QuantParams),
    (dtype, pc): (DataType, &QuantParams),
) -> Result<Tensor> {
    let affine = |p: &QuantParams| {
        let (scale, zp) =
            p.as_per_tensor().ok_or_else(|| Error::invalid("QLinear operators are quantized per tensor"))?;
        Ok::<_, Error>(Affine { scale, zp })
    };
    let (pa, pb, out) = (affine(pa)?, affine(pb)?, affine(pc)?);
    let (lo, hi) = dtype.storage_range().ok_or_else(|| Error::invalid(format!("{dtype} is no storage type")))?;
    let target = Target { scale: out.scale, zp: out.zp, lo, hi };
    let m = qlinear_mul_multiplier(pa.scale, pb.scale, out.scale);
    let shape = broadcast(a.shape(), b.shape())?;
    let (sa, sb) = (broadcast_strides(a.shape(), &shape), broadcast_strides(b.shape(), &shape));
    let (a, b) = (a.to_ints()?, b.to_ints()?);
    let mut at = vec![0usize; shape.len()];
    let mut y = Vec::with_capacity(count(&shape)?);
    for _ in 0..count(&shape)? {
        let index = |steps: &[usize]| at.iter().zip(steps).map(|(i, s)| i * s).sum::<usize>();
        let (x, w) = (a[index(&sa)] as i32, b[index(&sb)] as i32);
        y.push(i64::from(match op {
            Binary::Add => qlinear_add(x, pa, w, pb, target),
            Binary::Mul => qlinear_mul(x, pa.zp, w, pb.zp, m, target),
        }));
        for d in (0..at.len()).rev() {
            at[d] += 1;
            if at[d] < shape[d] {
                break;
            }
            at[d] = 0;
        }
    }
    Tensor::from_ints(dtype, &shape, &y)
}

impl Op for QLinearBinary {
    fn spec(&self) -> &'static OpSpec {
        match self.op {
            Binary::Add => &ADD.spec,
            Binary::Mul => &MUL.spec,
        }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let inner = super::typed_form::renamed(cx.node, "Add", 14);
        Ok(vec![infer_as(cx, &inner, &[Some(0), Some(3)], cx.dtype(0)?)?])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (a, b) = (cx.input(0)?, cx.input(3)?);
        let pa = per_tensor(cx.input(1)?, cx.opt(2), a.dtype())?;
        let pb = per_tensor(cx.input(4)?, cx.opt(5), b.dtype())?;
        let pc = per_tensor(cx.input(6)?, cx.opt(7), a.dtype())?;
        Ok(vec![before_round(self.op, (a, &pa), (b, &pb), (a.dtype(), &pc))?])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("qop", self.spec.name, 1);
        node.domain = MICROSOFT.into();
        let sums: Vec<i64> = (-8..=8).collect();
        let (real, byte) = (|v: f32| f32s(&[], &[v]), |v: i64| ints(DataType::S8, &[], &[v]));
        let neutral = if self.op == Binary::Add { 0 } else { 1 };
        let inputs = [
            ints(DataType::S8, &[17], &sums),
            real(1.0),
            byte(0),
            ints(DataType::S8, &[1], &[neutral]),
            real(1.0),
            byte(0),
            real(2.0),
            byte(1),
        ];
        let y = ints(DataType::S8, &[17], &[-3, -2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5]);
        vec![case_const("c1_zero_point_before_rounding", node, 1, &inputs, &[y])]
    }
}
