//! QuantizeLinear and DequantizeLinear, standard and of ONNX Runtime, with parameters as numerics.md section 1 wants them.
use super::super::raw::{RawNode, Refusal};
use super::{BASE_OPSET, Cx};
use ottava_hal::Tensor;

/// Both domains mean the same. `saturate` speaks of 8-bit floats only, `axis` means nothing before 13, and a scale
/// that is a list of one is a scalar.
pub(super) fn quantize_linear(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.domain.is_empty() && node.version < 13 {
        node.attrs.0.remove("axis");
    }
    node.domain.clear();
    node.attrs.0.remove("saturate");
    if let Some(scale) = cx.input_constant(&node, 1) {
        check_scale(scale)?;
    }
    if node.attrs.int("block_size", 0)? == 0
        && let Some(scale) = cx.scalar(&node, 1)?
    {
        node.set_input(1, Some(scale));
        if let Some(zero_point) = cx.scalar(&node, 2)? {
            node.set_input(2, Some(zero_point));
        }
        node.attrs.0.remove("axis");
    }
    cx.emit(node, BASE_OPSET)
}

/// A scale that is no finite positive number is the model's mistake, not an arithmetic case.
fn check_scale(scale: &Tensor) -> Result<(), Refusal> {
    if !scale.dtype().is_float() {
        return Refusal::invalid(format!("the scale is of type {}, expected a float type", scale.dtype()));
    }
    match scale.to_f32s()?.iter().enumerate().find(|(_, s)| !(s.is_finite() && **s > 0.0)) {
        Some((i, s)) => Refusal::invalid(format!("scale {i} is {s}; scales must be finite and greater than 0")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Sample;
    use super::*;
    use ottava_hal::Attr;

    fn floats(values: &[f32]) -> Tensor {
        Tensor::from_slice(&[values.len()], values).expect("a list")
    }

    #[test]
    fn leftovers_are_dropped_and_domains_are_one() {
        let node = Sample::new("QuantizeLinear", 10).inputs("x s z").outputs("y").attr("axis", Attr::Int(1));
        node.gives(&["QuantizeLinear@13 x s z -> y"]);
        let node = Sample::new("QuantizeLinear", 19).inputs("x s z").outputs("y").attr("saturate", Attr::Int(1));
        node.gives(&["QuantizeLinear@13 x s z -> y"]);
        let node =
            Sample::new("com.microsoft::DequantizeLinear", 1).inputs("x s").outputs("y").attr("axis", Attr::Int(0));
        node.gives(&["DequantizeLinear@13 x s -> y axis=0"]);
    }

    #[test]
    fn a_list_of_one_scale_is_a_scalar() {
        let zero = Tensor::from_slice(&[1], &[7u8]).expect("a list");
        let node = Sample::new("QuantizeLinear", 13).constant("s", floats(&[0.5])).constant("z", zero);
        node.inputs("x s z").outputs("y").attr("axis", Attr::Int(0)).gives(&[
            "QuantizeLinear@13 x s/scalar z/scalar -> y",
            "s/scalar = f32[] [0.5]",
            "z/scalar = u8[] [7]",
        ]);
        let node = Sample::new("DequantizeLinear", 13).constant("s", floats(&[0.5, 1.0])).inputs("x s").outputs("y");
        node.gives(&["DequantizeLinear@13 x s -> y"]);
    }

    #[test]
    fn impossible_scales_are_refused() {
        for (bad, text) in
            [(0.0, "scale 1 is 0"), (-1.0, "scale 1 is -1"), (f32::NAN, "scale 1 is NaN"), (f32::INFINITY, "inf")]
        {
            let node = Sample::new("QuantizeLinear", 13).constant("s", floats(&[0.5, bad])).inputs("x s").outputs("y");
            node.refused_for(text);
        }
        let node = Sample::new("QuantizeLinear", 13).constant("s", Tensor::scalar(1i32)).inputs("x s").outputs("y");
        node.refused_for("of type s32");
    }
}
