//! Resampling, nearest and linear.

use super::Form;
use crate::groups::numerics::build::{Build, Sample};
use crate::groups::numerics::draw::Draw;
use ottava_hal::Attr;

/// A change of size of a form.
pub(super) fn make(form: &Form, draw: &mut Draw) -> Option<Sample> {
    let dims = [draw.pick(&[1usize, 3]), draw.extent(0, 1, 9), draw.extent(0, 2, 9), draw.extent(0, 3, 9)];
    let mut build = Build::new(form.op);
    let mut node = form.node();
    let params = draw.params(form.dtype);
    let data = draw.data(form.dtype, &dims, params.as_ref())?;
    let x = build.input(data, params.clone());
    let mode = draw.pick(&["nearest", "linear"]);
    let transform = draw.pick(&["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]);
    node.attrs.set("mode", Attr::Str(mode.into()));
    node.attrs.set("coordinate_transformation_mode", Attr::Str(transform.into()));
    if mode == "nearest" {
        let nearest = draw.pick(&["floor", "round_prefer_floor"]);
        node.attrs.set("nearest_mode", Attr::Str(nearest.into()));
    }
    let target = |d: usize, draw: &mut Draw| if draw.once_in(2) { d * 2 } else { draw.size(1, 12) };
    let sizes = [dims[0], dims[1], target(dims[2], draw), target(dims[3], draw)].map(|d| d as i64);
    let sizes = build.ints(&sizes)?;
    let inputs = [Some(x), None, None, Some(sizes)];
    let about = format!("{dims:?} to {:?}, {mode}, {transform}", build.data(sizes).to_ints().ok()?);
    let y = build.node(node, &inputs, &[(form.dtype, params)])?;
    build.finish(&y, about)
}
