//! Which values of two graphs can be compared: those that stand for the same float value.
//!
//! A quantized value stands for the value that was quantized: in a file with QuantizeLinear nodes, the input and the output
//! of such a node and what DequantizeLinear gives back stand for the same numbers. [`aliases`] reads that from the file's
//! graph, so it works for files of any writer.

use ottava_graph::{Graph, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// What the compiler appends to a value's name where it moves the quantization of a value.
const MOVED: &str = "_quantized";

/// A value that both graphs compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Name of the value in the float network.
    pub name: String,
    /// Operator that computes it in the network under test, with what is fused into it.
    pub op: String,
    /// The value in the network under test.
    pub tested: ValueId,
    /// The value in the float network.
    pub reference: ValueId,
}

/// For values that QuantizeLinear and DequantizeLinear connect in a graph as imported, the names of all values that stand
/// for the same numbers.
pub fn aliases(imported: &Graph) -> BTreeMap<String, Vec<String>> {
    let mut classes: Vec<Vec<String>> = Vec::new();
    let mut class_of: BTreeMap<&str, usize> = BTreeMap::new();
    for node in imported.nodes.iter().filter(|n| matches!(n.op.as_str(), "QuantizeLinear" | "DequantizeLinear")) {
        if let (Some(from), Some(to)) = (node.input(0), node.outputs.first()) {
            let (from, to) = (imported.name_of(from), imported.name_of(*to));
            // Nodes are in topological order, so the source is in its class already, if it has one.
            let class = *class_of.entry(from).or_insert_with(|| {
                classes.push(vec![from.to_owned()]);
                classes.len() - 1
            });
            classes[class].push(to.to_owned());
            class_of.insert(to, class);
        }
    }
    class_of.into_iter().map(|(name, class)| (name.to_owned(), classes[class].clone())).collect()
}

/// Computed values of `tested` that `reference` computes too, in execution order, each float value once. Constants are
/// left out: their error is part of the result of the node that reads them.
pub fn pairs(tested: &Graph, reference: &Graph, aliases: &BTreeMap<String, Vec<String>>) -> Vec<Pair> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for node in &tested.nodes {
        for &id in &node.outputs {
            let value = tested.value(id);
            let twin = twin(&value.name, reference, aliases).filter(|twin| {
                let (a, b) = (&value.ty, reference.ty(*twin));
                reference.constant(*twin).is_none() && b.dtype.is_float() && (a.quant.is_some() || a.dtype.is_float())
            });
            if let Some(twin) = twin.filter(|twin| seen.insert(*twin)) {
                let name = reference.name_of(twin).to_owned();
                found.push(Pair { name, op: described(node), tested: id, reference: twin });
            }
        }
    }
    found
}

/// The float value of the same name, or of one of the names that stand for the same numbers.
fn twin(name: &str, reference: &Graph, aliases: &BTreeMap<String, Vec<String>>) -> Option<ValueId> {
    let direct = |n: &str| {
        let others = aliases.get(n).into_iter().flatten();
        reference.find_value(n).or_else(|| others.map(String::as_str).find_map(|o| reference.find_value(o)))
    };
    direct(name).or_else(|| direct(name.strip_suffix(MOVED)?))
}

/// `Conv`, or `Conv+add+relu` where more is done in one step.
fn described(node: &ottava_graph::Node) -> String {
    let mut text = node.full_op();
    if node.fused.residual {
        text.push_str("+add");
    }
    if node.fused.act.is_some() || node.fused.clamp.is_some() {
        text.push_str("+act");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_graph::Node;
    use ottava_hal::{DataType, QuantParams, Tensor, TensorType};

    fn graph(quantized: bool) -> Graph {
        let plain = |t| TensorType::fixed(t, &[2]);
        let typed = |s| plain(DataType::U8).quantized(QuantParams::per_tensor(s, 0));
        let mut g = Graph::new("g");
        let x = g.add_input("x", plain(DataType::F32));
        let y = g.add_value("y", if quantized { typed(0.5) } else { plain(DataType::F32) });
        let own = g.add_value(if quantized { "y_q" } else { "y_f" }, plain(DataType::F32));
        let c = g.add_const("c", Tensor::scalar(1.0f32));
        for (name, input, output) in [("a", x, y), ("b", y, own)] {
            let mut node = Node::new(name, "Add", 14);
            node.inputs = vec![Some(input), Some(c)];
            node.outputs = vec![output];
            g.nodes.push(node);
        }
        g.nodes[0].fused.residual = quantized;
        g
    }

    #[test]
    fn values_of_one_name_are_paired_in_order() {
        let found = pairs(&graph(true), &graph(false), &BTreeMap::new());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].op.as_str()), ("y", "Add+add"));
    }

    #[test]
    fn a_quantized_value_stands_for_what_was_quantized() {
        let plain = TensorType::fixed(DataType::F32, &[2]);
        let mut g = Graph::new("qdq");
        let x = g.add_input("x", plain.clone());
        let scale = g.add_const("scale", Tensor::scalar(1.0f32));
        let q = g.add_value("anything", TensorType::fixed(DataType::U8, &[2]));
        let dq = g.add_value("else", plain);
        for (op, input, output) in [("QuantizeLinear", x, q), ("DequantizeLinear", q, dq)] {
            let mut node = Node::new(op, op, 13);
            node.inputs = vec![Some(input), Some(scale)];
            node.outputs = vec![output];
            g.nodes.push(node);
        }
        let found = aliases(&g);
        assert_eq!(found["anything"], ["x", "anything", "else"]);
        assert_eq!((&found["x"], &found["else"]), (&found["anything"], &found["anything"]));
        let by_alias = BTreeMap::from([("y_q".to_owned(), vec!["y_q".to_owned(), "y_f".to_owned()])]);
        assert_eq!(pairs(&graph(true), &graph(false), &by_alias).len(), 2);
    }
}
