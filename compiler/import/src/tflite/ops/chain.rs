//! Nodes one behind the other: what operators that become several nodes are written with. Types between them are inferred
//! when the graph is whole.

use super::super::cx::{Built, Cx, Layout};
use super::quantize::{INT32, INT64};
use ottava_graph::Attr;
use ottava_hal::{DataType, TensorType, ValueId};

/// What a node computes: an operator at a version, and an attribute.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub op: &'a str,
    pub version: u32,
    pub attr: Option<(&'a str, i64)>,
}

/// A step without attributes.
pub(crate) fn of(op: &str, version: u32) -> Step<'_> {
    Step { op, version, attr: None }
}

/// A step with one attribute.
pub(crate) fn with<'a>(op: &'a str, version: u32, name: &'a str, value: i64) -> Step<'a> {
    Step { op, version, attr: Some((name, value)) }
}

/// Adds a node whose result of type `to` stays between the nodes of the operator of tensor `t`.
pub(crate) fn inner(cx: &mut Cx<'_>, t: usize, step: Step<'_>, inputs: &[ValueId], to: DataType) -> ValueId {
    let mut node = cx.node(step.op, step.version, t);
    node.inputs = inputs.iter().copied().map(Some).collect();
    if let Some((name, value)) = step.attr {
        node.attrs.set(name, Attr::Int(value));
    }
    cx.push_inner(node, t, &step.op.to_lowercase(), TensorType::unranked(to))
}

/// Adds the node that computes tensor `t`, in the layout of the file.
pub(crate) fn last(cx: &mut Cx<'_>, t: usize, step: Step<'_>, inputs: &[ValueId]) -> Built {
    let mut node = cx.node(step.op, step.version, t);
    node.inputs = inputs.iter().copied().map(Some).collect();
    if let Some((name, value)) = step.attr {
        node.attrs.set(name, Attr::Int(value));
    }
    cx.push(node, &[t], Layout::File)
}

/// Tensor `x` as s64, as ONNX wants indices and extents.
pub(crate) fn as_s64(cx: &mut Cx<'_>, x: usize, t: usize) -> Built<ValueId> {
    let id = cx.value(x, Layout::File)?;
    match cx.ty(x, Layout::File)?.dtype {
        DataType::S64 => Ok(id),
        _ => Ok(inner(cx, t, with("Cast", 13, "to", INT64), &[id], DataType::S64)),
    }
}

/// An s64 value as tensor `t`, which may be s32.
pub(crate) fn from_s64(cx: &mut Cx<'_>, id: ValueId, t: usize) -> Built {
    match cx.ty(t, Layout::File)?.dtype {
        DataType::S64 => last(cx, t, of("Identity", 13), &[id]),
        _ => last(cx, t, with("Cast", 13, "to", INT32), &[id]),
    }
}
