//! And, Or, Xor (with broadcasting) and Not, on booleans.

use super::binary::infer_broadcast;
use super::broadcast::Broadcast;
use super::number::wrong_dtype;
use super::sample::{bools, case};
use super::unary::each;
use crate::{Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{DataType, Node, Result, Tensor, TensorType};

/// A logical operator of two operands.
pub struct Logical {
    spec: &'static OpSpec,
    apply: fn(bool, bool) -> bool,
}

const fn spec(name: &'static str, since: u32, inputs: usize) -> OpSpec {
    OpSpec { name, domain: "", since, inputs: (inputs, inputs), outputs: (1, 1), attrs: &[] }
}

/// `a && b`.
pub static AND: Logical = Logical { spec: &spec("And", 7, 2), apply: |a, b| a && b };
/// `a || b`.
pub static OR: Logical = Logical { spec: &spec("Or", 7, 2), apply: |a, b| a || b };
/// `a != b`.
pub static XOR: Logical = Logical { spec: &spec("Xor", 7, 2), apply: |a, b| a != b };

impl Op for Logical {
    fn spec(&self) -> &'static OpSpec {
        self.spec
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        infer_broadcast(cx, DataType::Bool)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (a, b) = (boolean(cx, 0)?, boolean(cx, 1)?);
        let plan = Broadcast::new(a.shape(), b.shape())?;
        let mut out = util::output(DataType::Bool, &plan.shape)?;
        let apply = |x: u8, y: u8| u8::from((self.apply)(x != 0, y != 0));
        plan.map(a.bytes(), b.bytes(), out.bytes_mut(), apply);
        Ok(vec![out])
    }

    fn cases(&self) -> Vec<Case> {
        let (a, b) = ([false, false, true, true], [false, true, false, true]);
        let expected: Vec<bool> = a.iter().zip(b).map(|(&a, b)| (self.apply)(a, b)).collect();
        let node = Node::new("logical", self.spec.name, 7);
        vec![case("truth_table", node, &[bools(&[4], &a), bools(&[4], &b)], &[bools(&[4], &expected)])]
    }
}

/// `!x`.
pub struct Not;

static NOT_SPEC: OpSpec = spec("Not", 1, 1);

impl Op for Not {
    fn spec(&self) -> &'static OpSpec {
        &NOT_SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(DataType::Bool, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let mut y = boolean(cx, 0)?.clone();
        each(y.bytes_mut(), |v| u8::from(v == 0));
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("not", "Not", 1);
        vec![case("both", node, &[bools(&[2], &[false, true])], &[bools(&[2], &[true, false])])]
    }
}

fn boolean<'a>(cx: &EvalCx<'a>, i: usize) -> Result<&'a Tensor> {
    let x = cx.input(i)?;
    if x.dtype() == DataType::Bool { Ok(x) } else { Err(wrong_dtype(&cx.node.full_op(), x.dtype())) }
}
