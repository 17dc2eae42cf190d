//! Makes the file of a quantized network small: what quantization added takes short names or none, equal constants are
//! one, biases are plain floats ([`biases`]), and what says nothing new is left out ([`redundant`]).
//!
//! Names that the float network had stay, so layers of both can be compared by name; but for very long ones, which can
//! make a third of a small network's file.

mod biases;
mod redundant;

use ottava_graph::{Graph, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// Names of the float network that are longer than this are shortened.
const LONG: usize = 32;

/// Shortens the names that are not in `kept`, joins equal constants, turns biases into floats and drops what is
/// redundant. Inputs and outputs keep their names. Returns the names of the nodes that need none in a file.
pub(crate) fn compact(graph: &mut Graph, kept: &BTreeSet<String>) -> BTreeSet<String> {
    biases::as_floats(graph);
    join_constants(graph);
    redundant::drop_clamps(graph);
    redundant::drop_attributes(graph);
    graph.compact();
    let kept: &BTreeSet<String> = &kept.iter().filter(|name| name.len() <= LONG).cloned().collect();
    let interface: BTreeSet<ValueId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
    let mut taken = kept.clone();
    taken.extend(interface.iter().map(|id| graph.name_of(*id).to_owned()));
    let mut names = (0u64..).map(short).filter(|name| !taken.contains(name));
    let mut next = || names.next().unwrap_or_default();
    for (idx, value) in graph.values.iter_mut().enumerate() {
        if !interface.contains(&ValueId(idx)) && !kept.contains(&value.name) {
            value.name = next();
        }
    }
    let mut unnamed = BTreeSet::new();
    for node in graph.nodes.iter_mut().filter(|node| !kept.contains(&node.name)) {
        node.name = next();
        unnamed.insert(node.name.clone());
    }
    unnamed
}

/// Digits and letters, the shortest first.
fn short(mut number: u64) -> String {
    const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const BASE: u64 = DIGITS.len() as u64;
    let mut digits = Vec::new();
    loop {
        digits.push(DIGITS[(number % BASE) as usize]);
        number /= BASE;
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
        let unnamed = compact(&mut graph, &BTreeSet::from(["layer".to_owned(), "layer:0".to_owned(), "0".to_owned()]));
        assert_eq!(graph.nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(), ["layer", "2"]);
        assert_eq!(unnamed, BTreeSet::from(["2".to_owned()]));
        assert_eq!(graph.nodes[0].inputs[1], graph.nodes[1].inputs[1]);
        let names: Vec<&str> = graph.values.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["x", "1", "layer:0", "x/added:0"]);
    }

    #[test]
    fn names_are_all_different() {
        let names: BTreeSet<String> = (0..5000).map(short).collect();
        assert_eq!(names.len(), 5000);
        assert_eq!([35, 61, 62, 123, 124].map(short), ["z", "Z", "00", "0Z", "10"]);
    }
}
