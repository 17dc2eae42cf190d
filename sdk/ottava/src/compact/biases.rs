//! Biases as plain floats: one behind integer weights counts as quantized at the scale of the accumulator (numerics,
//! section 4), so it needs no scale of its own, and every reader arrives at the same integers.
//!
//! In a small network biases are a good part of the file. There they are stored in 16 bits, where that moves none of them
//! by more than a small part of a step of what the layer writes; a Cast makes them floats again.

use ottava_graph::{Graph, Uses, ValueId};
use ottava_hal::{Attr, Attrs, DataType, Node, Tensor, TensorType};

/// Integers below this come back from their float: it is off by at most two roundings of 2^-24.
const MAX_EXACT: i64 = 1 << 21;
/// Biases that make more than this share of all constants are stored in 16 bits.
const WORTH: f64 = 0.05;
/// What 16 bits may move a bias by, in steps of the output: a sixteenth adds at most 1.6 % to the noise of its rounding.
const MAX_MOVE: f64 = 1.0 / 16.0;
/// Code of f32 in ONNX files.
const ONNX_F32: i64 = 1;

/// Replaces DequantizeLinear of an s32 constant by its floats.
pub(super) fn as_floats(graph: &mut Graph) {
    let floats: Vec<Option<Tensor>> = graph.nodes.iter().map(|node| bias_floats(graph, node)).collect();
    for (node, data) in graph.nodes.iter().zip(&floats) {
        if let Some(data) = data {
            let out = node.outputs[0];
            graph.values[out.0].constant = Some(data.clone());
        }
    }
    let mut floats = floats.iter();
    graph.nodes.retain(|_| floats.next().is_none_or(Option::is_none));
}

/// The floats of an s32 bias, if all of its integers come back from them.
fn bias_floats(graph: &Graph, node: &Node) -> Option<Tensor> {
    if node.op != "DequantizeLinear" || node.inputs.len() > 2 || graph.outputs.contains(node.outputs.first()?) {
        return None;
    }
    let (codes, scales) = (graph.constant(node.input(0)?)?, graph.constant(node.input(1)?)?);
    if codes.dtype() != DataType::S32 {
        return None;
    }
    let (codes, scales, shape) = (codes.to_ints().ok()?, scales.to_f32s().ok()?, codes.shape());
    // One scale for all, or one for each bias.
    if scales.len() != 1 && scales.len() != codes.len() {
        return None;
    }
    let exact = codes.iter().all(|code| code.abs() < MAX_EXACT);
    let float = |(i, code): (usize, &i64)| *code as f32 * scales[i % scales.len()];
    let floats: Vec<f32> = codes.iter().enumerate().map(float).collect();
    Tensor::from_slice(shape, &floats).ok().filter(|_| exact)
}

/// Stores biases in 16 bits where that makes a small file visibly smaller.
pub(super) fn as_halves(graph: &mut Graph) {
    let uses = Uses::of(graph);
    let biases: Vec<(ValueId, Tensor)> = graph.nodes.iter().filter_map(|node| half(graph, &uses, node)).collect();
    let constants: usize = graph.values.iter().filter_map(|v| v.constant.as_ref()).map(|c| c.bytes().len()).sum();
    let bytes: usize = biases.iter().map(|(_, data)| 2 * data.bytes().len()).sum();
    if bytes as f64 <= WORTH * constants as f64 {
        return;
    }
    for (bias, data) in biases {
        let shape = data.shape().to_vec();
        let stored = graph.add_const(graph.fresh_name("bias/f16"), data);
        let mut cast = Node::new(graph.fresh_name("bias/cast"), "Cast", 13);
        cast.inputs = vec![Some(stored)];
        cast.outputs = vec![bias];
        cast.attrs = Attrs::default().with("to", Attr::Int(ONNX_F32));
        let value = &mut graph.values[bias.0];
        (value.constant, value.ty) = (None, TensorType::fixed(DataType::F32, &shape));
        graph.nodes.insert(0, cast);
    }
}

/// The bias of a product in 16 bits, if only this product reads it and its output's step allows it.
fn half(graph: &Graph, uses: &Uses, node: &Node) -> Option<(ValueId, Tensor)> {
    if !matches!(node.op.as_str(), "Conv" | "Gemm") || !node.domain.is_empty() {
        return None;
    }
    let id = node.input(2).filter(|id| uses.only_reader(*id).is_some())?;
    let bias = graph.constant(id).filter(|data| data.dtype() == DataType::F32)?;
    let step = output_step(graph, uses, *node.outputs.first()?)?;
    let half = Tensor::from_f32s(DataType::F16, bias.shape(), &bias.to_f32s().ok()?).ok()?;
    let moves = |(a, b): (f32, f32)| (f64::from(a) - f64::from(b)).abs() <= MAX_MOVE * step;
    let pairs = bias.to_f32s().ok()?.into_iter().zip(half.to_f32s().ok()?);
    pairs.into_iter().all(moves).then_some((id, half))
}

/// The scale of the QuantizeLinear that a value goes into, alone or through a Relu or Clip.
fn output_step(graph: &Graph, uses: &Uses, value: ValueId) -> Option<f64> {
    let reader = &graph.nodes[uses.only_reader(value)?];
    match reader.op.as_str() {
        "Relu" | "Clip" => output_step(graph, uses, *reader.outputs.first()?),
        "QuantizeLinear" => {
            let scale = graph.constant(reader.input(1)?).filter(|scale| scale.elements() == 1)?;
            Some(f64::from(*scale.to_f32s().ok()?.first()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_become_floats_where_their_integers_come_back() {
        let build = |codes: [i64; 2]| {
            let mut graph = Graph::new("g");
            let codes = graph.add_const("b/q", Tensor::from_ints(DataType::S32, &[2], &codes).expect("integers"));
            let scale = graph.add_const("b/scale", Tensor::from_slice(&[2], &[0.1f32, 0.003]).expect("floats"));
            let out = graph.add_value("b", TensorType::fixed(DataType::F32, &[2]));
            let mut node = Node::new("b/dq", "DequantizeLinear", 13);
            node.inputs = vec![Some(codes), Some(scale)];
            node.outputs = vec![out];
            graph.nodes.push(node);
            as_floats(&mut graph);
            graph.constant(out).map(|t| t.to_f32s().expect("floats"))
        };
        let floats = build([-1_999_999, 77]).expect("floats");
        let back: Vec<f64> = [0.1f32, 0.003].iter().zip(&floats).map(|(s, b)| f64::from(*b) / f64::from(*s)).collect();
        assert_eq!(back.iter().map(|b| b.round_ties_even()).collect::<Vec<_>>(), [-1_999_999.0, 77.0]);
        assert_eq!(build([1 << 21, 0]), None);
    }

    /// A Conv with this bias between DequantizeLinear and QuantizeLinear at this scale.
    fn network(bias: &[f32], step: f32) -> Graph {
        let mut graph = Graph::new("g");
        let x = graph.add_input("x", TensorType::fixed(DataType::F32, &[1, 4]));
        let weights =
            graph.add_const("w", Tensor::from_slice(&[4, bias.len()], &vec![0.5f32; 4 * bias.len()]).expect("w"));
        let bias_id = graph.add_const("b", Tensor::from_slice(&[bias.len()], bias).expect("b"));
        let scale = graph.add_const("s", Tensor::scalar(step));
        let [y, q] = [("y", DataType::F32), ("q", DataType::U8)]
            .map(|(name, dtype)| graph.add_value(name, TensorType::fixed(dtype, &[1, bias.len()])));
        let mut gemm = Node::new("gemm", "Gemm", 13);
        (gemm.inputs, gemm.outputs) = (vec![Some(x), Some(weights), Some(bias_id)], vec![y]);
        let mut quantize = Node::new("quantize", "QuantizeLinear", 13);
        (quantize.inputs, quantize.outputs) = (vec![Some(y), Some(scale)], vec![q]);
        graph.nodes = vec![gemm, quantize];
        graph.outputs = vec![q];
        graph
    }

    #[test]
    fn biases_take_sixteen_bits_where_no_step_notices() {
        let stored = |bias: &[f32], step: f32| {
            let mut graph = network(bias, step);
            as_halves(&mut graph);
            ottava_graph::verify(&graph).expect("a graph");
            graph.find_value("bias/f16").and_then(|id| graph.constant(id)).map(|t| t.to_f32s().expect("floats"))
        };
        assert_eq!(stored(&[1.0, 0.1], 0.01), Some(vec![1.0, 0.099_975_586]));
        // An error of 2.4e-5 is too much for this step; a magnitude beyond f16 is for any.
        assert_eq!(stored(&[1.0, 0.1], 1e-4), None);
        assert_eq!(stored(&[1.0, 7e4], 100.0), None);
    }
}
