//! MEAN, SUM and the other reductions over constant axes; ARG_MAX and ARG_MIN.

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::Field;
use super::super::schema::Operator;
use super::quantize::INT32;
use super::shape::{axis_in, normal_axis};
use ottava_graph::Attr;
use ottava_hal::{DataType, TensorType};

/// MEAN.
pub(crate) fn mean(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    reduce(cx, op, "ReduceMean", true)
}

/// SUM.
pub(crate) fn sum(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    reduce(cx, op, "ReduceSum", true)
}

/// REDUCE_MAX.
pub(crate) fn max(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    reduce(cx, op, "ReduceMax", false)
}

/// REDUCE_MIN.
pub(crate) fn min(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    reduce(cx, op, "ReduceMin", false)
}

/// REDUCE_PROD.
pub(crate) fn prod(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    reduce(cx, op, "ReduceProd", false)
}

fn reduce(cx: &mut Cx<'_>, op: &Operator<'_>, name: &str, rescales: bool) -> Built {
    let (x, axes, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let keep = op.options.map_or(Ok(false), |o| o.bool(Field(0, "keep_dims")))?;
    let rank = cx.def(x).shape.len();
    let axes = cx.ints(axes)?.into_iter().map(|a| normal_axis(a, rank)).collect::<Built<Vec<usize>>>()?;
    // Without the pixels' axes an image's order is that of the file.
    let spatial = axes.contains(&1) && axes.contains(&2);
    let layout = if keep || spatial { cx.layout_of(x) } else { Layout::File };
    let mut axes: Vec<i64> = axes.into_iter().map(|a| axis_in(layout, a, rank)).collect();
    axes.sort_unstable();
    axes.dedup();
    let axes = cx.add_ints(t, "axes", &axes)?;
    let mut node = cx.node(name, 18, t);
    node.attrs.set("keepdims", Attr::Int(keep.into()));
    node.inputs = vec![Some(cx.value(x, layout)?), Some(axes)];
    node.requant = if rescales && cx.per_tensor(t)?.is_some() { Some(cx.mode) } else { None };
    cx.push(node, &[t], layout)
}

/// ARG_MAX.
pub(crate) fn arg_max(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    arg(cx, op, "ArgMax")
}

/// ARG_MIN.
pub(crate) fn arg_min(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    arg(cx, op, "ArgMin")
}

fn arg(cx: &mut Cx<'_>, op: &Operator<'_>, name: &str) -> Built {
    let (x, axis, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let axis = cx.ints(axis)?.first().copied().unwrap_or(-1);
    let mut node = cx.node(name, 13, t);
    node.attrs.set("axis", Attr::Int(axis));
    node.attrs.set("keepdims", Attr::Int(0));
    node.inputs = vec![Some(cx.value(x, Layout::File)?)];
    let ty = cx.ty(t, Layout::File)?;
    if ty.dtype == DataType::S64 {
        return cx.push(node, &[t], Layout::File);
    }
    let wide = cx.push_inner(node, t, "wide", TensorType { dtype: DataType::S64, ..ty });
    let mut cast = cx.node("Cast", 13, t);
    cast.attrs.set("to", Attr::Int(INT32));
    cast.inputs = vec![Some(wide)];
    cx.push(cast, &[t], Layout::File)
}
