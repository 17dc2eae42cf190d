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

/// QuantizeLinear, DequantizeLinear: `saturate` speaks of 8-bit floats only; `axis` means nothing before 13.
pub(super) fn quantize_linear(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    node.attrs.0.remove("saturate");
    if node.version < 13 {
        node.attrs.0.remove("axis");
    }
    cx.emit(node, BASE_OPSET)
}
