//! BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot and BitShift, on integers.
//!
//! * (C1) a shift by at least the width of the type shifts every bit out: 0, or -1 for a negative number to the right.

use super::binary::{infer_broadcast, same_dtype};
use super::broadcast::Broadcast;
use super::number::{Number, with_integer};
use super::sample::{case, ints};
use super::unary::each;
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{Attr, Attrs, DataType, Error, Node, Result, Tensor, TensorType};

/// A bitwise operator of two operands.
pub struct Bitwise {
    spec: &'static OpSpec,
    apply: fn(i128, i128) -> i128,
    example: i64,
}

const fn spec(name: &'static str, inputs: usize) -> OpSpec {
    OpSpec { name, domain: "", since: 18, inputs: (inputs, inputs), outputs: (1, 1), attrs: &[] }
}

/// `a & b`.
pub static AND: Bitwise = Bitwise { spec: &spec("BitwiseAnd", 2), apply: |a, b| a & b, example: 0b1000 };
/// `a | b`.
pub static OR: Bitwise = Bitwise { spec: &spec("BitwiseOr", 2), apply: |a, b| a | b, example: 0b1110 };
/// `a ^ b`.
pub static XOR: Bitwise = Bitwise { spec: &spec("BitwiseXor", 2), apply: |a, b| a ^ b, example: 0b0110 };

impl Op for Bitwise {
    fn spec(&self) -> &'static OpSpec {
        self.spec
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        same_dtype(cx, 0, 1)?;
        infer_broadcast(cx, cx.dtype(0)?)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        map_integers(cx, self.apply)
    }

    fn cases(&self) -> Vec<Case> {
        let u8s = |v| ints(DataType::U8, &[1], &[v]);
        let node = Node::new("bitwise", self.spec.name, 18);
        vec![case("nibbles", node, &[u8s(0b1100), u8s(0b1010)], &[u8s(self.example)])]
    }
}

fn map_integers(cx: &EvalCx, f: impl Fn(i128, i128) -> i128) -> Result<Vec<Tensor>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let plan = Broadcast::new(a.shape(), b.shape())?;
    let mut out = util::output(a.dtype(), &plan.shape)?;
    with_integer!(a.dtype(), &cx.node.full_op(), T => {
        let apply = |x: T, y: T| T::narrow(f(x.widen(), y.widen()));
        plan.map(a.as_slice::<T>()?, b.as_slice::<T>()?, out.as_slice_mut::<T>()?, apply);
        Ok(vec![out])
    })
}

/// `!x`, bit by bit.
pub struct BitwiseNot;

static NOT_SPEC: OpSpec = spec("BitwiseNot", 1);

impl Op for BitwiseNot {
    fn spec(&self) -> &'static OpSpec {
        &NOT_SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let mut y = cx.input(0)?.clone();
        with_integer!(y.dtype(), "BitwiseNot", T => {
            each(y.as_slice_mut::<T>()?, |v| !v);
            Ok(vec![y])
        })
    }

    fn cases(&self) -> Vec<Case> {
        let u8s = |v: &[i64]| ints(DataType::U8, &[2], v);
        vec![case("u8", Node::new("not", "BitwiseNot", 18), &[u8s(&[0, 0b1100])], &[u8s(&[255, 0b1111_0011])])]
    }
}

/// `x << y` or `x >> y`.
pub struct BitShift;

static SHIFT_SPEC: OpSpec = OpSpec {
    name: "BitShift",
    domain: "",
    since: 11,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::required("direction", AttrKind::Str)],
};

impl Op for BitShift {
    fn spec(&self) -> &'static OpSpec {
        &SHIFT_SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        same_dtype(cx, 0, 1)?;
        infer_broadcast(cx, cx.dtype(0)?)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let width = cx.input(0)?.dtype().bits() as i128;
        let in_width = |y: i128| (0..width).contains(&y);
        match cx.attrs().str("direction", "")? {
            "LEFT" => map_integers(cx, |x, y| if in_width(y) { x << y } else { 0 }),
            "RIGHT" => map_integers(cx, |x, y| x >> if in_width(y) { y } else { 64 }),
            other => Err(Error::invalid(format!("BitShift: direction is `{other}`, expected LEFT or RIGHT"))),
        }
    }

    fn cases(&self) -> Vec<Case> {
        let node = |direction: &str| {
            let mut node = Node::new("shift", "BitShift", 11);
            node.attrs = Attrs::default().with("direction", Attr::Str(direction.into()));
            node
        };
        let u8s = |v: &[i64]| ints(DataType::U8, &[3], v);
        let (x, y) = (u8s(&[16, 4, 1]), u8s(&[1, 2, 8]));
        vec![
            case("c1_left", node("LEFT"), &[x.clone(), y.clone()], &[u8s(&[32, 16, 0])]),
            case("c1_right", node("RIGHT"), &[x, y], &[u8s(&[8, 1, 0])]),
        ]
    }
}
