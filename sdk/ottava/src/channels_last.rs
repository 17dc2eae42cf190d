//! Images between the parts of a network, and on their way to an observer, channels last.
//!
//! The CPU driver computes images channels last. What leaves a program is row-major, so every observed value would be
//! transposed once more, though an observer does not care for the order. A Transpose to channels last behind an image, and
//! one back before whoever reads it in another part, are views to that driver: nothing moves. On other devices, and on
//! values that lie otherwise, they cost a transposition and change no value.

use ottava_graph::Graph;
use ottava_hal::{Attr, DataType, Node, TensorType, ValueId};

/// Operators whose result is an image.
const MAKERS: [&str; 7] =
    ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Resize"];
/// Operators whose result lies as their operands do.
const FOLLOWERS: [&str; 19] = [
    "Abs",
    "Add",
    "BatchNormalization",
    "Clip",
    "Concat",
    "Div",
    "Elu",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Max",
    "Min",
    "Mul",
    "Relu",
    "Sigmoid",
    "Sub",
    "Swish",
    "Tanh",
];

/// Per value: whether it is an image that a node computes.
pub(crate) fn images(graph: &Graph) -> Vec<bool> {
    let mut images = vec![false; graph.values.len()];
    for node in graph.nodes.iter().filter(|n| n.domain.is_empty()) {
        let op = node.op.as_str();
        let follows = || FOLLOWERS.contains(&op) && node.inputs.iter().flatten().any(|id| images[id.0]);
        let is_image = MAKERS.contains(&op) || follows() || brings_forward(node);
        for out in node.outputs.iter().filter(|_| is_image) {
            images[out.0] = last(graph, *out).is_some();
        }
    }
    images
}

/// Whether a Transpose takes the channels from the last axis to axis 1: its operand has them last.
fn brings_forward(node: &Node) -> bool {
    let perm = node.attrs.ints_opt("perm").ok().flatten().unwrap_or_default();
    let rank = perm.len() as i64;
    node.op == "Transpose" && rank >= 3 && perm.iter().copied().eq([0, rank - 1].into_iter().chain(1..rank - 1))
}

/// The type of a value with its channels last.
fn last(graph: &Graph, id: ValueId) -> Option<TensorType> {
    let ty = graph.ty(id);
    let mut dims = ty.shape.known().filter(|dims| dims.len() >= 3 && dims[1] > 1)?;
    dims[1..].rotate_left(1);
    (ty.dtype == DataType::F32 && ty.quant.is_none()).then(|| TensorType::fixed(DataType::F32, &dims))
}

/// Hands output `i` of a graph out with its channels last.
pub(crate) fn put_out(graph: &mut Graph, i: usize) {
    let Some(id) = graph.outputs.get(i).copied() else { return };
    let Some(node) = transposed(graph, id, true) else { return };
    graph.outputs[i] = node.outputs[0];
    graph.nodes.push(node);
}

/// Takes input `i` of a graph with its channels last.
pub(crate) fn take_in(graph: &mut Graph, i: usize) {
    let Some(id) = graph.inputs.get(i).copied() else { return };
    let Some(node) = transposed(graph, id, false) else { return };
    graph.inputs[i] = node.inputs[0].unwrap_or(id);
    graph.nodes.insert(0, node);
}

/// The node between a value and its form with the channels last: from the value (`away`), or to it.
fn transposed(graph: &mut Graph, id: ValueId, away: bool) -> Option<Node> {
    let ty = last(graph, id)?;
    let rank = ty.shape.rank() as i64;
    let name = graph.fresh_name(&format!("{}_channels_last", graph.name_of(id)));
    let moved = graph.add_value(name.clone(), ty);
    let (from, to) = if away { (id, moved) } else { (moved, id) };
    let perm = if away {
        [vec![0], (2..rank).collect(), vec![1]]
    } else {
        [vec![0, rank - 1], (1..rank - 1).collect(), vec![]]
    };
    let mut node = Node::new(name, "Transpose", 13);
    (node.inputs, node.outputs) = (vec![Some(from)], vec![to]);
    node.attrs.set("perm", Attr::Ints(perm.concat()));
    Some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x -> Conv -> Relu -> MatMul`, of which the Conv, the Relu and the product are outputs.
    fn net() -> Graph {
        let mut g = Graph::new("net");
        let ty = |dims: &[usize]| TensorType::fixed(DataType::F32, dims);
        let x = g.add_input("x", ty(&[1, 2, 3, 4]));
        let w = g.add_input("w", ty(&[2, 2, 1, 1]));
        let names = ["conv", "relu", "product"];
        let outs: Vec<ValueId> = names.iter().map(|n| g.add_value(*n, ty(&[1, 2, 3, 4]))).collect();
        for (name, op, inputs, out) in
            [("c", "Conv", vec![x, w], outs[0]), ("r", "Relu", vec![outs[0]], outs[1]), ("m", "MatMul", vec![outs[1], w], outs[2])]
        {
            let mut node = Node::new(name, op, 13);
            (node.inputs, node.outputs) = (inputs.into_iter().map(Some).collect(), vec![out]);
            g.nodes.push(node);
        }
        g.outputs = outs;
        g
    }

    #[test]
    fn images_are_what_convolutions_make_and_what_follows() {
        let g = net();
        let names: Vec<&str> =
            images(&g).iter().enumerate().filter(|(_, image)| **image).map(|(i, _)| g.name_of(ValueId(i))).collect();
        assert_eq!(names, ["conv", "relu"]);
    }

    #[test]
    fn transpositions_stand_at_both_ends() {
        let mut g = net();
        put_out(&mut g, 1);
        take_in(&mut g, 0);
        let (first, last) = (&g.nodes[0], &g.nodes[g.nodes.len() - 1]);
        assert_eq!((last.op.as_str(), last.attrs.ints_opt("perm").unwrap().unwrap()), ("Transpose", &[0i64, 2, 3, 1][..]));
        assert_eq!((first.op.as_str(), first.attrs.ints_opt("perm").unwrap().unwrap()), ("Transpose", &[0i64, 3, 1, 2][..]));
        assert_eq!(g.ty(g.outputs[1]).shape.known().unwrap(), [1, 3, 4, 2]);
        assert_eq!((g.name_of(g.inputs[0]), g.name_of(first.outputs[0])), ("x_channels_last", "x"));
    }
}
