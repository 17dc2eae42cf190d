//! Range: `start, start + delta, ..` up to `limit`, which is not included.
//!
//! * (C1) the count is `max(0, ceil((limit - start) / delta))`; element i is `start + i * delta`.

use crate::elementwise::number::{Compute, Number, with_number};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Range;

static SPEC: OpSpec = OpSpec { name: "Range", domain: "", since: 11, inputs: (3, 3), outputs: (1, 1), attrs: &[] };

impl Op for Range {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (start, limit, delta) = (cx.input(0)?.constant, cx.input(1)?.constant, cx.input(2)?.constant);
        let (Some(start), Some(limit), Some(delta)) = (start, limit, delta) else {
            return Ok(vec![cx.open(cx.dtype(0)?, Some(1))?]);
        };
        let n = with_number!(start.dtype(), "Range", T => {
            count(scalar::<T>(start)?, scalar::<T>(limit)?, scalar::<T>(delta)?)
        })?;
        Ok(vec![cx.ty(cx.dtype(0)?, vec![Dim::Known(n)])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        Ok(vec![range(cx.input(0)?, cx.input(1)?, cx.input(2)?)?])
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("range", "Range", 11);
        let f = |v: f32| f32s(&[], &[v]);
        let i = |v: i64| ints(DataType::S32, &[], &[v]);
        vec![
            case_const("c1_float", node.clone(), 0, &[f(1.0), f(2.1), f(0.5)], &[f32s(&[3], &[1.0, 1.5, 2.0])]),
            case_const("c1_down", node, 0, &[i(10), i(6), i(-3)], &[ints(DataType::S32, &[2], &[10, 7])]),
        ]
    }
}

fn range(start: &Tensor, limit: &Tensor, delta: &Tensor) -> Result<Tensor> {
    let dtype = start.dtype();
    with_number!(dtype, "Range", T => {
        let (start, limit, delta) = (scalar::<T>(start)?, scalar::<T>(limit)?, scalar::<T>(delta)?);
        let n = count(start, limit, delta)?;
        let mut y = util::output(dtype, &[n])?;
        let values = y.as_slice_mut::<T>()?.iter_mut().enumerate();
        values.for_each(|(i, y)| *y = T::narrow(start.add(<T as Number>::Wide::from_count(i).mul(delta))));
        Ok(y)
    })
}

fn scalar<T: Number>(x: &Tensor) -> Result<T::Wide> {
    match x.as_slice::<T>()? {
        [v] => Ok(v.widen()),
        _ => Err(Error::invalid(format!("Range: an input has shape {:?}, expected a scalar", x.shape()))),
    }
}

/// (C1) in the type of the computation; integers and floats differ in the rounding of their quotient.
fn count<C: Compute>(start: C, limit: C, delta: C) -> Result<usize> {
    if delta == C::ZERO || delta.is_nan() {
        return Err(Error::invalid("Range: delta is 0 or NaN"));
    }
    let up = delta > C::ZERO;
    if !(if up { start < limit } else { start > limit }) {
        return Ok(0);
    }
    let quotient = limit.sub(start).div(delta);
    let floor = quotient.to_count();
    // Where the last whole step still falls short of the limit, there is one more element.
    let n = floor.saturating_add(usize::from(C::from_count(floor) < quotient || exact_remainder(start, limit, delta)));
    if n > util::MAX_ELEMENTS {
        return Err(Error::invalid(format!("Range: more than {} elements", util::MAX_ELEMENTS)));
    }
    Ok(n)
}

/// Whether truncated integer division left a remainder.
fn exact_remainder<C: Compute>(start: C, limit: C, delta: C) -> bool {
    C::IS_INTEGER && limit.sub(start).rem(delta) != C::ZERO
}
