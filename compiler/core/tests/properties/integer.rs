//! Motifs of quantized networks: one for each pass to integer operators.
//!
//! All scales are powers of two, and biases whole steps of the accumulator: then the float operators between Q and DQ are
//! exact, and the integers that they become give the same bits. Tables and Softmax are rounded once where the float
//! sequence rounds twice; they may differ by one step.

use super::Motif;
use super::float::dequantized;
use super::net::{EXTENT, Net};
use ottava_hal::{Attr, DataType, Dim, Shape, Tensor, TensorType, ValueId};

/// Each reads a float value of shape `[N, 4, 4, 4]`.
pub const INTEGER: &[Motif] = &[
    Motif::exact("expand_qoperator", qoperator),
    Motif::exact("type_weights", transposed_weights),
    Motif::exact("type_qdq", convolution),
    Motif::exact("absorb_activation", convolution),
    Motif::exact("fold_qdq", convolution),
    Motif::exact("move_bridges", pooled),
    Motif::within("mask_rows", 1.0 / 256.0, masked),
    Motif::exact("fuse_residual", residual),
    Motif::exact("merge_bridges", parts),
    Motif::within("build_tables", 1.0 / 64.0, table),
    Motif::exact("tabulate_scalars", scalar),
    Motif::exact("join_requantizations", concatenation),
];

/// Scale and zero point as constants.
fn params(net: &mut Net, dtype: DataType) -> [ValueId; 2] {
    let scale = net.one_of(&[0.03125f32, 0.0625, 0.015625]);
    params_of(net, dtype, scale)
}

fn params_of(net: &mut Net, dtype: DataType, scale: f32) -> [ValueId; 2] {
    let middle = if dtype == DataType::U8 { 128 } else { 0 };
    let zero = middle + net.below(41) as i64 - 20;
    [net.scalar(scale), net.constant(Tensor::from_ints(dtype, &[], &[zero]).unwrap())]
}

fn byte(net: &mut Net) -> DataType {
    net.one_of(&[DataType::U8, DataType::S8])
}

/// A value through integers.
fn pair(net: &mut Net, x: ValueId) -> ValueId {
    let dtype = byte(net);
    let [scale, zero] = params(net, dtype);
    pair_of(net, x, [scale, zero])
}

fn pair_of(net: &mut Net, x: ValueId, [scale, zero]: [ValueId; 2]) -> ValueId {
    let q = net.node("QuantizeLinear", 21, &[x, scale, zero], &[]);
    net.node("DequantizeLinear", 21, &[q, scale, zero], &[])
}

fn qoperator(net: &mut Net, x: ValueId) -> ValueId {
    let [xs, xz] = params(net, DataType::U8);
    let [ys, yz] = params(net, DataType::U8);
    let q = net.node("QuantizeLinear", 21, &[x, xs, xz], &[]);
    let w = net.integers(DataType::S8, &[EXTENT, EXTENT, 1, 1], (-127, 127));
    let (ws, wz) = (net.scalar(0.03125), net.constant(Tensor::scalar(0i8)));
    let b = net.integers(DataType::S32, &[EXTENT], (-900, 900));
    let y = net.node("QLinearConv", 10, &[q, xs, xz, w, ws, wz, ys, yz, b], &[]);
    net.node("DequantizeLinear", 21, &[y, ys, yz], &[])
}

fn transposed_weights(net: &mut Net, x: ValueId) -> ValueId {
    let x = pair(net, x);
    let w = dequantized(net, &[3, EXTENT]);
    let w = net.transpose(w, &[1, 0]);
    let y = net.node("MatMul", 13, &[x, w], &[]);
    pair(net, y)
}

/// A convolution of integers without its end.
fn open_convolution(net: &mut Net, x: ValueId) -> ValueId {
    let x = pair(net, x);
    let k = net.one_of(&[1usize, 3]);
    let w = dequantized(net, &[EXTENT, EXTENT, k, k]);
    // Multiples of 1/64 are whole steps of every accumulator: scales of data are 1/16 at most, those of weights 1/4.
    let b = net.floats(&[EXTENT], (-2, 2));
    let pads = Attr::Ints(vec![(k / 2) as i64; 4]);
    net.node("Conv", 22, &[x, w, b], &[("pads", pads)])
}

fn convolution(net: &mut Net, x: ValueId) -> ValueId {
    let y = open_convolution(net, x);
    let y = net.node("Relu", 14, &[y], &[]);
    pair(net, y)
}

fn pooled(net: &mut Net, x: ValueId) -> ValueId {
    let kernel = Attr::Ints(vec![2, 2]);
    let y = net.node("MaxPool", 22, &[x], &[("kernel_shape", kernel)]);
    pair(net, y)
}

/// Scores with an additive mask of the caller, as exporters of transformers write it.
fn masked(net: &mut Net, x: ValueId) -> ValueId {
    let scores = pair(net, x);
    let shape = Shape([1, EXTENT].map(Dim::Known).to_vec());
    let mask = net.graph.add_input("mask", TensorType::new(DataType::S64, shape));
    let (axes, one, low) = (net.ints(&[1, 2]), net.scalar(1.0), net.scalar(-10000.0));
    let wide = net.node("Unsqueeze", 21, &[mask, axes], &[]);
    let real = net.node("Cast", 13, &[wide], &[("to", Attr::Int(1))]);
    let dropped = net.node("Sub", 14, &[one, real], &[]);
    let bias = net.node("Mul", 14, &[dropped, low], &[]);
    let sum = net.either("Add", scores, bias);
    let y = net.node("Softmax", 13, &[sum], &[]);
    let (scale, zero) = (net.scalar(1.0 / 256.0), net.constant(Tensor::scalar(0u8)));
    pair_of(net, y, [scale, zero])
}

fn residual(net: &mut Net, x: ValueId) -> ValueId {
    let (y, other) = (open_convolution(net, x), pair(net, x));
    let sum = net.either("Add", y, other);
    let y = if net.below(2) == 0 { net.node("Relu", 14, &[sum], &[]) } else { sum };
    pair(net, y)
}

/// Halves of a quantized value, each brought to other parameters.
fn parts(net: &mut Net, x: ValueId) -> ValueId {
    let x = pair(net, x);
    let halves = net.split(x);
    let [a, b] = halves.map(|half| pair(net, half));
    let sum = net.node("Add", 14, &[a, b], &[]);
    pair(net, sum)
}

fn table(net: &mut Net, x: ValueId) -> ValueId {
    let x = pair(net, x);
    let op = net.one_of(&["Sigmoid", "Tanh", "HardSwish", "Erf"]);
    let y = net.node(op, 14, &[x], &[]);
    let dtype = byte(net);
    let ends = params_of(net, dtype, 1.0 / 64.0);
    pair_of(net, y, ends)
}

fn scalar(net: &mut Net, x: ValueId) -> ValueId {
    let x = pair(net, x);
    let q = net.integers(DataType::U8, &[], (100, 255));
    let (scale, zero) = (net.scalar(0.0078125), net.constant(Tensor::scalar(0u8)));
    let number = net.node("DequantizeLinear", 21, &[q, scale, zero], &[]);
    let op = net.one_of(&["Mul", "Add", "Sub"]);
    let y = net.node(op, 14, &[x, number], &[]);
    pair(net, y)
}

/// Values that meet in a concatenation, of which some come with other parameters.
fn concatenation(net: &mut Net, x: ValueId) -> ValueId {
    let dtype = byte(net);
    let ends = params(net, dtype);
    let (first, second) = (pair(net, x), pair_of(net, x, ends));
    let (first, negative) = (pair_of(net, first, ends), net.node("Neg", 13, &[x], &[]));
    // Two changes of scale in a row: one of them, or a table.
    let third = pair(net, negative);
    let third = pair(net, third);
    let third = pair_of(net, third, ends);
    let y = net.node("Concat", 13, &[first, second, third], &[("axis", Attr::Int(1))]);
    pair_of(net, y, ends)
}
