//! Where: `condition ? x : y` with three-way broadcasting, on any element type.
//!
//! * (C1) quantized x and y are brought to the output's parameters and selected as integers.

use super::binary::{infer_broadcast, same_dtype};
use super::number::wrong_dtype;
use super::sample::{bools, case, f32s, ints};
use crate::movement::expand::expand_to;
use crate::movement::pick::pick_between;
use crate::{Case, CaseInput, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{DataType, Error, Node, QuantParams, Result, Tensor, TensorType};

/// The operator.
pub struct Where;

static SPEC: OpSpec = OpSpec { name: "Where", domain: "", since: 9, inputs: (3, 3), outputs: (1, 1), attrs: &[] };

impl Op for Where {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        same_dtype(cx, 1, 2)?;
        infer_broadcast(cx, cx.dtype(1)?)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (condition, x, y) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        if condition.dtype() != DataType::Bool {
            return Err(wrong_dtype("Where (condition)", condition.dtype()));
        }
        if x.dtype() != y.dtype() {
            return Err(Error::invalid(format!("Where: x is {}, y is {}, expected one type", x.dtype(), y.dtype())));
        }
        let shape = util::broadcast(&util::broadcast(condition.shape(), x.shape())?, y.shape())?;
        let condition = expand_to(condition, &shape)?;
        let (x, y) = (expand_to(x, &shape)?, expand_to(y, &shape)?);
        Ok(vec![pick_between(condition.bytes(), &x, &y)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let (Some(a), Some(b)) = (cx.in_quant(1), cx.in_quant(2)) else { return Ok(None) };
        let (Some(to), Some(dtype)) = (cx.out_quant(0), cx.out_dtype(0)) else { return Ok(None) };
        let x = crate::requantize(cx.input(1)?, a, dtype, to)?;
        let y = crate::requantize(cx.input(2)?, b, dtype, to)?;
        let inputs = [cx.opt(0), Some(&x), Some(&y)];
        let integers = EvalCx { node: cx.node, inputs: &inputs, in_types: cx.in_types, out_types: cx.out_types };
        self.eval(&integers).map(Some)
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("where", "Where", 16);
        let condition = bools(&[2, 1], &[true, false]);
        let u8s =
            |v: &[i64], s, z| Some(CaseInput::quantized(ints(DataType::U8, &[2], v), QuantParams::per_tensor(s, z)));
        let quantized = Case {
            name: "c1_quantized",
            node: node.clone(),
            inputs: vec![
                Some(CaseInput::plain(bools(&[2], &[true, false]))),
                u8s(&[3, 4], 0.5, 0),
                u8s(&[20, 12], 0.25, 4),
            ],
            outputs: vec![(ints(DataType::U8, &[2], &[3, 4]), Some(QuantParams::per_tensor(0.5, 0)))],
        };
        let (x, y) = (f32s(&[2], &[1.0, 2.0]), f32s(&[], &[9.0]));
        vec![case("broadcast", node, &[condition, x, y], &[f32s(&[2, 2], &[1.0, 2.0, 9.0, 9.0])]), quantized]
    }
}
