//! AVERAGE_POOL_2D, MAX_POOL_2D, and resizing of images.

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::Field;
use super::super::schema::Operator;
use super::activation::{Activation, push_activated};
use super::product::{options, pair, set_padding};
use super::quantize::requantized;
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;

/// AVERAGE_POOL_2D.
pub(crate) fn average_pool_2d(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    pool(cx, op, "AveragePool")
}

/// MAX_POOL_2D.
pub(crate) fn max_pool_2d(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    pool(cx, op, "MaxPool")
}

fn pool(cx: &mut Cx<'_>, op: &Operator<'_>, name: &str) -> Built {
    let (x, t, options) = (cx.input(op, 0)?, cx.output(op, 0)?, options(op)?);
    let mut node = cx.node(name, 22, t);
    set_padding(&mut node, &options)?;
    let strides = pair(&options, Field(2, "stride_h"), Field(1, "stride_w"), 0)?;
    let window = pair(&options, Field(4, "filter_height"), Field(3, "filter_width"), 0)?;
    node.attrs.set("strides", Attr::Ints(strides));
    node.attrs.set("kernel_shape", Attr::Ints(window));
    node.inputs = vec![Some(requantized(cx, x, t, Layout::Image)?)];
    if cx.per_tensor(t)?.is_some() && name == "AveragePool" {
        node.requant = Some(cx.mode);
    }
    push_activated(cx, node, Activation::fused(op, 5)?, t, Layout::Image)
}

/// RESIZE_BILINEAR.
pub(crate) fn resize_bilinear(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let options = options(op)?;
    let corners = options.bool(Field(2, "align_corners"))?;
    let half = options.bool(Field(3, "half_pixel_centers"))?;
    resize(cx, op, "linear", coordinates(corners, half), "floor")
}

/// RESIZE_NEAREST_NEIGHBOR.
pub(crate) fn resize_nearest(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let options = options(op)?;
    let corners = options.bool(Field(0, "align_corners"))?;
    let half = options.bool(Field(1, "half_pixel_centers"))?;
    let rounding = if corners || half { "round_prefer_ceil" } else { "floor" };
    resize(cx, op, "nearest", coordinates(corners, half), rounding)
}

/// ONNX's name of the way from a pixel of the result to one of the image.
fn coordinates(align_corners: bool, half_pixel: bool) -> &'static str {
    match (align_corners, half_pixel) {
        (true, _) => "align_corners",
        (false, true) => "half_pixel",
        (false, false) => "asymmetric",
    }
}

fn resize(cx: &mut Cx<'_>, op: &Operator<'_>, mode: &str, coordinates: &str, rounding: &str) -> Built {
    let (x, size, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let size = cx.ints(size)?;
    if size.len() != 2 || cx.def(x).shape.len() != 4 {
        return Refusal::invalid(format!(
            "{} sizes for {:?}; two for an image are expected",
            size.len(),
            cx.def(x).shape
        ));
    }
    let sizes = cx.add_ints(t, "size", &size)?;
    let mut node = cx.node("Resize", 19, t);
    node.attrs.set("mode", Attr::Str(mode.into()));
    node.attrs.set("coordinate_transformation_mode", Attr::Str(coordinates.into()));
    node.attrs.set("nearest_mode", Attr::Str(rounding.into()));
    node.attrs.set("axes", Attr::Ints(vec![2, 3]));
    // The reference kernel has an integer form for signed values; of uint8 it computes in f32.
    let signed = cx.ty(t, Layout::File)?.dtype.storage_range().is_some_and(|(lo, _)| lo < 0);
    if mode == "linear" && signed && cx.per_tensor(t)?.is_some() {
        node.requant = cx.q31();
    }
    node.inputs = vec![Some(cx.value(x, Layout::Image)?), None, None, Some(sizes)];
    cx.push(node, &[t], Layout::Image)
}
