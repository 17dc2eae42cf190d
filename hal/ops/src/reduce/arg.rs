//! `ArgMax` and `ArgMin`: the index of the extreme element along an axis.
//!
//! * (C1) The first of equal elements, or the last with `select_last_index`.
//! * (C2) NaN wins over numbers.

use crate::elementwise::sample::{case, f32s, ints};
use crate::nn::softmax::Rows;
use crate::util::axis;
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// An index reduction.
pub struct Arg {
    spec: OpSpec,
    max: bool,
}

const fn arg(name: &'static str, max: bool) -> Arg {
    const ATTRS: &[AttrSpec] = &[
        AttrSpec::optional("axis", AttrKind::Int),
        AttrSpec::optional("keepdims", AttrKind::Int),
        AttrSpec::optional("select_last_index", AttrKind::Int),
    ];
    Arg { spec: OpSpec { name, domain: "", since: 1, inputs: (1, 1), outputs: (1, 1), attrs: ATTRS }, max }
}

/// Index of the maximum.
pub static MAX: Arg = arg("ArgMax", true);
/// Index of the minimum.
pub static MIN: Arg = arg("ArgMin", false);

impl Op for Arg {
    fn spec(&self) -> &'static OpSpec {
        if self.max { &MAX.spec } else { &MIN.spec }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let mut dims = cx.shape(0)?.to_vec();
        let at = axis(cx.attrs().int("axis", 0)?, dims.len())?;
        if cx.attrs().int("keepdims", 1)? != 0 {
            dims[at] = Dim::Known(1);
        } else {
            dims.remove(at);
        }
        Ok(vec![cx.ty(DataType::S64, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let at = axis(cx.attrs().int("axis", 0)?, x.shape().len())?;
        let rows = Rows::along(x.shape(), at);
        if rows.n == 0 {
            return Err(Error::invalid(format!("{} over an empty axis of {:?}", self.spec.name, x.shape())));
        }
        let last = cx.attrs().int("select_last_index", 0)? != 0;
        let y = match x.dtype() {
            DataType::F64 => self.run(rows, x.as_slice::<f64>()?, last),
            t if t.is_float() => self.run(rows, &x.to_f32s()?, last),
            DataType::U64 => self.run(rows, x.as_slice::<u64>()?, last),
            _ => self.run(rows, &x.to_ints()?, last),
        };
        let mut shape = x.shape().to_vec();
        shape[at] = 1;
        if cx.attrs().int("keepdims", 1)? == 0 {
            shape.remove(at);
        }
        Ok(vec![Tensor::from_slice(&shape, &y)?])
    }

    fn cases(&self) -> Vec<Case> {
        let node = |last| {
            let mut node = Node::new("arg", self.spec.name, 13);
            node.attrs = Attrs::default().with("axis", Attr::Int(-1)).with("select_last_index", Attr::Int(last));
            node
        };
        let x = || f32s(&[1, 4], &[1.0, 3.0, 3.0, 1.0]);
        let (first, last) = if self.max { (1, 2) } else { (0, 3) };
        let y = |i| ints(DataType::S64, &[1, 1], &[i]);
        vec![case("c1_first", node(0), &[x()], &[y(first)]), case("c1_last", node(1), &[x()], &[y(last)])]
    }
}

impl Arg {
    fn run<T: Copy + PartialOrd>(&self, rows: Rows, x: &[T], last: bool) -> Vec<i64> {
        let mut y = Vec::with_capacity(rows.outer.saturating_mul(rows.inner));
        for o in 0..rows.outer {
            for i in 0..rows.inner {
                let at = |k: usize| x[(o * rows.n + k) * rows.inner + i];
                let best = (1..rows.n).fold(0, |b, k| if self.beats(at(k), at(b), last) { k } else { b });
                y.push(best as i64);
            }
        }
        y
    }

    /// Whether a later element replaces the best so far.
    fn beats<T: PartialOrd>(&self, v: T, best: T, last: bool) -> bool {
        let is_nan = |v: &T| v.partial_cmp(v).is_none();
        match (is_nan(&v), is_nan(&best)) {
            (true, nan) => !nan || last,
            (false, true) => false,
            _ if v == best => last,
            _ => (v > best) == self.max,
        }
    }
}
