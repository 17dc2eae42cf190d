//! Biases as plain floats: one behind integer weights counts as quantized at the scale of the accumulator (numerics,
//! section 4), so it needs no scale of its own, and every reader arrives at the same integers.

use ottava_graph::Graph;
use ottava_hal::{DataType, Node, Tensor};

/// Integers below this come back from their float: it is off by at most two roundings of 2^-24.
const MAX_EXACT: i64 = 1 << 21;

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

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::TensorType;

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
}
