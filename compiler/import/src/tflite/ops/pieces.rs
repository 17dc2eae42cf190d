//! Pieces of tensors: CONCATENATION, SPLIT, SPLIT_V, SLICE, STRIDED_SLICE, PAD, PADV2, MIRROR_PAD, GATHER.
//!
//! Images stay in the order in which they are; only the number of an axis changes.

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::Field;
use super::super::schema::Operator;
use super::activation::{Activation, push_activated};
use super::arithmetic::common_layout;
use super::product::options;
use super::quantize::requantized;
use super::shape::{axis_in, normal_axis};
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::Dim;

/// CONCATENATION.
pub(crate) fn concatenation(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let t = cx.output(op, 0)?;
    let parts = (0..op.inputs.len()).map(|i| cx.input(op, i)).collect::<Built<Vec<_>>>()?;
    let Some(first) = parts.first() else { return Refusal::invalid("nothing is concatenated") };
    let rank = cx.def(*first).shape.len();
    let axis = normal_axis(options(op)?.i32(Field(0, "axis"), 0)?.into(), rank)?;
    let layout = common_layout(cx, &parts);
    let mut node = cx.node("Concat", 13, t);
    node.attrs.set("axis", Attr::Int(axis_in(layout, axis, rank)));
    for x in parts {
        node.inputs.push(Some(requantized(cx, x, t, layout)?));
    }
    push_activated(cx, node, Activation::fused(op, 1)?, t, layout)
}

/// SPLIT into equal parts; the axis is the first input.
pub(crate) fn split(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (axis, x) = (cx.input(op, 0)?, cx.input(op, 1)?);
    let axis = cx.ints(axis)?.first().copied().unwrap_or(0);
    parts(cx, op, x, axis, None)
}

/// SPLIT_V into parts of given sizes; one may be -1.
pub(crate) fn split_v(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, sizes, axis) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.input(op, 2)?);
    let (mut sizes, axis) = (cx.ints(sizes)?, cx.ints(axis)?.first().copied().unwrap_or(0));
    let dims = cx.extents(x)?;
    let whole = i64::try_from(dims[normal_axis(axis, dims.len())?]).unwrap_or(i64::MAX);
    let known = sizes.iter().filter(|s| **s >= 0).fold(0i64, |n, s| n.saturating_add(*s));
    if let Some(rest) = sizes.iter_mut().find(|s| **s == -1) {
        *rest = whole.saturating_sub(known);
    }
    if sizes.len() != op.outputs.len() || sizes.iter().any(|s| *s < 0) {
        return Refusal::invalid(format!("sizes {sizes:?} for {} outputs of {whole} elements", op.outputs.len()));
    }
    parts(cx, op, x, axis, Some(sizes))
}

fn parts(cx: &mut Cx<'_>, op: &Operator<'_>, x: usize, axis: i64, sizes: Option<Vec<i64>>) -> Built {
    let first = cx.output(op, 0)?;
    let (layout, rank) = (cx.layout_of(x), cx.def(x).shape.len());
    let axis = axis_in(layout, normal_axis(axis, rank)?, rank);
    let id = cx.value(x, layout)?;
    let mut node = cx.node("Split", 18, first);
    node.attrs.set("axis", Attr::Int(axis));
    node.inputs = vec![Some(id)];
    match sizes {
        Some(sizes) => node.inputs.push(Some(cx.add_ints(first, "sizes", &sizes)?)),
        None => node.attrs.set("num_outputs", Attr::Int(op.outputs.len() as i64)),
    }
    let outputs = (0..op.outputs.len()).map(|i| cx.output(op, i)).collect::<Built<Vec<_>>>()?;
    cx.push(node, &outputs, layout)
}

/// A slice of every axis: first element, the one behind the last, step.
struct Ranges {
    begin: Vec<i64>,
    end: Vec<i64>,
    step: Vec<i64>,
    /// Axes of the file that disappear.
    shrink: Vec<usize>,
}

/// SLICE.
pub(crate) fn slice(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, begin, size) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.input(op, 2)?);
    let (begin, size) = (cx.ints(begin)?, cx.ints(size)?);
    let rank = cx.def(x).shape.len();
    if begin.len() != rank || size.len() != rank {
        return Refusal::invalid(format!("{} begins and {} sizes for {rank} axes", begin.len(), size.len()));
    }
    let end = |(b, s): (&i64, &i64)| if *s < 0 { i64::MAX } else { b.saturating_add(*s) };
    let end = begin.iter().zip(&size).map(end).collect();
    sliced(cx, op, x, Ranges { begin, end, step: vec![1; rank], shrink: vec![] })
}

/// STRIDED_SLICE.
pub(crate) fn strided_slice(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let x = cx.input(op, 0)?;
    let ranges = ranges(cx, op, cx.def(x).shape.len())?;
    sliced(cx, op, x, ranges)
}

/// The slices that lists and masks of STRIDED_SLICE stand for.
fn ranges(cx: &Cx<'_>, op: &Operator<'_>, rank: usize) -> Built<Ranges> {
    let list = |i: usize| cx.ints(cx.input(op, i)?);
    let (begin, end, step, options) = (list(1)?, list(2)?, list(3)?, options(op)?);
    let mask = |i: u16, name: &'static str| options.i32(Field(i, name), 0);
    let (begin_mask, end_mask) = (mask(0, "begin_mask")?, mask(1, "end_mask")?);
    let (ellipsis, new_axis, shrink) =
        (mask(2, "ellipsis_mask")?, mask(3, "new_axis_mask")?, mask(4, "shrink_axis_mask")?);
    let is_set = |mask: i32, i: usize| i < 32 && mask >> i & 1 != 0;
    if new_axis != 0 || options.bool(Field(5, "offset"))? {
        return Refusal::unsupported(
            "new_axis_mask or offset is set; begin, end, ellipsis and shrink_axis masks are supported",
        );
    }
    let n = begin.len();
    let dense = n.saturating_sub(usize::from((0..n).any(|i| is_set(ellipsis, i))));
    if end.len() != n || step.len() != n || dense > rank || step.contains(&0) {
        return Refusal::invalid(format!("{n} begins, {} ends and steps {step:?} for {rank} axes", end.len()));
    }
    let mut out = Ranges { begin: vec![0; rank], end: vec![i64::MAX; rank], step: vec![1; rank], shrink: vec![] };
    let mut axis = 0;
    for i in 0..n {
        if is_set(ellipsis, i) {
            axis += rank - dense;
            continue;
        }
        let forward = step[i] > 0;
        (out.begin[axis], out.end[axis], out.step[axis]) = (begin[i], end[i], step[i]);
        if is_set(begin_mask, i) {
            out.begin[axis] = if forward { 0 } else { i64::MAX };
        }
        if is_set(end_mask, i) {
            out.end[axis] = if forward { i64::MAX } else { i64::MIN };
        }
        if is_set(shrink, i) {
            (out.step[axis], out.end[axis]) = (1, if begin[i] == -1 { i64::MAX } else { begin[i].saturating_add(1) });
            out.begin[axis] = begin[i];
            out.shrink.push(axis);
        }
        axis += 1;
    }
    Ok(out)
}

fn sliced(cx: &mut Cx<'_>, op: &Operator<'_>, x: usize, r: Ranges) -> Built {
    let t = cx.output(op, 0)?;
    let rank = cx.def(x).shape.len();
    let layout = if r.shrink.is_empty() { cx.layout_of(x) } else { Layout::File };
    let axes: Vec<i64> = (0..rank).map(|a| axis_in(layout, a, rank)).collect();
    let id = cx.value(x, layout)?;
    let mut node = cx.node("Slice", 13, t);
    node.inputs = vec![Some(id)];
    for (part, list) in [("begin", &r.begin), ("end", &r.end), ("axes", &axes), ("step", &r.step)] {
        node.inputs.push(Some(cx.add_ints(t, part, list)?));
    }
    if r.shrink.is_empty() {
        return cx.push(node, &[t], layout);
    }
    let mut ty = cx.ty(x, Layout::File)?;
    for (axis, dim) in ty.shape.0.iter_mut().enumerate() {
        *dim = Dim::Sym(format!("{}/slice:{axis}", cx.def(t).name).into());
    }
    let whole = cx.push_inner(node, t, "slice", ty);
    let axes: Vec<i64> = r.shrink.iter().map(|a| *a as i64).collect();
    let axes = cx.add_ints(t, "shrink", &axes)?;
    let mut node = cx.node("Squeeze", 13, t);
    node.inputs = vec![Some(whole), Some(axes)];
    cx.push(node, &[t], Layout::File)
}

/// PAD and PADV2: with the zero point, or with the third input.
pub(crate) fn pad(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    padded(cx, op, "constant")
}

/// MIRROR_PAD.
pub(crate) fn mirror_pad(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    match options(op)?.i8(Field(0, "mode"), 0)? {
        0 => padded(cx, op, "reflect"),
        _ => Refusal::unsupported("the mode SYMMETRIC; REFLECT is supported"),
    }
}

fn padded(cx: &mut Cx<'_>, op: &Operator<'_>, mode: &str) -> Built {
    let (x, pads, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let (rank, pads) = (cx.def(x).shape.len(), cx.ints(pads)?);
    if pads.len() != 2 * rank {
        return Refusal::invalid(format!("{} pads for {rank} axes; two for each are expected", pads.len()));
    }
    let layout = cx.layout_of(x);
    let id = requantized(cx, x, t, layout)?;
    let befores_then_afters: Vec<i64> =
        [0, 1].iter().flat_map(|side| (0..rank).map(|a| pads[2 * a + side]).collect::<Vec<_>>()).collect();
    let axes: Vec<i64> = (0..rank).map(|a| axis_in(layout, a, rank)).collect();
    let mut node = cx.node("Pad", 21, t);
    node.attrs.set("mode", Attr::Str(mode.into()));
    node.inputs = vec![Some(id), Some(cx.add_ints(t, "pads", &befores_then_afters)?)];
    node.inputs.push(match cx.optional(op, 2)? {
        Some(value) => Some(cx.value(value, Layout::File)?),
        None => None,
    });
    node.inputs.push(Some(cx.add_ints(t, "axes", &axes)?));
    cx.push(node, &[t], layout)
}

/// GATHER.
pub(crate) fn gather(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, indices, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let (axis, batch) = match &op.options {
        Some(o) => (o.i32(Field(0, "axis"), 0)?, o.i32(Field(1, "batch_dims"), 0)?),
        None => (0, 0),
    };
    if batch != 0 {
        return super::index::gather_batches(cx, op, axis, batch);
    }
    let mut node = cx.node("Gather", 13, t);
    node.attrs.set("axis", Attr::Int(axis.into()));
    node.inputs = vec![Some(cx.value(x, Layout::File)?), Some(cx.value(indices, Layout::File)?)];
    cx.push(node, &[t], Layout::File)
}
