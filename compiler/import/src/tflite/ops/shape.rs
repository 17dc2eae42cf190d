//! Operators that change the shape or the order of axes: RESHAPE, SQUEEZE, EXPAND_DIMS, TRANSPOSE, SHAPE, PACK, UNPACK,
//! and the exchange of channels and pixels.

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::Field;
use super::super::schema::Operator;
use super::product::options;
use super::quantize::{INT32, INT64, requantized};
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::{DataType, Dim, TensorType, ValueId};

/// An axis of the file, counted from the front.
pub(crate) fn normal_axis(axis: i64, rank: usize) -> Built<usize> {
    let n = i64::try_from(rank).unwrap_or(i64::MAX);
    let found = usize::try_from(if axis < 0 { axis.saturating_add(n) } else { axis }).ok().filter(|a| *a < rank);
    found.ok_or_else(|| Refusal::Invalid(format!("axis {axis} does not exist; there are {rank}")))
}

/// Where an axis of the file lies in a layout.
pub(crate) fn axis_in(layout: Layout, axis: usize, rank: usize) -> i64 {
    match (layout, rank) {
        (Layout::Image, 4) => [0, 2, 3, 1].get(axis).copied().unwrap_or(0),
        _ => axis as i64,
    }
}

/// A value whose bytes are in the order of the file. An image of one channel or one pixel is as it stands.
fn in_file_order(cx: &mut Cx<'_>, x: usize) -> Built<ValueId> {
    let same = matches!(cx.extents(x)?[..], [_, h, w, c] if c == 1 || (h == 1 && w == 1));
    let layout = if same { cx.layout_of(x) } else { Layout::File };
    cx.value(x, layout)
}

/// RESHAPE; the shape is the second input or, in old files, an option.
pub(crate) fn reshape(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let shape = match cx.optional(op, 1)? {
        Some(s) if cx.is_constant(s) => Some(cx.ints(s)?),
        Some(s) => {
            let shape = as_s64(cx, s, t)?;
            return reshape_to(cx, x, shape, t);
        }
        None => op
            .options
            .map(|o| o.i32s(Field(0, "new_shape")))
            .transpose()?
            .map(|v| v.into_iter().map(i64::from).collect()),
    };
    let declared = || cx.extents(t).map(|d| d.iter().map(|n| *n as i64).collect::<Vec<_>>());
    let shape = shape.map_or_else(declared, Ok)?;
    let shape = cx.add_ints(t, "shape", &shape)?;
    reshape_to(cx, x, shape, t)
}

fn reshape_to(cx: &mut Cx<'_>, x: usize, shape: ValueId, t: usize) -> Built {
    let id = in_file_order(cx, x)?;
    let mut node = cx.node("Reshape", 21, t);
    // TFLite has no "as the input" for 0: an extent of 0 is one of 0.
    node.attrs.set("allowzero", Attr::Int(1));
    node.inputs = vec![Some(id), Some(shape)];
    cx.push(node, &[t], Layout::File)
}

/// A computed shape as ONNX wants it.
fn as_s64(cx: &mut Cx<'_>, s: usize, t: usize) -> Built<ValueId> {
    let (id, ty) = (cx.value(s, Layout::File)?, cx.ty(s, Layout::File)?);
    if ty.dtype == DataType::S64 {
        return Ok(id);
    }
    let mut node = cx.node("Cast", 13, t);
    node.attrs.set("to", Attr::Int(INT64));
    node.inputs = vec![Some(id)];
    Ok(cx.push_inner(node, t, "shape", TensorType { dtype: DataType::S64, ..ty }))
}

/// SHAPE.
pub(crate) fn shape(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let mut node = cx.node("Shape", 15, t);
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

/// SQUEEZE of the axes named, or of all of extent 1.
pub(crate) fn squeeze(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let named = op.options.map_or(Ok(vec![]), |o| o.i32s(Field(0, "squeeze_dims")))?;
    let def = cx.def(x);
    let rank = def.shape.len();
    let is_open = |i: usize| def.signature.len() == rank && def.signature[i] < 0;
    let axes: Vec<i64> = match named.is_empty() {
        true => (0..rank).filter(|i| def.shape[*i] == 1 && !is_open(*i)).map(|i| i as i64).collect(),
        false => named.into_iter().map(|a| normal_axis(a.into(), rank).map(|a| a as i64)).collect::<Built<_>>()?,
    };
    let axes = cx.add_ints(t, "axes", &axes)?;
    let mut node = cx.node("Squeeze", 13, t);
    node.inputs = vec![Some(cx.value(x, Layout::File)?), Some(axes)];
    cx.push(node, &[t], Layout::File)
}

/// EXPAND_DIMS.
pub(crate) fn expand_dims(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, axis, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let axes = cx.ints(axis)?;
    let axes = cx.add_ints(t, "axes", &axes)?;
    let mut node = cx.node("Unsqueeze", 13, t);
    node.inputs = vec![Some(cx.value(x, Layout::File)?), Some(axes)];
    cx.push(node, &[t], Layout::File)
}

/// TRANSPOSE by a constant permutation.
pub(crate) fn transpose(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, perm, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let (layout, rank) = (cx.layout_of(x), cx.def(x).shape.len());
    let perm = cx.ints(perm)?.into_iter().map(|a| normal_axis(a, rank)).collect::<Built<Vec<_>>>()?;
    // An image is read where it stands: its Transpose and this one are one.
    let perm: Vec<i64> = perm.into_iter().map(|a| axis_in(layout, a, rank)).collect();
    let mut node = cx.node("Transpose", 13, t);
    node.attrs.set("perm", Attr::Ints(perm));
    node.inputs = vec![Some(cx.value(x, layout)?)];
    cx.push(node, &[t], Layout::File)
}

/// PACK: operands become slices along a new axis.
pub(crate) fn pack(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let t = cx.output(op, 0)?;
    let axis = normal_axis(options(op)?.i32(Field(1, "axis"), 0)?.into(), cx.def(t).shape.len())?;
    let mut concat = cx.node("Concat", 13, t);
    concat.attrs.set("axis", Attr::Int(axis as i64));
    for i in 0..op.inputs.len() {
        let x = cx.input(op, i)?;
        let id = requantized(cx, x, t, Layout::File)?;
        let mut ty = cx.graph.ty(id).clone();
        if axis > ty.shape.rank() {
            return Refusal::invalid(format!("axis {axis} is not one of the result of {ty}"));
        }
        ty.shape.0.insert(axis, Dim::Known(1));
        let axes = cx.add_ints(t, "axis", &[axis as i64])?;
        let mut node = cx.node("Unsqueeze", 13, t);
        node.inputs = vec![Some(id), Some(axes)];
        concat.inputs.push(Some(cx.push_inner(node, t, "slice", ty)));
    }
    cx.push(concat, &[t], Layout::File)
}

/// UNPACK: slices along an axis that disappears.
pub(crate) fn unpack(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, first) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let axis = normal_axis(options(op)?.i32(Field(1, "axis"), 0)?.into(), cx.def(x).shape.len())?;
    let mut split = cx.node("Split", 18, first);
    split.attrs.set("axis", Attr::Int(axis as i64));
    split.attrs.set("num_outputs", Attr::Int(op.outputs.len() as i64));
    split.inputs = vec![Some(cx.value(x, Layout::File)?)];
    let mut ty = cx.ty(x, Layout::File)?;
    ty.shape.0[axis] = Dim::Known(1);
    for _ in &op.outputs {
        split.outputs.push(cx.add_inner(first, "slice", ty.clone()));
    }
    let slices = split.outputs.clone();
    cx.graph.nodes.push(split);
    for (i, slice) in slices.into_iter().enumerate() {
        let t = cx.output(op, i)?;
        let axes = cx.add_ints(t, "axis", &[axis as i64])?;
        let mut node = cx.node("Squeeze", 13, t);
        node.inputs = vec![Some(slice), Some(axes)];
        cx.push(node, &[t], Layout::File)?;
    }
    Ok(())
}

/// DEPTH_TO_SPACE.
pub(crate) fn depth_to_space(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    blocks(cx, op, "DepthToSpace")
}

/// SPACE_TO_DEPTH.
pub(crate) fn space_to_depth(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    blocks(cx, op, "SpaceToDepth")
}

fn blocks(cx: &mut Cx<'_>, op: &Operator<'_>, name: &str) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let size = options(op)?.i32(Field(0, "block_size"), 0)?;
    if size < 1 {
        return Refusal::invalid(format!("block_size is {size}; it must be above 0"));
    }
    let mut node = cx.node(name, 13, t);
    node.attrs.set("blocksize", Attr::Int(size.into()));
    node.inputs = vec![Some(cx.value(x, Layout::Image)?)];
    cx.push(node, &[t], Layout::Image)
}

/// BROADCAST_TO.
pub(crate) fn broadcast_to(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    with_list(cx, op, "Expand")
}

/// TILE.
pub(crate) fn tile(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    with_list(cx, op, "Tile")
}

/// An operator whose second input is a constant list of integers.
fn with_list(cx: &mut Cx<'_>, op: &Operator<'_>, name: &str) -> Built {
    let (x, list, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let list = cx.ints(list)?;
    let list = cx.add_ints(t, "extents", &list)?;
    let mut node = cx.node(name, 13, t);
    node.inputs = vec![Some(cx.value(x, Layout::File)?), Some(list)];
    cx.push(node, &[t], Layout::File)
}
