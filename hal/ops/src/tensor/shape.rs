//! Shape and Size: extents as data.

use crate::elementwise::sample::{case, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, Attrs, DataType, Dim, Node, Result, Tensor, TensorType};
use std::ops::Range;

static SHAPE: OpSpec = OpSpec {
    name: "Shape",
    domain: "",
    since: 1,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("start", AttrKind::Int), AttrSpec::optional("end", AttrKind::Int)],
};
static SIZE: OpSpec = OpSpec { name: "Size", domain: "", since: 1, inputs: (1, 1), outputs: (1, 1), attrs: &[] };

/// The extents of a range of axes.
pub struct Shape;
/// The number of elements.
pub struct Size;

impl Op for Shape {
    fn spec(&self) -> &'static OpSpec {
        &SHAPE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        if cx.input(0)?.ty.is_unranked() {
            return Ok(vec![cx.open(DataType::S64, Some(1))?]);
        }
        let axes = axes(cx.attrs(), cx.shape(0)?.len())?;
        Ok(vec![cx.ty(DataType::S64, vec![Dim::Known(axes.len())])])
    }

    fn infers_from_unranked(&self) -> bool {
        true
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let shape = cx.input(0)?.shape();
        let extents: Vec<i64> = shape[axes(cx.attrs(), shape.len())?].iter().map(|&n| n as i64).collect();
        Ok(vec![Tensor::from_slice(&[extents.len()], &extents)?])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("shape", "Shape", 21);
        let x = f32s(&[1, 3, 2], &[0.0; 6]);
        let all = case("all", node.clone(), std::slice::from_ref(&x), &[ints(DataType::S64, &[3], &[1, 3, 2])]);
        node.attrs = Attrs::default().with("start", Attr::Int(-2)).with("end", Attr::Int(9));
        vec![all, case("range", node, &[x], &[ints(DataType::S64, &[2], &[3, 2])])]
    }
}

/// The axes from `start` to `end`, both clamped and possibly negative.
fn axes(attrs: &Attrs, rank: usize) -> Result<Range<usize>> {
    let place = |v: i64| {
        let from_start = if v < 0 { v.saturating_add(rank as i64) } else { v };
        from_start.clamp(0, rank as i64) as usize
    };
    let start = place(attrs.int("start", 0)?);
    let end = attrs.int_opt("end")?.map_or(rank, place);
    Ok(start..end.max(start))
}

impl Op for Size {
    fn spec(&self) -> &'static OpSpec {
        &SIZE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        cx.input(0)?;
        Ok(vec![cx.ty(DataType::S64, vec![])])
    }

    fn infers_from_unranked(&self) -> bool {
        true
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        Ok(vec![Tensor::scalar(cx.input(0)?.elements() as i64)])
    }

    fn cases(&self) -> Vec<Case> {
        let x = f32s(&[3, 2], &[0.0; 6]);
        vec![case("six", Node::new("size", "Size", 21), &[x], &[ints(DataType::S64, &[], &[6])])]
    }
}
