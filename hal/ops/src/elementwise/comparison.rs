//! Equal, Less, LessOrEqual, Greater, GreaterOrEqual, with broadcasting; the result is boolean.
//!
//! * (C1) comparisons with NaN are false. (C2) Equal also compares booleans.

use super::binary::{infer_broadcast, same_dtype};
use super::broadcast::Broadcast;
use super::number::{Number, with_number};
use super::sample::{bools, case, f32s};
use crate::{Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{DataType, Node, Result, Tensor, TensorType};
use std::cmp::Ordering;

/// A comparison.
pub struct Comparison {
    spec: &'static OpSpec,
    /// Whether the order of the operands (none with NaN) satisfies it.
    holds: fn(Option<Ordering>) -> bool,
    example: [bool; 4],
}

const fn spec(name: &'static str, since: u32) -> OpSpec {
    OpSpec { name, domain: "", since, inputs: (2, 2), outputs: (1, 1), attrs: &[] }
}

/// `a == b`.
pub static EQUAL: Comparison =
    Comparison { spec: &spec("Equal", 7), holds: |o| o == Some(Ordering::Equal), example: [false, true, false, false] };
/// `a < b`.
pub static LESS: Comparison =
    Comparison { spec: &spec("Less", 7), holds: |o| o == Some(Ordering::Less), example: [true, false, false, false] };
/// `a <= b`.
pub static LESS_OR_EQUAL: Comparison = Comparison {
    spec: &spec("LessOrEqual", 12),
    holds: |o| o.is_some_and(Ordering::is_le),
    example: [true, true, false, false],
};
/// `a > b`.
pub static GREATER: Comparison = Comparison {
    spec: &spec("Greater", 7),
    holds: |o| o == Some(Ordering::Greater),
    example: [false, false, true, false],
};
/// `a >= b`.
pub static GREATER_OR_EQUAL: Comparison = Comparison {
    spec: &spec("GreaterOrEqual", 12),
    holds: |o| o.is_some_and(Ordering::is_ge),
    example: [false, true, true, false],
};

impl Op for Comparison {
    fn spec(&self) -> &'static OpSpec {
        self.spec
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        same_dtype(cx, 0, 1)?;
        infer_broadcast(cx, DataType::Bool)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        let plan = Broadcast::new(a.shape(), b.shape())?;
        let mut out = util::output(DataType::Bool, &plan.shape)?;
        let holds = self.holds;
        let dtype = if a.dtype() == DataType::Bool { DataType::U8 } else { a.dtype() };
        with_number!(dtype, self.spec.name, T => {
            let compare = |x: T, y: T| u8::from(holds(x.widen().partial_cmp(&y.widen())));
            plan.map(a.as_slice::<T>()?, b.as_slice::<T>()?, out.as_slice_mut::<u8>()?, compare);
            Ok(vec![out])
        })
    }

    fn cases(&self) -> Vec<Case> {
        let x = f32s(&[4], &[1.0, 2.0, 3.0, f32::NAN]);
        let node = Node::new("compare", self.spec.name, 16);
        vec![case("c1_order", node, &[x, f32s(&[], &[2.0])], &[bools(&[4], &self.example)])]
    }
}
