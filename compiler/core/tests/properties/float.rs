//! Motifs of float networks, as exporters write them: one for each pass to the canonical form.

use super::Motif;
use super::net::{EXTENT, Net};
use ottava_graph::{Graph, to_program};
use ottava_hal::{Attr, DataType, Node, Tensor, ValueId};
use std::sync::Arc;

/// Each reads a value of shape `[N, 4, 4, 4]` and, but for the reshaped one, gives one.
pub const FLOAT: &[Motif] = &[
    Motif::exact("remove_identities", identities),
    Motif::exact("fold_constants", constants),
    Motif::exact("fold_shapes", shapes),
    Motif::exact("inline_control", branch),
    Motif::exact("fuse_functions", function),
    Motif::exact("fuse_norms", norm),
    Motif::exact("fuse_softmax", softmax),
    Motif::exact("fold_pad", pad),
    Motif::exact("fold_batch_norm", norm_behind),
    Motif::exact("fold_channel_affine", dequantized_conv),
    Motif::exact("fold_norm_forward", norm_before),
    Motif::exact("attach_bias", bias),
    Motif::exact("sink_transposes", between_transposes),
    Motif::exact("cancel_transposes", two_transposes),
    Motif::exact("share_equal", twins),
    Motif::exact("fuse_activation", activation),
    Motif::exact("fold_dequantized", dequantized_weights),
];

fn identities(net: &mut Net, x: ValueId) -> ValueId {
    let y = match net.below(3) {
        0 => net.node("Identity", 13, &[x], &[]),
        1 => net.node("Cast", 13, &[x], &[("to", Attr::Int(1))]),
        _ => net.node("Dropout", 13, &[x], &[]),
    };
    net.node("Neg", 13, &[y], &[])
}

fn constants(net: &mut Net, x: ValueId) -> ValueId {
    let (a, b) = (net.floats(&[EXTENT], (-2, 2)), net.floats(&[EXTENT], (-2, 2)));
    let op = net.one_of(&["Add", "Mul", "Sub"]);
    let c = net.node(op, 14, &[a, b], &[]);
    net.either("Add", x, c)
}

fn shapes(net: &mut Net, x: ValueId) -> ValueId {
    let shape = net.node("Shape", 21, &[x], &[]);
    let zero = net.constant(Tensor::scalar(0i64));
    let n = net.node("Gather", 13, &[shape, zero], &[("axis", Attr::Int(0))]);
    let axes = net.ints(&[0]);
    let n = net.node("Unsqueeze", 21, &[n, axes], &[]);
    let rest = net.one_of(&[&[64i64][..], &[16, 4], &[4, 16], &[2, 2, 16]]);
    let rest = net.ints(rest);
    let target = net.node("Concat", 13, &[n, rest], &[("axis", Attr::Int(0))]);
    net.node("Reshape", 21, &[x, target], &[])
}

/// A branch that applies one function.
fn body(net: &Net, x: ValueId, op: &str) -> Attr {
    let mut graph = Graph::new(op);
    let input = graph.add_input("x", net.graph.ty(x).clone());
    let y = graph.add_value("y", net.graph.ty(x).clone());
    let mut node = Node::new("n", op, 13);
    (node.inputs, node.outputs) = (vec![Some(input)], vec![y]);
    graph.nodes.push(node);
    graph.outputs = vec![y];
    Attr::Program(Arc::new(to_program(&graph)))
}

fn branch(net: &mut Net, x: ValueId) -> ValueId {
    let condition = net.below(2) as i64;
    let condition = net.constant(Tensor::from_ints(DataType::Bool, &[], &[condition]).unwrap());
    let branches = [("then_branch", body(net, x, "Neg")), ("else_branch", body(net, x, "Abs"))];
    net.node_in(ottava_ops::OTTAVA, "If", 1, &[condition, x], &branches)
}

fn function(net: &mut Net, x: ValueId) -> ValueId {
    if net.below(2) == 0 {
        let gate = net.node("Sigmoid", 13, &[x], &[]);
        return net.either("Mul", x, gate);
    }
    let (root, one, half) = (net.scalar(std::f32::consts::SQRT_2), net.scalar(1.0), net.scalar(0.5));
    let u = net.node("Div", 14, &[x, root], &[]);
    let erf = net.node("Erf", 13, &[u], &[]);
    let sum = net.either("Add", erf, one);
    let product = net.either("Mul", x, sum);
    net.either("Mul", product, half)
}

fn norm(net: &mut Net, x: ValueId) -> ValueId {
    let (axes, eps) = (net.ints(&[-1]), net.scalar(1e-2));
    let (gamma, beta) = (net.floats(&[EXTENT], (-2, 2)), net.floats(&[EXTENT], (-1, 1)));
    let mean = net.node("ReduceMean", 18, &[x, axes], &[]);
    let d = net.node("Sub", 14, &[x, mean], &[]);
    let square = net.node("Mul", 14, &[d, d], &[]);
    let variance = net.node("ReduceMean", 18, &[square, axes], &[]);
    let sum = net.either("Add", variance, eps);
    let root = net.node("Sqrt", 13, &[sum], &[]);
    let unit = net.node("Div", 14, &[d, root], &[]);
    let scaled = net.either("Mul", unit, gamma);
    net.either("Add", scaled, beta)
}

fn softmax(net: &mut Net, x: ValueId) -> ValueId {
    let axis = 1 + net.below(3) as i64;
    let axes = net.ints(&[axis]);
    let largest = net.node("ReduceMax", 18, &[x, axes], &[]);
    let d = net.node("Sub", 14, &[x, largest], &[]);
    let e = net.node("Exp", 13, &[d], &[]);
    let sum = net.node("ReduceSum", 13, &[e, axes], &[]);
    net.node("Div", 14, &[e, sum], &[])
}

fn pad(net: &mut Net, x: ValueId) -> ValueId {
    let pads = net.ints(&[0, 0, 1, 1, 0, 0, 1, 1]);
    let padded = net.node("Pad", 21, &[x, pads], &[]);
    let w = net.floats(&[EXTENT, EXTENT, 3, 3], (-1, 1));
    net.node("Conv", 22, &[padded, w], &[])
}

fn norm_behind(net: &mut Net, x: ValueId) -> ValueId {
    let y = net.conv(x);
    if net.below(2) == 0 {
        return net.batch_norm(y, true);
    }
    let factor = net.floats(&[EXTENT, 1, 1], (1, 3));
    net.either("Mul", y, factor)
}

/// Integer weights, dequantized per channel.
pub fn dequantized(net: &mut Net, shape: &[usize]) -> ValueId {
    let w = net.integers(DataType::S8, shape, (-127, 127));
    let scales: Vec<f32> = (0..shape[0]).map(|_| net.one_of(&[0.25, 0.0625, 0.03125, 0.015625])).collect();
    let scale = net.constant(Tensor::from_slice(&[shape[0]], &scales).unwrap());
    let zero = net.integers(DataType::S8, &[shape[0]], (0, 0));
    net.node("DequantizeLinear", 21, &[w, scale, zero], &[("axis", Attr::Int(0))])
}

fn dequantized_conv(net: &mut Net, x: ValueId) -> ValueId {
    let w = dequantized(net, &[EXTENT, EXTENT, 1, 1]);
    let y = net.node("Conv", 22, &[x, w], &[]);
    let (divisor, summand) = (net.floats(&[1, EXTENT, 1, 1], (1, 3)), net.floats(&[1, EXTENT, 1, 1], (-1, 1)));
    let y = net.node("Div", 14, &[y, divisor], &[]);
    let y = net.either("Add", y, summand);
    net.batch_norm(y, true)
}

/// A norm in front of a convolution: with a shift where nothing is padded, without one where zeros are.
fn norm_before(net: &mut Net, x: ValueId) -> ValueId {
    let padded = net.below(2) == 0;
    let y = net.batch_norm(x, !padded);
    let (k, groups) = (if padded { 3 } else { 1 }, net.one_of(&[1usize, 2, 4]));
    let w = net.floats(&[EXTENT, EXTENT / groups, k, k], (-1, 1));
    let pads = Attr::Ints(vec![(k / 2) as i64; 4]);
    net.node("Conv", 22, &[y, w], &[("pads", pads), ("group", Attr::Int(groups as i64))])
}

fn bias(net: &mut Net, x: ValueId) -> ValueId {
    let y = net.conv(x);
    let shape = net.one_of(&[&[EXTENT, 1, 1][..], &[1, EXTENT, 1, 1]]);
    let b = net.floats(shape, (-2, 2));
    net.either("Add", y, b)
}

fn between_transposes(net: &mut Net, x: ValueId) -> ValueId {
    let there = net.transpose(x, &[0, 2, 3, 1]);
    let b = net.floats(&[EXTENT], (-1, 1));
    let sum = net.either("Add", there, b);
    let op = net.one_of(&["Relu", "Abs", "Neg"]);
    let y = net.node(op, 14, &[sum], &[]);
    net.transpose(y, &[0, 3, 1, 2])
}

fn two_transposes(net: &mut Net, x: ValueId) -> ValueId {
    let perms = [[0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2], [0, 2, 1, 3]];
    let (a, b) = (net.one_of(&perms), net.one_of(&perms));
    let y = net.transpose(x, &a);
    net.transpose(y, &b)
}

fn twins(net: &mut Net, x: ValueId) -> ValueId {
    let op = net.one_of(&["Sigmoid", "Abs", "Exp"]);
    let (a, b) = (net.node(op, 13, &[x], &[]), net.node(op, 13, &[x], &[]));
    let y = net.node("Neg", 13, &[b], &[]);
    net.either("Mul", a, y)
}

fn activation(net: &mut Net, x: ValueId) -> ValueId {
    let y = net.conv(x);
    if net.below(2) == 0 {
        return net.node("Relu", 14, &[y], &[]);
    }
    let (lo, hi) = (net.scalar(-1.0), net.scalar(2.5));
    net.node("Clip", 13, &[y, lo, hi], &[])
}

fn dequantized_weights(net: &mut Net, x: ValueId) -> ValueId {
    let w = dequantized(net, &[EXTENT, EXTENT, 1, 1]);
    net.node("Conv", 22, &[x, w], &[])
}
