//! Relu: `max(x, 0)`.
//!
//! * (C1) `x < 0 ? 0 : x`: NaN and -0 stay. (C2) Integers have the same definition.
//! * (C3) quantized: the input is brought to the output's parameters (numerics.md, the Concat row); then
//!   `max(q, zp)` on the integers.

use super::number::{Compute, Number, with_number};
use super::sample::{case, f32s, ints, quant_case};
use super::unary::each;
use crate::quant::channel_index;
use crate::{Case, EvalCx, InferCx, Op, OpSpec, QuantRule, requantize};
use ottava_hal::{DataType, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Relu;

static SPEC: OpSpec = OpSpec { name: "Relu", domain: "", since: 6, inputs: (1, 1), outputs: (1, 1), attrs: &[] };

impl Op for Relu {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let x = cx.input(0)?.ty;
        Ok(vec![TensorType::new(x.dtype, x.shape.clone())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let mut y = cx.input(0)?.clone();
        with_number!(y.dtype(), "Relu", T => {
            let zero = T::narrow(<T as Number>::Wide::ZERO);
            each(y.as_slice_mut::<T>()?, |v| if v.widen() < zero.widen() { zero } else { v });
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
        let y = requantize(cx.input(0)?, from, dtype, to)?;
        let index = channel_index(to, y.shape());
        let clamped: Vec<i64> =
            y.to_ints()?.iter().enumerate().map(|(i, &q)| q.max(to.zero_points[index.of(i)].into())).collect();
        Ok(Some(vec![Tensor::from_ints(dtype, y.shape(), &clamped)?]))
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("relu", "Relu", 14);
        let u8s = |v: &[i64]| ints(DataType::U8, &[3], v);
        vec![
            case(
                "c1_floats",
                node.clone(),
                &[f32s(&[3], &[-1.0, 0.5, f32::NAN])],
                &[f32s(&[3], &[0.0, 0.5, f32::NAN])],
            ),
            quant_case("c3_equal", node.clone(), &[(u8s(&[0, 128, 200]), 0.1, 128)], (u8s(&[128, 128, 200]), 0.1, 128)),
            quant_case("c3_unequal", node, &[(u8s(&[0, 130, 255]), 0.5, 128)], (u8s(&[0, 4, 254]), 0.25, 0)),
        ]
    }
}
