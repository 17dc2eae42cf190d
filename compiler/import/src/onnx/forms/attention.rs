//! MultiHeadAttention of ONNX Runtime: the standard Attention on 3-D operands.
use super::super::raw::{RawNode, Refusal};
use super::{BASE_OPSET, Cx};
use ottava_hal::{Attr, Tensor};

/// The operator set that has Attention.
const ATTENTION_OPSET: u32 = 23;

/// Inputs that say something which Attention does not, or with other extents.
const REFUSED: &[(usize, &str)] = &[
    (4, "key_padding_mask"),
    (6, "past_key"),
    (7, "past_value"),
    (8, "past_sequence_length"),
    (9, "cache_indirection"),
];

/// MultiHeadAttention(query, key, value, bias, -, attention_bias).
pub(super) fn multi_head(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    if let Some((_, name)) = REFUSED.iter().find(|(i, _)| node.input(*i).is_some()) {
        return Refusal::unsupported(format!("input `{name}` is not supported"));
    }
    if node.outputs.iter().skip(1).any(Option::is_some) {
        return Refusal::unsupported("the outputs behind the first (present keys and values) are read");
    }
    if node.input(1).is_none() || node.input(2).is_none() {
        return Refusal::unsupported("packed operands (query, key and value in one input) are not supported");
    }
    let heads = node.attrs.int("num_heads", 0)?;
    let mut operands: Vec<Option<String>> = (0..3).map(|i| node.input(i).map(str::to_owned)).collect();
    for (i, part) in biases(cx, &node)?.into_iter().enumerate() {
        let name = ["query", "key", "value"][i];
        let bias = cx.constant(&node, &format!("{name}_bias"), part);
        let sum = cx.value(&node, name);
        let mut add = cx.node(&node, name, "Add");
        (add.inputs, add.outputs) = (vec![operands[i].take(), bias], vec![sum.clone()]);
        cx.emit(add, BASE_OPSET)?;
        operands[i] = sum;
    }
    operands.push(node.input(5).map(str::to_owned));
    let mut last = RawNode::new(node.name, "Attention");
    (last.inputs, last.outputs) = (operands, node.outputs);
    for name in ["q_num_heads", "kv_num_heads"] {
        last.attrs.set(name, Attr::Int(heads));
    }
    last.attrs.set("is_causal", Attr::Int(node.attrs.int("unidirectional", 0)?));
    // ONNX Runtime takes 0 for the default.
    if let Some(scale) = node.attrs.float_opt("scale")?.filter(|s| *s != 0.0) {
        last.attrs.set("scale", Attr::Float(scale));
    }
    cx.emit(last, ATTENTION_OPSET)
}

/// The bias in three equal parts, for query, key and value; where the operands differ in size, adding them fails.
fn biases(cx: &Cx, node: &RawNode) -> Result<Vec<Tensor>, Refusal> {
    if node.input(3).is_none() {
        return Ok(Vec::new());
    }
    match cx.input_constant(node, 3) {
        Some(bias) if bias.shape().len() == 1 && bias.elements().is_multiple_of(3) && bias.dtype().bits() >= 8 => {
            let n = bias.elements() / 3;
            let parts = bias.bytes().chunks_exact((n * bias.dtype().bits() / 8).max(1));
            Ok(parts.map(|part| Tensor::from_bytes(bias.dtype(), &[n], part)).collect::<Result<_, _>>()?)
        }
        _ => Refusal::unsupported("input `bias` must be a constant of three parts of equal size"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Sample;
    use super::*;

    fn node(inputs: &str) -> Sample {
        let node = Sample::new("com.microsoft::MultiHeadAttention", 1).inputs(inputs).outputs("y");
        node.attr("num_heads", Attr::Int(2))
    }

    #[test]
    fn operands_and_their_biases() {
        let end = "is_causal=0 kv_num_heads=2 q_num_heads=2";
        node("q k v").gives(&[&format!("Attention@23 q k v -> y {end}")]);
        node("q k v - - m").gives(&[&format!("Attention@23 q k v m -> y {end}")]);
        let bias = Tensor::from_slice(&[3], &[1.0f32, 2.0, 3.0]).expect("a list");
        node("q k v b").constant("b", bias).gives(&[
            "Add@13 q n/query_bias -> n/query",
            "Add@13 k n/key_bias -> n/key",
            "Add@13 v n/value_bias -> n/value",
            &format!("Attention@23 n/query n/key n/value -> y {end}"),
            "n/query_bias = f32[1] [1.0]",
            "n/key_bias = f32[1] [2.0]",
            "n/value_bias = f32[1] [3.0]",
        ]);
    }

    #[test]
    fn what_is_not_there_is_named() {
        node("q k v - p").refused_for("`key_padding_mask`");
        node("q").refused_for("packed");
        node("q k v b").refused_for("`bias` must be a constant");
    }
}
