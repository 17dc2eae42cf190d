//! Convolutions and matrix products.

use crate::common::{Net, Rng, check, op};
use ottava_hal::program::Activation;
use ottava_hal::{Attr, DataType, Node, QuantParams, RequantMode, Tensor, TensorType, ValueId};

const MODES: [RequantMode; 3] = RequantMode::ALL;

/// Weights with one scale, or one per index of an axis.
fn weights(net: &mut Net, rng: &mut Rng, dims: &[usize], axis: usize) -> ValueId {
    let dtype = rng.pick(&[DataType::S8, DataType::S8, DataType::U8, DataType::S4]);
    let (lo, hi) = dtype.int_range().unwrap();
    let zp = if rng.range(0, 2) == 0 { rng.range(lo, hi) as i32 } else { 0 };
    let quant = if rng.range(0, 1) == 0 {
        QuantParams::per_tensor(rng.scale(), zp)
    } else {
        QuantParams::per_axis_symmetric(axis, (0..dims[axis]).map(|_| rng.scale()).collect())
    };
    net.random(TensorType::fixed(dtype, dims).quantized(quant), rng)
}

/// A bias of integers or floats.
fn bias(net: &mut Net, rng: &mut Rng, channels: usize) -> ValueId {
    if rng.range(0, 1) == 0 {
        return net.random(TensorType::fixed(DataType::S32, &[channels]), rng);
    }
    let values: Vec<f32> = (0..channels).map(|_| rng.scale() * rng.range(-20, 20) as f32).collect();
    let data = Tensor::from_slice(&[channels], &values).unwrap();
    net.constant(data.ty(), data)
}

fn fuse(node: &mut Node, rng: &mut Rng, output: &TensorType) {
    node.requant = Some(rng.pick(&MODES));
    if rng.range(0, 2) == 0 {
        let (lo, hi) = output.dtype.int_range().unwrap();
        let (a, b) = (rng.range(lo, hi) as i32, rng.range(lo, hi) as i32);
        node.fused.clamp = Some((a.min(b), a.max(b)));
    }
}

/// Adds a convolution; `dw` makes it depthwise.
pub fn conv(net: &mut Net, rng: &mut Rng, x: ValueId, dw: bool) -> ValueId {
    let xd = net.dims(x);
    let (c, rank) = (xd[1], xd.len() - 2);
    let divisors: Vec<usize> = (1..=c).filter(|g| c.is_multiple_of(*g)).collect();
    let groups = if dw { c } else { rng.pick(&divisors) };
    let out = groups * rng.size(1, if dw { 2 } else { 9 });
    let kernel: Vec<usize> = (0..rank).map(|_| rng.size(1, 3)).collect();
    let pads: Vec<i64> = (0..2 * rank).map(|i| rng.range(0, kernel[i % rank] as i64 - 1)).collect();
    let mut node = op("Conv");
    node.attrs.set("group", Attr::Int(groups as i64));
    match rng.pick(&["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]) {
        "NOTSET" => node.attrs.set("pads", Attr::Ints(pads)),
        auto => node.attrs.set("auto_pad", Attr::Str(auto.into())),
    }
    node.attrs.set("strides", Attr::Ints((0..rank).map(|_| rng.range(1, 2)).collect()));
    node.attrs.set("dilations", Attr::Ints((0..rank).map(|_| rng.range(1, 2)).collect()));
    let mut dims = vec![out, c / groups];
    dims.extend(&kernel);
    let mut inputs = vec![x, weights(net, rng, &dims, 0)];
    if rng.range(0, 1) == 0 {
        inputs.push(bias(net, rng, out));
    }
    let like = rng.byte_type(&[]);
    fuse(&mut node, rng, &like);
    net.node(node, &inputs, &like)
}

#[test]
fn convolutions_of_any_shape_equal_the_reference() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let mut dims = vec![rng.size(1, 2), rng.size(1, 24), rng.size(5, 12)];
        dims.extend((rng.range(0, 3) > 0).then(|| rng.size(5, 12)));
        let ty = rng.byte_type(&dims);
        let x = net.input(ty);
        let y = conv(&mut net, &mut rng, x, false);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn depthwise_convolutions_equal_the_reference() {
    for seed in 100..140 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let ty = rng.byte_type(&[rng_size(seed), 2 + seed as usize % 19, 5 + seed as usize % 8, 9]);
        let x = net.input(ty);
        let y = conv(&mut net, &mut rng, x, true);
        check(&net.output(y), &mut rng);
    }
}

fn rng_size(seed: u64) -> usize {
    1 + seed as usize % 2
}

#[test]
fn long_sums_are_cut_and_still_equal() {
    for (seed, channels) in [(1, 300), (2, 70)] {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let ty = rng.byte_type(&[1, channels, 6, 6]);
        let x = net.input(ty);
        let w = net.random(
            TensorType::fixed(DataType::S8, &[20, channels, 3, 3]).quantized(QuantParams::per_tensor(0.01, 0)),
            &mut rng,
        );
        let mut node = op("Conv");
        node.attrs.set("pads", Attr::Ints(vec![1, 1, 1, 1]));
        let like = TensorType::fixed(DataType::U8, &[]).quantized(QuantParams::per_tensor(3.0, 120));
        fuse(&mut node, &mut rng, &like);
        let y = net.node(node, &[x, w], &like);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn matrix_products_equal_the_reference() {
    for seed in 200..240 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let (m, k, n) = (rng.size(1, 40), rng.size(1, 90), rng.size(1, 50));
        let like = rng.byte_type(&[]);
        let gemm = rng.range(0, 1) == 0;
        let mut node = op(if gemm { "Gemm" } else { "MatMul" });
        fuse(&mut node, &mut rng, &like);
        let dims = if gemm { vec![m, k] } else { vec![2, m, k] };
        let ty = rng.byte_type(&dims);
        let x = net.input(ty);
        let trans = gemm && rng.range(0, 1) == 0;
        let (shape, axis) = if trans { ([n, k], 0) } else { ([k, n], 1) };
        if gemm {
            node.attrs.set("transB", Attr::Int(i64::from(trans)));
            node.attrs.set("alpha", Attr::Float(rng.pick(&[1.0, 0.5, 2.0])));
        }
        let mut inputs = vec![x, weights(&mut net, &mut rng, &shape, axis)];
        if rng.range(0, 1) == 0 {
            inputs.push(bias(&mut net, &mut rng, n));
        }
        let y = net.node(node, &inputs, &like);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn residuals_behind_products_equal_the_reference() {
    for seed in 300..340 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let dims = [rng.size(1, 2), rng.size(1, 12), rng.size(5, 9), rng.size(5, 9)];
        let ty = rng.byte_type(&dims);
        let x = net.input(ty);
        // The shape of the result is that of the convolution alone.
        let bare = conv(&mut net, &mut rng, x, false);
        let (shape, mut node) = (net.dims(bare), net.program.nodes.pop().unwrap());
        net.program.values.pop();
        let ty = rng.byte_type(&shape);
        let other = if rng.range(0, 1) == 0 { net.input(ty) } else { net.random(ty, &mut rng) };
        node.fused.residual = true;
        node.fused.act = rng.pick(&[None, Some(Activation::Relu), Some(Activation::Clip { lo: -0.5, hi: 1.5 })]);
        let inputs: Vec<ValueId> = node.inputs.iter().flatten().copied().chain([other]).collect();
        let like = TensorType::fixed(DataType::S8, &[]).quantized(QuantParams::per_tensor(0.3, 5));
        node.fused.clamp = rng.pick(&[None, Some((-100, 60))]);
        let y = net.node(node, &inputs, &like);
        check(&net.output(y), &mut rng);
    }
}
