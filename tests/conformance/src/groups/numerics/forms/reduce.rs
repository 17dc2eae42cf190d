//! Reductions over one or several axes.

use super::Form;
use crate::groups::numerics::build::{Build, Sample};
use crate::groups::numerics::draw::Draw;
use ottava_hal::Attr;

/// A reduction of a form.
pub(super) fn make(form: &Form, draw: &mut Draw) -> Option<Sample> {
    let dims = draw.dims(1, 5, 4000);
    let mut build = Build::new(form.op);
    let mut node = form.node();
    let params = draw.params(form.dtype);
    let data = draw.data(form.dtype, &dims, params.as_ref())?;
    let x = build.input(data, params.clone());
    let first = draw.size(0, dims.len() - 1);
    let last = draw.size(first, dims.len() - 1);
    let axes: Vec<i64> = (first..=last).map(|a| a as i64).collect();
    let list = build.ints(&axes)?;
    node.attrs.set("keepdims", Attr::Int(i64::from(draw.once_in(2))));
    let moves = form.op.ends_with("Max") || form.op.ends_with("Min");
    let like = if moves { (form.dtype, params) } else { draw.fit(&build, &node, &[x, list], form.dtype)? };
    let about = format!("input {dims:?} over axes {axes:?}");
    let y = build.one(node, &[x, list], like)?;
    build.finish(&[y], about)
}
