//! Slice: a range with a step along some axes (starts, ends, axes, steps as inputs).
//!
//! * (C1) negative starts and ends count from the end; both are clamped to the axis. (C2) steps may be negative.

use super::pick::{Walk, strided};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Slice;

static SPEC: OpSpec = OpSpec { name: "Slice", domain: "", since: 1, inputs: (3, 5), outputs: (1, 1), attrs: &[] };

/// The range of one axis.
#[derive(Clone, Copy)]
struct Range {
    start: i64,
    end: i64,
    step: i64,
}

impl Op for Slice {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let mut dims = cx.shape(0)?.to_vec();
        if cx.any_open(&[1, 2, 3, 4]) {
            return Ok(vec![cx.open_along(&open_axes(cx, dims.len())?)?]);
        }
        let (axes, steps) = (cx.opt_const_ints(3)?, cx.opt_const_ints(4)?);
        let bounds = (cx.const_ints(1)?, cx.const_ints(2)?);
        for (axis, range) in ranges(&bounds.0, &bounds.1, axes, steps, dims.len())? {
            dims[axis] = match dims[axis].known() {
                Some(n) => Dim::Known(resolve(range, n).1),
                None if range.keeps_everything() => continue,
                None => symbolic(range).unwrap_or_else(|| cx.fresh(0, axis)),
            };
        }
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let (starts, ends) = (cx.input(1)?.to_ints()?, cx.input(2)?.to_ints()?);
        let (axes, steps) = (cx.opt_ints(3)?, cx.opt_ints(4)?);
        let own = util::strides(x.shape());
        let mut walk = Walk { shape: x.shape().to_vec(), steps: own.iter().map(|&s| s as isize).collect(), offset: 0 };
        for (axis, range) in ranges(&starts, &ends, axes, steps, x.shape().len())? {
            let (first, count) = resolve(range, x.shape()[axis]);
            walk.shape[axis] = count;
            if count > 0 {
                walk.offset += first.saturating_mul(own[axis]);
            }
            // With one element the step is never taken, and a huge one must not overflow.
            walk.steps[axis] = if count > 1 { (own[axis] as isize).saturating_mul(range.step as isize) } else { 0 };
        }
        Ok(vec![strided(x, &walk)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("slice", "Slice", 13);
        let i = |v: &[i64]| ints(DataType::S64, &[v.len()], v);
        let x = f32s(&[2, 4], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let first = [x.clone(), i(&[1, 0]), i(&[2, 3]), i(&[0, 1]), i(&[1, 2])];
        let second = [x, i(&[-1]), i(&[i64::MIN]), i(&[1]), i(&[-2])];
        vec![
            case_const("c1_steps", node.clone(), 1, &first, &[f32s(&[1, 2], &[5.0, 7.0])]),
            case_const("c2_backwards", node, 1, &second, &[f32s(&[2, 2], &[4.0, 2.0, 8.0, 6.0])]),
        ]
    }
}

impl Range {
    fn keeps_everything(self) -> bool {
        self.start == 0 && self.step == 1 && self.end >= i64::from(i32::MAX)
    }
}

/// The count of a range of a symbolic axis where it does not depend on the extent: `[-1:]` has one element.
fn symbolic(range: Range) -> Option<Dim> {
    let from_end = range.start < 0 && range.end >= i64::from(i32::MAX) && range.step == 1;
    (from_end && range.start == -1).then_some(Dim::Known(1))
}

/// The axes that are cut, where data decides the ranges: without a list the first ones, as many as there are starts.
fn open_axes(cx: &InferCx, rank: usize) -> Result<Vec<usize>> {
    match cx.opt(3) {
        Some(_) => cx.axes(3, rank),
        None => Ok((0..cx.length(1)?.unwrap_or(rank).min(rank)).collect()),
    }
}

/// The axes with their ranges.
fn ranges(
    starts: &[i64],
    ends: &[i64],
    axes: Option<Vec<i64>>,
    steps: Option<Vec<i64>>,
    rank: usize,
) -> Result<Vec<(usize, Range)>> {
    let n = starts.len();
    let axes = axes.unwrap_or_else(|| (0..n as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; n]);
    if ends.len() != n || axes.len() != n || steps.len() != n {
        let (e, a, s) = (ends.len(), axes.len(), steps.len());
        return Err(Error::invalid(format!(
            "Slice: {n} starts, {e} ends, {a} axes, {s} steps; expected equal numbers"
        )));
    }
    if steps.contains(&0) {
        return Err(Error::invalid("Slice: a step is 0"));
    }
    let one = |i: usize| Ok((util::axis(axes[i], rank)?, Range { start: starts[i], end: ends[i], step: steps[i] }));
    (0..n).map(one).collect()
}

/// First index and number of elements on an axis of `n`.
fn resolve(range: Range, n: usize) -> (usize, usize) {
    let n = i128::try_from(n).unwrap_or(i128::MAX);
    let step = i128::from(range.step);
    let (lo, hi) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let place = |v: i64| {
        let v = i128::from(v);
        (if v < 0 { v + n } else { v }).clamp(lo, hi)
    };
    let (start, end) = (place(range.start), place(range.end));
    let count = if step > 0 { (end - start + step - 1) / step } else { (start - end - step - 1) / -step };
    (start.max(0) as usize, count.max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_python() {
        let count = |start, end, step, n| resolve(Range { start, end, step }, n);
        assert_eq!(count(0, i64::MAX, 1, 5), (0, 5));
        assert_eq!(count(-2, i64::MAX, 1, 5), (3, 2));
        assert_eq!(count(10, 3, 1, 5), (5, 0));
        assert_eq!(count(4, i64::MIN, -1, 5), (4, 5));
        assert_eq!(count(20, 0, -4, 20), (19, 5));
        assert_eq!(count(1, 4, i64::MAX, 5), (1, 1));
    }
}
