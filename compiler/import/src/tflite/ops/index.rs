//! Operators that take or place elements by their index: GATHER with batches, GATHER_ND, SCATTER_ND, TOPK_V2, ONE_HOT,
//! WHERE of one operand, REVERSE_SEQUENCE, EMBEDDING_LOOKUP.

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::Field;
use super::super::schema::Operator;
use super::chain::{as_s64, from_s64, inner, last, of, with};
use super::more::only_plain;
use super::shape::normal_axis;
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::{DataType, Tensor, TensorType};

/// Classes that ONE_HOT may have.
const MOST: i64 = 1 << 20;

/// GATHER whose first `batch` axes are common to both operands, and of which the next one is gathered.
pub(crate) fn gather_batches(cx: &mut Cx<'_>, op: &Operator<'_>, axis: i32, batch: i32) -> Built {
    let (x, indices, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let rank = cx.def(x).shape.len();
    let batch = normal_axis(batch.into(), cx.def(indices).shape.len() + 1)?;
    if normal_axis(axis.into(), rank)? != batch {
        return Refusal::unsupported(format!("batch_dims {batch} with axis {axis}; equal ones are supported"));
    }
    let id = as_s64(cx, indices, t)?;
    let axes = cx.add_ints(t, "tuple", &[-1])?;
    let tuples = inner(cx, t, of("Unsqueeze", 13), &[id, axes], DataType::S64);
    let x = cx.value(x, Layout::File)?;
    last(cx, t, with("GatherND", 13, "batch_dims", batch as i64), &[x, tuples])
}

/// GATHER_ND.
pub(crate) fn gather_nd(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, indices, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let inputs = [cx.value(x, Layout::File)?, as_s64(cx, indices, t)?];
    last(cx, t, of("GatherND", 13), &inputs)
}

/// SCATTER_ND: updates of one place are added, to zeros of a constant shape.
pub(crate) fn scatter_nd(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (indices, updates, shape, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.input(op, 2)?, cx.output(op, 0)?);
    only_plain(cx, t)?;
    let extents = cx.ints(shape)?;
    let shape = cx.add_ints(t, "extents", &extents)?;
    let dtype = cx.ty(updates, Layout::File)?.dtype;
    let name = format!("{}/zero", cx.def(t).name);
    let zero = cx.add_constant(&name, Tensor::zeros(dtype, &[])?, None);
    let zeros = inner(cx, t, of("Expand", 13), &[zero, shape], dtype);
    let inputs = [zeros, as_s64(cx, indices, t)?, cx.value(updates, Layout::File)?];
    let mut node = cx.node("ScatterND", 18, t);
    node.attrs.set("reduction", Attr::Str("add".into()));
    node.inputs = inputs.into_iter().map(Some).collect();
    cx.push(node, &[t], Layout::File)
}

/// TOPK_V2: the largest of the last axis, equal ones in their order.
pub(crate) fn top_k(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, k, values) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let count = cx.ints(k)?.first().copied().unwrap_or(0);
    if !(0..=i64::from(i32::MAX)).contains(&count) {
        return Refusal::invalid(format!("k is {count}"));
    }
    let k = cx.add_ints(values, "k", &[count])?;
    let mut node = cx.node("TopK", 11, values);
    node.inputs = vec![Some(cx.value(x, Layout::File)?), Some(k)];
    if op.outputs.len() < 2 {
        let what = format!("{} outputs; values and indices are expected", op.outputs.len());
        return Refusal::invalid(what);
    }
    cx.push(node, &[values], Layout::File)?;
    let t = cx.output(op, 1)?;
    let found = cx.add_inner(t, "found", TensorType::unranked(DataType::S64));
    if let Some(node) = cx.graph.nodes.last_mut() {
        node.outputs.push(found);
    }
    from_s64(cx, found, t)
}

/// ONE_HOT of a constant depth: an index outside is nowhere, where ONNX counts negative ones from the end.
pub(crate) fn one_hot(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, depth, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let (on, off) = (cx.input(op, 2)?, cx.input(op, 3)?);
    let depth = cx.ints(depth)?.first().copied().unwrap_or(0);
    let axis = op.options.map_or(Ok(-1), |o| o.i32(Field(0, "axis"), 0))?;
    let rank = cx.def(x).shape.len();
    let axis = normal_axis(axis.into(), rank + 1)?;
    if !(0..=MOST).contains(&depth) {
        return Refusal::unsupported(format!("a depth of {depth}; 0 to {MOST} are supported"));
    }
    let (id, axes) = (as_s64(cx, x, t)?, cx.add_ints(t, "axis", &[axis as i64])?);
    let wide = inner(cx, t, of("Unsqueeze", 13), &[id, axes], DataType::S64);
    let mut shape = vec![1; rank + 1 - axis];
    shape[0] = usize::try_from(depth).unwrap_or(0);
    let classes = Tensor::from_slice(&shape, &(0..depth).collect::<Vec<i64>>())?;
    let name = format!("{}/classes", cx.def(t).name);
    let classes = cx.add_constant(&name, classes, None);
    let hot = inner(cx, t, of("Equal", 13), &[wide, classes], DataType::Bool);
    let choices = [hot, cx.value(on, Layout::File)?, cx.value(off, Layout::File)?];
    last(cx, t, of("Where", 16), &choices)
}

/// WHERE of one operand: a row of indices for each element that is true.
pub(crate) fn where_true(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let id = cx.value(x, Layout::File)?;
    let columns = inner(cx, t, of("NonZero", 13), &[id], DataType::S64);
    let rows = inner(cx, t, of("Transpose", 13), &[columns], DataType::S64);
    from_s64(cx, rows, t)
}

/// REVERSE_SEQUENCE.
pub(crate) fn reverse_sequence(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, lengths, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let axis = |i: u16, name: &'static str| op.options.map_or(Ok(0), |o| o.i32(Field(i, name), 0));
    let (time, batch) = (axis(0, "seq_dim")?, axis(1, "batch_dim")?);
    if !matches!((time, batch), (0, 1) | (1, 0)) {
        return Refusal::unsupported(format!("seq_dim {time} and batch_dim {batch}; the first two axes are supported"));
    }
    let inputs = [cx.value(x, Layout::File)?, as_s64(cx, lengths, t)?];
    let mut node = cx.node("ReverseSequence", 10, t);
    node.attrs.set("time_axis", Attr::Int(time.into()));
    node.attrs.set("batch_axis", Attr::Int(batch.into()));
    node.inputs = inputs.into_iter().map(Some).collect();
    cx.push(node, &[t], Layout::File)
}

/// EMBEDDING_LOOKUP: rows of a table.
pub(crate) fn embedding_lookup(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (indices, x, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    if cx.params(x)?.is_some() && cx.params(t)?.is_none() {
        return Refusal::unsupported("a table of integers for floats; both of one kind are supported");
    }
    let inputs = [cx.value(x, Layout::File)?, cx.value(indices, Layout::File)?];
    last(cx, t, with("Gather", 13, "axis", 0), &inputs)
}
