//! com.microsoft `DynamicQuantizeMatMul` and `MatMulIntegerToFloat`: integer products with a float result.
//!
//! * (C1) `y = fl32(f32(acc) * fl32(as * bs[c])) (+ bias)`, the bias as one addition at the end.
//! * (C2) The dynamic form quantizes A to u8 as DynamicQuantizeLinear does.

use super::linear::dynamic_quantize;
use super::params::{from_tensors, per_tensor};
use super::typed_form::{Operand, eval, infer_as, renamed};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{Case, EvalCx, InferCx, MICROSOFT, Op, OpSpec};
use ottava_hal::{DataType, Node, QuantParams, Result, Scheme, Tensor, TensorType};

/// An integer product with a float result.
pub struct ToFloat {
    spec: OpSpec,
    dynamic: bool,
}

/// A is real.
pub static DYNAMIC: ToFloat = ToFloat {
    spec: OpSpec {
        name: "DynamicQuantizeMatMul",
        domain: MICROSOFT,
        since: 1,
        inputs: (3, 5),
        outputs: (1, 1),
        attrs: &[],
    },
    dynamic: true,
};

/// A is quantized.
pub static INTEGER: ToFloat = ToFloat {
    spec: OpSpec {
        name: "MatMulIntegerToFloat",
        domain: MICROSOFT,
        since: 1,
        inputs: (4, 7),
        outputs: (1, 1),
        attrs: &[],
    },
    dynamic: false,
};

/// The weight's parameters, one scale or one per column.
fn weight<'a>(cx: &EvalCx<'a>, scale: usize, zero: usize) -> Result<Operand<'a>> {
    let w = cx.input(1)?;
    let axis = w.shape().len().saturating_sub(1);
    let scale = cx.input(scale)?;
    let flat = scale.reshaped(&[scale.elements()])?;
    Ok(Operand::quantized(w, from_tensors(&flat, cx.opt(zero), w.dtype(), Scheme::PerAxis { axis })?))
}

impl Op for ToFloat {
    fn spec(&self) -> &'static OpSpec {
        if self.dynamic { &DYNAMIC.spec } else { &INTEGER.spec }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![infer_as(cx, &renamed(cx.node, "MatMul", 13), &[Some(0), Some(1)], DataType::F32)?])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let node = renamed(cx.node, "MatMul", 13);
        if self.dynamic {
            let (a, params): (Tensor, QuantParams) = dynamic_quantize(cx.input(0)?)?;
            let operands = [Operand::quantized(&a, params), weight(cx, 2, 3)?, Operand::plain(cx.opt(4))];
            return Ok(vec![eval(&node, &operands, None)?]);
        }
        let a = cx.input(0)?;
        let params = per_tensor(cx.input(2)?, cx.opt(4), a.dtype())?;
        let operands = [Operand::quantized(a, params), weight(cx, 3, 5)?, Operand::plain(cx.opt(6))];
        Ok(vec![eval(&node, &operands, None)?])
    }

    fn macs(&self, node: &Node, inputs: &[Option<&TensorType>], outputs: &[&TensorType]) -> u64 {
        crate::lookup("", "MatMul").map_or(0, |op| op.macs(node, inputs, outputs))
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("mm", self.spec.name, 1);
        node.domain = MICROSOFT.into();
        let w = ints(DataType::S8, &[2, 1], &[1, -2]);
        let bias = f32s(&[1], &[0.5]);
        if self.dynamic {
            // The range 0 to 255 has scale 1 and zero point 0.
            let zero = ints(DataType::S8, &[], &[0]);
            let inputs = [f32s(&[1, 2], &[255.0, 3.0]), w, f32s(&[], &[0.5]), zero, bias];
            return vec![case_const("c2_dynamic_scale", node, 1, &inputs, &[f32s(&[1, 1], &[125.0])])];
        }
        let a = ints(DataType::U8, &[1, 2], &[20, 13]);
        let zeros = [ints(DataType::U8, &[], &[10]), ints(DataType::S8, &[1], &[0])];
        let [za, zw] = zeros;
        let inputs = [a, w, f32s(&[], &[0.5]), f32s(&[1], &[0.25]), za, zw, bias];
        vec![case_const("c1_bias_is_added_last", node, 1, &inputs, &[f32s(&[1, 1], &[1.0])])]
    }
}
