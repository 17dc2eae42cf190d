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
