//! Operators that sample images, whose defaults and mode names changed.
use super::super::raw::{RawNode, Refusal};
use super::{BASE_OPSET, Cx};
use ottava_hal::{Attr, Tensor};

fn set(node: &mut RawNode, name: &str, value: &str) {
    node.attrs.set(name, Attr::Str(value.to_owned()));
}

/// Upsample (7: `scales` attribute, 9: input) is Resize with asymmetric coordinates, rounded down.
pub(super) fn upsample(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    let mut scales = node.inputs.get(1).cloned().flatten();
    if let Some(values) = node.attrs.floats_opt("scales")? {
        let data = Tensor::from_slice(&[values.len()], values)?;
        scales = cx.constant(&node, "scales", data);
        node.attrs.0.remove("scales");
    }
    node.op = "Resize".to_owned();
    old_resize(cx, node, scales, "floor")
}

/// Resize: 10 has asymmetric coordinates; 11 added the other modes; regions, scales and sizes that are empty
/// tensors count as absent.
pub(super) fn resize(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.version < 11 {
        let scales = node.inputs.get(1).cloned().flatten();
        let shrinks = match cx.input_constant(&node, 1).map(Tensor::to_f32s).transpose()? {
            Some(values) => values.iter().any(|&s| s < 1.0),
            None => false,
        };
        return old_resize(cx, node, scales, if shrinks { "ceil" } else { "floor" });
    }
    for i in 1..node.inputs.len() {
        if cx.input_constant(&node, i).is_some_and(|data| data.elements() == 0) {
            node.set_input(i, None);
        }
    }
    if node.attrs.str("coordinate_transformation_mode", "half_pixel")? != "tf_crop_and_resize" && node.inputs.len() > 1
    {
        node.set_input(1, None);
    }
    cx.emit(node, BASE_OPSET)
}

fn old_resize(cx: &mut Cx, mut node: RawNode, scales: Option<String>, rounding: &str) -> Result<(), Refusal> {
    let mode = match node.attrs.str("mode", "nearest")? {
        "nearest" => "nearest",
        "linear" | "bilinear" => "linear",
        other => return Refusal::unsupported(format!("mode `{other}` is not known")),
    };
    node.inputs.truncate(1);
    node.set_input(2, scales);
    set(&mut node, "mode", mode);
    set(&mut node, "coordinate_transformation_mode", "asymmetric");
    set(&mut node, "nearest_mode", rounding);
    cx.emit(node, BASE_OPSET)
}

/// GridSample: modes have the names of Resize since 20.
pub(super) fn grid_sample(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.version < 20 {
        let mode = match node.attrs.str("mode", "bilinear")? {
            "bilinear" => "linear",
            "bicubic" => "cubic",
            other => other,
        };
        let mode = mode.to_owned();
        set(&mut node, "mode", &mode);
    }
    cx.emit(node, 20)
}

/// RoiAlign: before 16 coordinates are not shifted by half a pixel.
pub(super) fn roi_align(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.version < 16 {
        set(&mut node, "coordinate_transformation_mode", "output_half_pixel");
    }
    cx.emit(node, 16)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Sample;
    use super::*;

    fn floats(values: &[f32]) -> Tensor {
        Tensor::from_slice(&[values.len()], values).expect("a list")
    }

    #[test]
    fn upsample_is_resize_with_asymmetric_coordinates() {
        let node = Sample::new("Upsample", 7).inputs("x").outputs("y").attr("scales", Attr::Floats(vec![1.0, 2.0]));
        node.text("mode", "linear").gives(&[
            "Resize@13 x - n/scales -> y coordinate_transformation_mode=asymmetric mode=linear nearest_mode=floor",
            "n/scales = f32[2] [1.0, 2.0]",
        ]);
        Sample::new("Upsample", 9)
            .inputs("x s")
            .outputs("y")
            .gives(&["Resize@13 x - s -> y coordinate_transformation_mode=asymmetric mode=nearest nearest_mode=floor"]);
    }

    #[test]
    fn resize_10_rounds_up_where_it_shrinks() {
        let node = Sample::new("Resize", 10).constant("s", floats(&[1.0, 0.5])).inputs("x s").outputs("y");
        node.gives(&["Resize@13 x - s -> y coordinate_transformation_mode=asymmetric mode=nearest nearest_mode=ceil"]);
    }

    #[test]
    fn empty_operands_of_resize_are_absent() {
        let node = || Sample::new("Resize", 11).constant("e", floats(&[])).inputs("x e e sizes").outputs("y");
        node().gives(&["Resize@13 x - - sizes -> y"]);
        let crop = Sample::new("Resize", 13).inputs("x roi s").outputs("y");
        crop.text("coordinate_transformation_mode", "tf_crop_and_resize")
            .gives(&["Resize@13 x roi s -> y coordinate_transformation_mode=tf_crop_and_resize"]);
        Sample::new("Resize", 13).inputs("x roi s").outputs("y").gives(&["Resize@13 x - s -> y"]);
    }
}
