//! TopK: the k largest or smallest elements along an axis, and their indices.
//!
//! * (C1) sorted, best first; equal elements in ascending order of index. (C2) a NaN counts as the largest.

use crate::elementwise::number::{Compute, Number, with_number};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};
use std::cmp::Ordering;

/// The operator.
pub struct TopK;

static SPEC: OpSpec = OpSpec {
    name: "TopK",
    domain: "",
    since: 1,
    inputs: (2, 2),
    outputs: (1, 2),
    attrs: &[
        AttrSpec::optional("axis", AttrKind::Int),
        AttrSpec::optional("largest", AttrKind::Int),
        AttrSpec::optional("sorted", AttrKind::Int),
    ],
};

impl Op for TopK {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let mut dims = cx.shape(0)?.to_vec();
        let axis = util::axis(cx.attrs().int("axis", -1)?, dims.len())?;
        dims[axis] = match cx.known_ints(1)? {
            Some(k) => Dim::Known(count(&k, dims[axis].known())?),
            None => cx.fresh(0, axis),
        };
        let types = [cx.ty(cx.dtype(0)?, dims.clone()), cx.ty(DataType::S64, dims)];
        Ok(types.into_iter().take(cx.n_outputs()).collect())
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let axis = util::axis(cx.attrs().int("axis", -1)?, x.shape().len())?;
        let largest = cx.attrs().int("largest", 1)? != 0;
        let (n, inner) = (x.shape()[axis], x.shape()[axis + 1..].iter().product::<usize>());
        let k = count(&cx.input(1)?.to_ints()?, Some(n))?;
        let mut shape = x.shape().to_vec();
        shape[axis] = k;
        let (mut values, mut indices) = (util::output(x.dtype(), &shape)?, util::output(DataType::S64, &shape)?);
        if values.elements() == 0 {
            return Ok(vec![values, indices]);
        }
        with_number!(x.dtype(), "TopK", T => {
            let blocks = x.as_slice::<T>()?.chunks_exact(n * inner);
            let outputs = values.as_slice_mut::<T>()?.chunks_exact_mut(k * inner);
            let outputs = outputs.zip(indices.as_slice_mut::<i64>()?.chunks_exact_mut(k * inner));
            for (block, (values, indices)) in blocks.zip(outputs) {
                for i in 0..inner {
                    for (j, &best) in best(&block[i..], inner, n, largest)[..k].iter().enumerate() {
                        values[j * inner + i] = block[best * inner + i];
                        indices[j * inner + i] = best as i64;
                    }
                }
            }
            Ok(())
        })?;
        Ok(vec![values, indices])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("top", "TopK", 11);
        let inputs = [f32s(&[1, 4], &[1.0, 7.0, 3.0, 7.0]), ints(DataType::S64, &[1], &[3])];
        let indices = |v: &[i64]| ints(DataType::S64, &[1, 3], v);
        let largest = [f32s(&[1, 3], &[7.0, 7.0, 3.0]), indices(&[1, 3, 2])];
        let smallest = [f32s(&[1, 3], &[1.0, 3.0, 7.0]), indices(&[0, 2, 1])];
        let first = case_const("c1_ties", node.clone(), 1, &inputs, &largest);
        node.attrs = Attrs::default().with("largest", Attr::Int(0));
        vec![first, case_const("smallest", node, 1, &inputs, &smallest)]
    }
}

fn count(k: &[i64], extent: Option<usize>) -> Result<usize> {
    let k = match k {
        [k] => usize::try_from(*k).map_err(|_| Error::invalid(format!("TopK: k is {k}")))?,
        other => return Err(Error::invalid(format!("TopK: k is {other:?}, expected one number"))),
    };
    match extent {
        Some(n) if k > n => Err(Error::invalid(format!("TopK: k is {k}, but the axis has {n} elements"))),
        _ => Ok(k),
    }
}

/// Indices along a strided run, best first.
fn best<T: Number>(values: &[T], step: usize, n: usize, largest: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    let at = |i: usize| values[i * step].widen();
    order.sort_by(|&a, &b| {
        let ordering = compare(at(a), at(b));
        if largest { ordering.reverse() } else { ordering }
    });
    order
}

/// (C2)
fn compare<C: Compute>(a: C, b: C) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
