//! Operators whose attributes became inputs, or lost their meaning.
use super::super::raw::{RawNode, Refusal};
use super::{BASE_OPSET, Cx};
use ottava_hal::{Attr, Tensor};

/// Moves a list of integers from attribute `name` to input `i`.
fn ints_to_input(cx: &mut Cx, node: &mut RawNode, name: &str, i: usize) -> Result<bool, Refusal> {
    let Some(values) = node.attrs.ints_opt(name)?.map(<[i64]>::to_vec) else { return Ok(false) };
    let input = cx.ints(node, name, &values)?;
    node.set_input(i, input);
    node.attrs.0.remove(name);
    Ok(true)
}

/// Squeeze, Unsqueeze: `axes` is an input since 13.
pub(super) fn axes(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.version < 13 {
        ints_to_input(cx, &mut node, "axes", 1)?;
    }
    cx.emit(node, BASE_OPSET)
}

/// ReduceMean and its kin: `axes` is an input since 18.
pub(super) fn reduce(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    reduce_since(cx, node, 18)
}

/// ReduceSum: `axes` is an input since 13.
pub(super) fn reduce_sum(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    reduce_since(cx, node, 13)
}

fn reduce_since(cx: &mut Cx, mut node: RawNode, since: u32) -> Result<(), Refusal> {
    if node.version < since {
        ints_to_input(cx, &mut node, "axes", 1)?;
    }
    let newest = node.input(1).is_some() || node.attrs.get("noop_with_empty_axes").is_some();
    cx.emit(node, if newest { since } else { BASE_OPSET })
}

/// Slice: `starts`, `ends`, `axes` are inputs since 10.
pub(super) fn slice(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.version < 10 {
        for (i, name) in [(1, "starts"), (2, "ends"), (3, "axes")] {
            ints_to_input(cx, &mut node, name, i)?;
        }
    }
    cx.emit(node, BASE_OPSET)
}

/// Pad: `pads` and `value` are inputs since 11; input `axes` came with 18, mode `wrap` with 19.
pub(super) fn pad(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.version < 11 {
        ints_to_input(cx, &mut node, "pads", 1)?;
        if let Some(value) = node.attrs.float_opt("value")? {
            let value = cx.float(&node, "value", 0, value)?;
            node.set_input(2, value);
            node.attrs.0.remove("value");
        }
    }
    let form = match node.attrs.str("mode", "constant")? {
        "wrap" => 19,
        _ if node.input(3).is_some() => 18,
        _ => BASE_OPSET,
    };
    cx.emit(node, form)
}

/// Clip: `min` and `max` are inputs since 11.
pub(super) fn clip(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.version < 11 {
        for (i, name) in [(1, "min"), (2, "max")] {
            let Some(bound) = node.attrs.float_opt(name)? else { continue };
            let bound = cx.float(&node, name, 0, bound)?;
            node.set_input(i, bound);
            node.attrs.0.remove(name);
        }
    }
    cx.emit(node, BASE_OPSET)
}

/// TopK: `k` is an input since 10.
pub(super) fn top_k(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.version < 10 {
        let Some(k) = node.attrs.int_opt("k")? else { return Refusal::invalid("attribute `k` is missing") };
        let k = cx.ints(&node, "k", &[k])?;
        node.set_input(1, k);
        node.attrs.0.remove("k");
    }
    cx.emit(node, BASE_OPSET)
}

/// Split: `split` is an input since 13; without it the number of parts is an attribute since 18.
pub(super) fn split(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.version < 13 {
        ints_to_input(cx, &mut node, "split", 1)?;
    }
    let equal = node.input(1).is_none();
    if equal && node.version < 18 {
        let parts = i64::try_from(node.outputs.len()).unwrap_or(i64::MAX);
        node.attrs.set("num_outputs", Attr::Int(parts));
    }
    cx.emit(node, if equal { 18 } else { BASE_OPSET })
}

/// DFT: `axis` is an input since 20, and was 1 by default before.
pub(super) fn dft(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.version < 20 {
        let axis = Tensor::scalar(node.attrs.int("axis", 1)?);
        let axis = cx.constant(&node, "axis", axis);
        node.set_input(2, axis);
        node.attrs.0.remove("axis");
    }
    cx.emit(node, 20)
}

/// Scatter is ScatterElements since 11.
pub(super) fn scatter(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    node.op = "ScatterElements".to_owned();
    cx.emit(node, BASE_OPSET)
}

/// Cast, CastLike: `saturate` and `round_mode` speak of 8-bit floats only, which no value here has.
pub(super) fn cast(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    node.attrs.0.remove("saturate");
    node.attrs.0.remove("round_mode");
    cx.emit(node, BASE_OPSET)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Sample;
    use super::*;

    fn ints(values: &[i64]) -> Attr {
        Attr::Ints(values.to_vec())
    }

    #[test]
    fn axes_become_an_input() {
        let old = |op, version| Sample::new(op, version).inputs("x").outputs("y").attr("axes", ints(&[0, -1]));
        old("Squeeze", 11).gives(&["Squeeze@13 x n/axes -> y", "n/axes = s64[2] [0, -1]"]);
        old("Unsqueeze", 7).gives(&["Unsqueeze@13 x n/axes -> y", "n/axes = s64[2] [0, -1]"]);
        old("ReduceMean", 13).gives(&["ReduceMean@18 x n/axes -> y", "n/axes = s64[2] [0, -1]"]);
        old("ReduceSum", 11).gives(&["ReduceSum@13 x n/axes -> y", "n/axes = s64[2] [0, -1]"]);
        Sample::new("ReduceMax", 11).inputs("x").outputs("y").gives(&["ReduceMax@13 x -> y"]);
        Sample::new("Squeeze", 13).inputs("x a").outputs("y").gives(&["Squeeze@13 x a -> y"]);
    }

    #[test]
    fn an_attribute_of_an_older_form_is_refused_in_a_newer_set() {
        let node = Sample::new("Squeeze", 13).inputs("x").outputs("y").attr("axes", ints(&[0]));
        node.refused_for("Squeeze (operator set 13): attribute `axes` is not known");
    }

    #[test]
    fn slices_and_pads_become_inputs() {
        let slice =
            Sample::new("Slice", 7).inputs("x").outputs("y").attr("starts", ints(&[1])).attr("ends", ints(&[9]));
        slice.gives(&["Slice@13 x n/starts n/ends -> y", "n/starts = s64[1] [1]", "n/ends = s64[1] [9]"]);
        let pad = Sample::new("Pad", 7).inputs("x").outputs("y").attr("pads", ints(&[0, 1]));
        let pad = pad.attr("value", Attr::Float(2.0)).text("mode", "constant");
        pad.gives(&["Pad@13 x n/pads n/value -> y mode=constant", "n/pads = s64[2] [0, 1]", "n/value = f32[] [2.0]"]);
        Sample::new("Pad", 19).inputs("x p").outputs("y").text("mode", "wrap").gives(&["Pad@19 x p -> y mode=wrap"]);
    }

    #[test]
    fn clip_bounds_have_the_type_of_the_data() {
        let half = Tensor::from_f32s(ottava_hal::DataType::F16, &[], &[1.0]).expect("a scalar");
        let clip = Sample::new("Clip", 7).constant("x", half).inputs("x").outputs("y").attr("max", Attr::Float(6.0));
        clip.gives(&["Clip@13 x - n/max -> y", "n/max = f16[] [6.0]"]);
    }

    #[test]
    fn counts_become_inputs_or_attributes() {
        let top = Sample::new("TopK", 7).inputs("x").outputs("v i").attr("k", Attr::Int(3));
        top.gives(&["TopK@13 x n/k -> v i", "n/k = s64[1] [3]"]);
        Sample::new("TopK", 7).inputs("x").outputs("v i").refused_for("attribute `k` is missing");
        let split = |version| Sample::new("Split", version).inputs("x").outputs("a b c").attr("axis", Attr::Int(1));
        split(13).gives(&["Split@18 x -> a b c axis=1 num_outputs=3"]);
        let sizes = split(11).attr("split", ints(&[1, 2, 3]));
        sizes.gives(&["Split@13 x n/split -> a b c axis=1", "n/split = s64[3] [1, 2, 3]"]);
    }

    #[test]
    fn a_wrong_kind_refused_for() {
        let node = Sample::new("Squeeze", 11).inputs("x").outputs("y").attr("axes", Attr::Float(0.0));
        node.refused_for("attribute `axes` is of kind float");
        let node = Sample::new("Concat", 13).inputs("x").outputs("y").text("axis", "0");
        node.refused_for("attribute `axis` is of kind string");
        Sample::new("Concat", 13).inputs("x").outputs("y").refused_for("attribute `axis` is missing");
        Sample::new("Relu", 13).inputs("x z").outputs("y").refused_for("2 inputs; expected 1 to 1");
        Sample::new("Gelu", 13).inputs("x").outputs("y").refused_for("came with operator set 20");
    }

    #[test]
    fn float8_leftovers_are_dropped() {
        let cast = Sample::new("Cast", 19).inputs("x").outputs("y").attr("to", Attr::Int(1));
        cast.attr("saturate", Attr::Int(1)).gives(&["Cast@13 x -> y to=1"]);
    }
}
