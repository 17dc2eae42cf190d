//! Makes the file of a quantized network small: what quantization added takes short names, equal constants are one, and
//! biases are plain floats.
//!
//! Names that the float network had stay, so layers of both can be compared by name; but for very long ones, which can
//! make a third of a small network's file. A float bias behind integer weights counts as quantized at the scale of the
//! accumulator (numerics, section 4): it needs no scale of its own, and every reader arrives at the same integers.

use ottava_graph::{Graph, ValueId};
use ottava_hal::{DataType, Node, Tensor};
use std::collections::{BTreeMap, BTreeSet};

/// Names of the float network that are longer than this are shortened.
const LONG: usize = 32;
/// Integers below this come back from their float: it is off by at most two roundings of 2^-24.
const MAX_EXACT: i64 = 1 << 21;

/// Shortens the names that are not in `kept`, joins equal constants and turns biases into floats. Inputs and outputs keep
/// their names.
pub(crate) fn compact(graph: &mut Graph, kept: &BTreeSet<String>) {
    float_biases(graph);
    join_constants(graph);
    graph.compact();
    let kept: &BTreeSet<String> = &kept.iter().filter(|name| name.len() <= LONG).cloned().collect();
    let interface: BTreeSet<ValueId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
    let mut taken = kept.clone();
    taken.extend(interface.iter().map(|id| graph.name_of(*id).to_owned()));
    let mut names = (0u64..).map(base36).filter(|name| !taken.contains(name));
    let mut next = || names.next().unwrap_or_default();
    for (idx, value) in graph.values.iter_mut().enumerate() {
        if !interface.contains(&ValueId(idx)) && !kept.contains(&value.name) {
            value.name = next();
        }
    }
    for node in graph.nodes.iter_mut().filter(|node| !kept.contains(&node.name)) {
        node.name = next();
    }
}

/// Replaces DequantizeLinear of an s32 constant by its floats.
fn float_biases(graph: &mut Graph) {
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

/// Digits and small letters, the shortest first.
fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize]);
        number /= 36;
        if number == 0 {
            break;
        }
        number -= 1;
    }
    digits.iter().rev().map(|&d| char::from(d)).collect()
}

/// Lets readers of a constant read the first one that is equal to it.
fn join_constants(graph: &mut Graph) {
    let mut first: BTreeMap<(String, Vec<usize>, Vec<u8>), ValueId> = BTreeMap::new();
    let mut joined: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for (idx, value) in graph.values.iter().enumerate() {
        let Some(data) = &value.constant else { continue };
        let key = (data.dtype().to_string(), data.shape().to_vec(), data.bytes().to_vec());
        let same = *first.entry(key).or_insert(ValueId(idx));
        joined.insert(ValueId(idx), same);
    }
    for id in graph.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().flatten()) {
        *id = joined.get(id).copied().unwrap_or(*id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::{DataType, Node, Tensor, TensorType};

    #[test]
    fn names_of_the_float_network_stay_and_equal_constants_are_one() {
        let mut graph = Graph::new("g");
        let x = graph.add_input("x", TensorType::fixed(DataType::F32, &[1]));
        let scales = ["x/scale", "y/scale"].map(|name| graph.add_const(name, Tensor::scalar(0.5f32)));
        let mut at = x;
        for (name, scale) in ["layer", "x/added"].into_iter().zip(scales) {
            let y = graph.add_value(format!("{name}:0"), TensorType::fixed(DataType::F32, &[1]));
            let mut node = Node::new(name, "Mul", 13);
            node.inputs = vec![Some(at), Some(scale)];
            node.outputs = vec![y];
            graph.nodes.push(node);
            at = y;
        }
        graph.outputs = vec![at];
        compact(&mut graph, &BTreeSet::from(["layer".to_owned(), "layer:0".to_owned(), "0".to_owned()]));
        assert_eq!(graph.nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(), ["layer", "2"]);
        assert_eq!(graph.nodes[0].inputs[1], graph.nodes[1].inputs[1]);
        let names: Vec<&str> = graph.values.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["x", "1", "layer:0", "x/added:0"]);
    }

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
            float_biases(&mut graph);
            graph.constant(out).map(|t| t.to_f32s().expect("floats"))
        };
        let floats = build([-1_999_999, 77]).expect("floats");
        let back: Vec<f64> = [0.1f32, 0.003].iter().zip(&floats).map(|(s, b)| f64::from(*b) / f64::from(*s)).collect();
        assert_eq!(back.iter().map(|b| b.round_ties_even()).collect::<Vec<_>>(), [-1_999_999.0, 77.0]);
        assert_eq!(build([1 << 21, 0]), None);
    }

    #[test]
    fn names_are_all_different() {
        let names: BTreeSet<String> = (0..3000).map(base36).collect();
        assert_eq!(names.len(), 3000);
        assert_eq!([35, 36, 71, 72].map(base36), ["z", "00", "0z", "10"]);
    }
}
