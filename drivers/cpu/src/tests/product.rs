//! Conv, Gemm and MatMul against the reference.

use crate::testing::{Net, Rng, check, op};
use ottava_hal::program::Activation;
use ottava_hal::{Attr, DataType, Node, QuantParams, RequantMode, TensorType, ValueId};

/// Weights of 8 or 4 bits: s8, u8 or s4, one scale or one per channel, zero points or none.
fn weight_type(rng: &mut Rng, dims: &[usize], axis: usize) -> TensorType {
    let dtype = rng.pick(&[DataType::S8, DataType::S8, DataType::U8, DataType::S4]);
    let symmetric = rng.range(0, 1) == 0;
    let (lo, hi) = dtype.int_range().unwrap();
    let zero = |rng: &mut Rng| if symmetric { 0 } else { rng.range(lo, hi) as i32 };
    let quant = if rng.range(0, 1) == 0 {
        QuantParams::per_tensor(rng.scale(), zero(rng))
    } else {
        let scales = (0..dims[axis]).map(|_| rng.scale()).collect::<Vec<_>>();
        let zero_points = scales.iter().map(|_| zero(rng)).collect();
        QuantParams { zero_points, ..QuantParams::per_axis_symmetric(axis, scales) }
    };
    TensorType::fixed(dtype, dims).quantized(quant)
}

/// A bias: none, plain s32, s32 with a scale of its own, or f32.
pub(super) fn add_bias(net: &mut Net, rng: &mut Rng, n: usize, float_output: bool) -> Option<ValueId> {
    let s32 = TensorType::fixed(DataType::S32, &[n]);
    let ty = match rng.range(0, 3) {
        0 => return None,
        1 => s32,
        2 => s32.quantized(QuantParams::per_tensor(rng.scale() * 0.1, 0)),
        _ if float_output => s32,
        _ => TensorType::fixed(DataType::F32, &[n]),
    };
    Some(net.random(ty, rng))
}

fn conv_node(rng: &mut Rng, rank: usize, groups: usize) -> Node {
    let mut node = op("Conv");
    let mut set = |name: &str, n: usize, lo, hi| {
        let v = (0..n).map(|_| rng.range(lo, hi)).collect();
        node.attrs.set(name, Attr::Ints(v));
    };
    set("pads", 2 * rank, 0, 2);
    set("strides", rank, 1, 2);
    set("dilations", rank, 1, 2);
    node.attrs.set("group", Attr::Int(groups as i64));
    node
}

/// Input, weight extents and groups of a convolution that exists.
fn conv_shapes(rng: &mut Rng, rank: usize) -> (Vec<usize>, Vec<usize>, usize) {
    let groups = rng.pick(&[1, 1, 1, 2, 8, 19]);
    let c_in = groups * if groups > 2 { rng.pick(&[1, 1, 2]) } else { rng.range(1, 20) as usize };
    let c_out = groups * if groups > 2 { rng.pick(&[1, 1, 2]) } else { rng.range(1, 20) as usize };
    let mut x = vec![rng.range(1, 2) as usize, c_in];
    let mut w = vec![c_out, c_in / groups];
    for _ in 0..rank {
        x.push(rng.range(5, 9) as usize);
        w.push(rng.range(1, 3) as usize);
    }
    (x, w, groups)
}

/// Random fusions and mode of an integer product.
pub(super) fn fuse(rng: &mut Rng, node: &mut Node, y: &TensorType) {
    node.requant = Some(rng.pick(&RequantMode::ALL));
    if y.quant.is_none() {
        node.fused.act = rng.pick(&[None, Some(Activation::Relu), Some(Activation::Clip { lo: -0.5, hi: 2.0 })]);
    } else if rng.range(0, 1) == 0 {
        let (lo, hi) = y.dtype.int_range().unwrap();
        let a = rng.range(lo, hi) as i32;
        node.fused.clamp = Some((a, rng.range(a.into(), hi) as i32));
    }
}

/// Adds a residual with its activation, which also changes the form of the epilogue.
pub(super) fn add_residual(net: &mut Net, rng: &mut Rng, node: &mut Node, inputs: &mut Vec<ValueId>, y: &TensorType) {
    let shape_only = net.node(node.clone(), inputs, y);
    let dims = net.ty(shape_only).shape.known().unwrap();
    net.program.nodes.pop();
    net.program.values.pop();
    let typed = net.ty(inputs[0]).quant.is_some() && rng.range(0, 1) == 0;
    let ty = if typed { rng.byte_type(&dims) } else { TensorType::fixed(DataType::F32, &dims) };
    inputs.push(net.input(ty));
    node.fused.residual = true;
    node.fused.act = rng.pick(&[None, Some(Activation::Relu)]);
}

pub(super) fn typed_output(rng: &mut Rng) -> TensorType {
    if rng.range(0, 3) == 0 { TensorType::fixed(DataType::F32, &[]) } else { rng.byte_type(&[]) }
}

#[test]
fn typed_convolutions_equal_the_reference() {
    let mut rng = Rng::new(1);
    for case in 0..150 {
        let rank = if case % 4 == 0 { 1 } else { 2 };
        let (x, w, groups) = conv_shapes(&mut rng, rank);
        let mut net = Net::default();
        let x = net.input(rng.byte_type(&x));
        let ty = weight_type(&mut rng, &w, 0);
        let y = typed_output(&mut rng);
        let mut inputs = vec![x, net.random(ty, &mut rng)];
        inputs.extend(add_bias(&mut net, &mut rng, w[0], y.quant.is_none()));
        let mut node = conv_node(&mut rng, rank, groups);
        fuse(&mut rng, &mut node, &y);
        if rng.range(0, 2) == 0 {
            add_residual(&mut net, &mut rng, &mut node, &mut inputs, &y);
        }
        let y = net.node(node, &inputs, &y);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn float_convolutions_equal_the_reference() {
    let mut rng = Rng::new(2);
    let f32_type = |d: &[usize]| TensorType::fixed(DataType::F32, d);
    for case in 0..80 {
        let rank = if case % 4 == 0 { 1 } else { 2 };
        let (x, w, groups) = conv_shapes(&mut rng, rank);
        let mut net = Net::default();
        let mut inputs = vec![net.input(f32_type(&x)), net.random(f32_type(&w), &mut rng)];
        if rng.range(0, 1) == 0 {
            inputs.push(net.random(f32_type(&w[..1]), &mut rng));
        }
        let mut node = conv_node(&mut rng, rank, groups);
        fuse(&mut rng, &mut node, &f32_type(&[]));
        node.requant = None;
        if case % 3 == 0 {
            add_residual(&mut net, &mut rng, &mut node, &mut inputs, &f32_type(&[]));
        }
        let y = net.node(node, &inputs, &f32_type(&[]));
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn same_padding_equals_the_reference() {
    let mut rng = Rng::new(3);
    for mode in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
        let mut net = Net::default();
        let x = net.input(rng.byte_type(&[1, 3, 8, 7]));
        let w = weight_type(&mut rng, &[5, 3, 3, 2], 0);
        let w = net.random(w, &mut rng);
        let mut node = op("Conv");
        node.attrs.set("auto_pad", Attr::Str(mode.into()));
        node.attrs.set("strides", Attr::Ints(vec![2, 3]));
        let y = net.node(node, &[x, w], &rng.byte_type(&[]));
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn typed_matrix_products_equal_the_reference() {
    let mut rng = Rng::new(4);
    for case in 0..120 {
        let gemm = case % 2 == 0;
        let (m, k, n) = (rng.range(1, 9) as usize, rng.range(1, 70) as usize, rng.range(1, 40) as usize);
        let mut net = Net::default();
        let x = net.input(rng.byte_type(if gemm { &[0, 0] } else { &[2, 0, 0] }));
        let lead: &[usize] = if gemm { &[] } else { &[2] };
        net.program.values[x.0].ty.shape = ottava_hal::Shape::fixed(&[lead, &[m, k]].concat());
        let transposed = gemm && rng.range(0, 1) == 0;
        let (dims, axis) = if transposed { ([n, k], 0) } else { ([k, n], 1) };
        let ty = weight_type(&mut rng, &dims, axis);
        let y = typed_output(&mut rng);
        let mut inputs = vec![x, net.random(ty, &mut rng)];
        inputs.extend(add_bias(&mut net, &mut rng, n, y.quant.is_none()));
        let mut node = op(if gemm { "Gemm" } else { "MatMul" });
        if gemm {
            node.attrs.set("transB", Attr::Int(transposed.into()));
            node.attrs.set("alpha", Attr::Float(rng.pick(&[1.0, 0.37])));
        }
        fuse(&mut rng, &mut node, &y);
        let y = net.node(node, &inputs, &y);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn float_matrix_products_equal_the_reference() {
    let mut rng = Rng::new(5);
    let f32_type = |d: &[usize]| TensorType::fixed(DataType::F32, d);
    for case in 0..40 {
        let gemm = case % 2 == 0;
        let (m, k, n) = (rng.range(1, 9) as usize, rng.range(1, 70) as usize, rng.range(1, 40) as usize);
        let mut net = Net::default();
        let x = net.input(f32_type(if gemm { &[1, 1] } else { &[1, 1, 1] }));
        net.program.values[x.0].ty = f32_type(&if gemm { vec![m, k] } else { vec![2, m, k] });
        let mut inputs = vec![x, net.random(f32_type(&[k, n]), &mut rng)];
        if gemm {
            inputs.push(net.random(f32_type(rng.pick(&[&[1][..], &[]])), &mut rng));
        }
        let y = net.node(op(if gemm { "Gemm" } else { "MatMul" }), &inputs, &f32_type(&[]));
        check(&net.output(y), &mut rng);
    }
}
