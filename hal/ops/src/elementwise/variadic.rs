//! Max, Min, Sum and Mean of any number of broadcast operands.
//!
//! * (C1) Max and Min propagate NaN, and of two zeros take the second. (C2) Sum and Mean add in the order of the inputs and round to the element type
//!   once; Mean is the sum divided by the count.
//! * (C3) quantized Max and Min work on the integers after all inputs are brought to the output's parameters.

use super::binary::infer_broadcast;
use super::broadcast::Broadcast;
use super::number::{Compute, Number, with_number};
use super::sample::{case, f32s, ints, quant_case};
use crate::{Case, EvalCx, InferCx, Op, OpSpec, QuantRule, requantize, util};
use ottava_hal::{DataType, Error, Node, Result, Tensor, TensorType};

/// Which of the four.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Max,
    Min,
    Sum,
    Mean,
}

/// An operator of this family.
pub struct Variadic {
    kind: Kind,
    spec: &'static OpSpec,
}

/// The largest.
pub static MAX: Variadic = Variadic { kind: Kind::Max, spec: &spec("Max") };
/// The smallest.
pub static MIN: Variadic = Variadic { kind: Kind::Min, spec: &spec("Min") };
/// The sum.
pub static SUM: Variadic = Variadic { kind: Kind::Sum, spec: &spec("Sum") };
/// The mean.
pub static MEAN: Variadic = Variadic { kind: Kind::Mean, spec: &spec("Mean") };

const fn spec(name: &'static str) -> OpSpec {
    OpSpec { name, domain: "", since: 8, inputs: (1, usize::MAX), outputs: (1, 1), attrs: &[] }
}

impl Kind {
    fn join<C: Compute>(self, a: C, b: C) -> C {
        match self {
            Self::Sum | Self::Mean => a.add(b),
            _ if a.is_nan() => a,
            Self::Max if a > b => a,
            Self::Min if a < b => a,
            Self::Max | Self::Min => b,
        }
    }

    fn finish<C: Compute>(self, value: C, n: usize) -> C {
        if self == Self::Mean { value.div(C::from_count(n)) } else { value }
    }
}

impl Op for Variadic {
    fn spec(&self) -> &'static OpSpec {
        self.spec
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        infer_broadcast(cx, cx.dtype(0)?)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let mut inputs = vec![cx.input(0)?];
        for i in 1..cx.inputs.len() {
            inputs.push(cx.input(i)?);
        }
        Ok(vec![self.join_all(&inputs)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        match self.kind {
            Kind::Max | Kind::Min => QuantRule::Own,
            Kind::Sum | Kind::Mean => QuantRule::Float,
        }
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let (Some(to), Some(dtype)) = (cx.out_quant(0), cx.out_dtype(0)) else { return Ok(None) };
        if to.as_per_tensor().is_none() {
            return Ok(None);
        }
        let mut moved = Vec::with_capacity(cx.inputs.len());
        for i in 0..cx.inputs.len() {
            let Some(from) = cx.in_quant(i) else { return Ok(None) };
            moved.push(requantize(cx.input(i)?, from, dtype, to)?);
        }
        Ok(Some(vec![self.join_all(&moved.iter().collect::<Vec<_>>())?]))
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("variadic", self.spec.name, 13);
        let (a, b) = (f32s(&[2, 1], &[3.0, 1.0]), f32s(&[2], &[2.0, 4.0]));
        let expected = match self.kind {
            Kind::Max => [3.0, 4.0, 2.0, 4.0],
            Kind::Min => [2.0, 3.0, 1.0, 1.0],
            Kind::Sum => [5.0, 7.0, 3.0, 5.0],
            Kind::Mean => [2.5, 3.5, 1.5, 2.5],
        };
        let mut cases = vec![case("broadcast", node.clone(), &[a, b], &[f32s(&[2, 2], &expected)])];
        if self.kind == Kind::Max {
            let (nan, one) = (f32s(&[1], &[f32::NAN]), f32s(&[1], &[1.0]));
            cases.push(case("c1_nan", node.clone(), &[one, nan.clone()], &[nan]));
            let s8 = |v: &[i64]| ints(DataType::S8, &[2], v);
            let inputs = [(s8(&[-3, 5]), 0.5, 0), (s8(&[2, 4]), 1.0, 4)];
            cases.push(quant_case("c3_quantized", node, &inputs, (s8(&[-3, 5]), 0.5, 0)));
        }
        cases
    }
}

impl Variadic {
    fn join_all(&self, inputs: &[&Tensor]) -> Result<Tensor> {
        let [first, ..] = inputs else { return Err(Error::invalid(format!("{} of nothing", self.spec.name))) };
        let mut shape = first.shape().to_vec();
        for x in inputs {
            shape = util::broadcast(&shape, x.shape())?;
        }
        let (kind, n) = (self.kind, inputs.len());
        let mut out = util::output(inputs[0].dtype(), &shape)?;
        with_number!(out.dtype(), self.spec.name, T => {
            if let [a, b] = inputs {
                let plan = Broadcast::new(a.shape(), b.shape())?;
                let f = |x: T, y: T| T::narrow(kind.finish(kind.join(x.widen(), y.widen()), 2));
                plan.map(a.as_slice::<T>()?, b.as_slice::<T>()?, out.as_slice_mut::<T>()?, f);
                return Ok(out);
            }
            let zeros = out.as_slice::<T>()?;
            let mut sum = vec![<T as Number>::Wide::ZERO; zeros.len()];
            Broadcast::new(&shape, inputs[0].shape())?.map(zeros, inputs[0].as_slice::<T>()?, &mut sum, |_, x: T| x.widen());
            for x in &inputs[1..] {
                let before = sum.clone();
                let plan = Broadcast::new(&shape, x.shape())?;
                plan.map(&before, x.as_slice::<T>()?, &mut sum, |s, x: T| kind.join(s, x.widen()));
            }
            let values = out.as_slice_mut::<T>()?.iter_mut().zip(sum);
            values.for_each(|(y, s)| *y = T::narrow(kind.finish(s, n)));
            Ok(out)
        })
    }
}
