//! CumSum and CumProd: running sums and products along an axis.
//!
//! * (C1) `exclusive` leaves the element itself out; `reverse` runs from the end.
//! * (C2) one accumulator in ascending (or descending) order, rounded to the element type at each output.

use crate::elementwise::number::{Compute, Number, with_number};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{Attr, Attrs, DataType, Error, Node, Result, Tensor, TensorType};

/// A member of the family.
pub struct Cumulative {
    spec: &'static OpSpec,
    product: bool,
}

const fn spec(name: &'static str, since: u32) -> OpSpec {
    const ATTRS: &[AttrSpec] =
        &[AttrSpec::optional("exclusive", AttrKind::Int), AttrSpec::optional("reverse", AttrKind::Int)];
    OpSpec { name, domain: "", since, inputs: (2, 2), outputs: (1, 1), attrs: ATTRS }
}

/// The running sum.
pub static CUM_SUM: Cumulative = Cumulative { spec: &spec("CumSum", 11), product: false };
/// The running product.
pub static CUM_PROD: Cumulative = Cumulative { spec: &spec("CumProd", 26), product: true };

impl Op for Cumulative {
    fn spec(&self) -> &'static OpSpec {
        self.spec
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (exclusive, reverse) = (cx.attrs().int("exclusive", 0)? != 0, cx.attrs().int("reverse", 0)? != 0);
        let mut y = cx.input(0)?.clone();
        let axis = match cx.input(1)?.to_ints()?.as_slice() {
            [axis] => util::axis(*axis, y.shape().len())?,
            other => return Err(Error::invalid(format!("{}: axis is {other:?}, expected one", self.spec.name))),
        };
        let (n, inner) = (y.shape()[axis], y.shape()[axis + 1..].iter().product::<usize>());
        if y.elements() == 0 {
            return Ok(vec![y]);
        }
        with_number!(y.dtype(), self.spec.name, T => {
            for block in y.as_slice_mut::<T>()?.chunks_exact_mut(n * inner) {
                for i in 0..inner {
                    scan(&mut block[i..], inner, self.product, exclusive, reverse);
                }
            }
            Ok(vec![y])
        })
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("cumulative", self.spec.name, self.spec.since);
        let x = [f32s(&[1, 3], &[2.0, 3.0, 4.0]), ints(DataType::S32, &[], &[-1])];
        let expected: [&[f32]; 2] =
            if self.product { [&[2.0, 6.0, 24.0], &[12.0, 4.0, 1.0]] } else { [&[2.0, 5.0, 9.0], &[7.0, 4.0, 0.0]] };
        let plain = case_const("plain", node.clone(), 1, &x, &[f32s(&[1, 3], expected[0])]);
        node.attrs = Attrs::default().with("exclusive", Attr::Int(1)).with("reverse", Attr::Int(1));
        vec![plain, case_const("c1_exclusive_reverse", node, 1, &x, &[f32s(&[1, 3], expected[1])])]
    }
}

/// One run over every `step`-th element.
fn scan<T: Number>(values: &mut [T], step: usize, product: bool, exclusive: bool, reverse: bool) {
    let mut sum = if product { T::Wide::from_count(1) } else { T::Wide::ZERO };
    let mut visit = |v: &mut T| {
        let x = v.widen();
        let next = if product { sum.mul(x) } else { sum.add(x) };
        *v = T::narrow(if exclusive { sum } else { next });
        sum = next;
    };
    if reverse {
        values.iter_mut().step_by(step).rev().for_each(&mut visit);
    } else {
        values.iter_mut().step_by(step).for_each(&mut visit);
    }
}
