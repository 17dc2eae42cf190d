//! Which values of two graphs can be compared: those of one name.

use ottava_graph::{Graph, ValueId};

/// A value that both graphs compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Name of the value.
    pub name: String,
    /// Operator that computes it in the network under test, with what is fused into it.
    pub op: String,
    /// The value in the network under test.
    pub tested: ValueId,
    /// The value in the float network.
    pub reference: ValueId,
}

/// Computed values of `tested` that `reference` computes too, in execution order. Constants are left out: their error is
/// part of the result of the node that reads them.
pub fn pairs(tested: &Graph, reference: &Graph) -> Vec<Pair> {
    let mut found = Vec::new();
    for node in &tested.nodes {
        for &id in &node.outputs {
            let value = tested.value(id);
            let twin = reference.find_value(&value.name).filter(|twin| {
                let (a, b) = (&value.ty, reference.ty(*twin));
                reference.constant(*twin).is_none() && b.dtype.is_float() && (a.quant.is_some() || a.dtype.is_float())
            });
            if let Some(twin) = twin {
                found.push(Pair { name: value.name.clone(), op: described(node), tested: id, reference: twin });
            }
        }
    }
    found
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
        let found = pairs(&graph(true), &graph(false));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].op.as_str()), ("y", "Add+add"));
    }
}
