//! Elements of 16 bits, f32 results, products of two computed operands, and the fixed-point forms of the Q31 modes.

use crate::common::{CHIPS, Net, Rng, check, chip, compile, data, describe, op, own_op, reference, run};
use ottava_hal::{Attr, DataType, QuantParams, RequantMode, Tensor, TensorType, ValueId};

/// s16, or a byte type.
fn element(rng: &mut Rng, dims: &[usize]) -> TensorType {
    if rng.range(0, 1) == 0 {
        return rng.byte_type(dims);
    }
    rng.typed(DataType::S16, dims)
}

/// Two operands, one of which may repeat; any mixture of types.
#[test]
fn binary_operators_on_sixteen_bits_equal_the_reference() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let a = rng.dims(2, 4);
        let b = match rng.range(0, 2) {
            0 => vec![],
            1 => a[1..].to_vec(),
            _ => a.clone(),
        };
        let (ta, tb, like) = (element(&mut rng, &a), element(&mut rng, &b), element(&mut rng, &[]));
        let (x, y) = (net.input(ta), net.input(tb));
        let z = net.node(op(rng.pick(&["Add", "Sub", "Mul"])), &[x, y], &like);
        check(&net.output(z), &mut rng);
    }
}

#[test]
fn movement_and_conversion_of_sixteen_bits_equal_the_reference() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let d = [rng.size(1, 3), rng.size(2, 7), rng.size(2, 9), rng.size(1, 9)];
        let (ty, like) = (element(&mut rng, &d), element(&mut rng, &[]));
        let x = net.input(ty.clone());
        let y = match rng.range(0, 5) {
            0 => net.node(own_op("Requantize"), &[x], &like),
            1 => net.node(op("Relu"), &[x], &like),
            2 => {
                let mut node = op("Transpose");
                node.attrs.set("perm", Attr::Ints(rng.pick(&[[0, 2, 3, 1], [0, 3, 1, 2], [0, 2, 1, 3]]).to_vec()));
                net.node(node, &[x], &ty)
            }
            3 => {
                let other = if rng.range(0, 1) == 0 { ty.clone() } else { element(&mut rng, &d) };
                let (other, mut node) = (net.input(other), op("Concat"));
                node.attrs.set("axis", Attr::Int(rng.range(0, 3)));
                let like = if rng.range(0, 1) == 0 { ty.clone() } else { like };
                net.node(node, &[x, other], &like)
            }
            4 => {
                let cut = [[1], [2], [1]].map(|v| net.ints(&v));
                net.node(op("Slice"), &[x, cut[0], cut[1], cut[2]], &ty)
            }
            _ => net.node(op("Flatten"), &[x], &like),
        };
        check(&net.output(y), &mut rng);
    }
}

/// A product with any of the outputs that sums have.
fn product(net: &mut Net, rng: &mut Rng, inputs: &[ValueId], name: &str) -> ValueId {
    let mut node = op(name);
    node.requant = Some(RequantMode::Fp32Rne);
    let like = match rng.range(0, 2) {
        0 => TensorType::fixed(DataType::F32, &[]),
        _ => element(rng, &[]),
    };
    let mut inputs = inputs.to_vec();
    if like.quant.is_some() && rng.range(0, 1) == 0 {
        let shape = net.shape_of(&node, &inputs, &like);
        let other = element(rng, &shape);
        inputs.push(net.input(other));
        node.fused.residual = true;
    }
    net.node(node, &inputs, &like)
}

#[test]
fn products_of_computed_operands_equal_the_reference() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let (m, k, n) = (rng.size(1, 20), rng.size(1, 40), rng.size(1, 20));
        let lead = [[2, 3], [1, 3], [2, 1], [1, 1]];
        let (la, lb) = (rng.pick(&lead), rng.pick(&lead));
        let (ta, tb) = (rng.byte_type(&[la[0], la[1], m, k]), rng.byte_type(&[lb[0], lb[1], k, n]));
        let x = net.input(ta);
        let w = if rng.range(0, 2) == 0 { net.random(tb, &mut rng) } else { net.input(tb) };
        let y = product(&mut net, &mut rng, &[x, w], "MatMul");
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn real_and_wide_results_of_constant_weights_equal_the_reference() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let (c, out) = (rng.size(1, 12), rng.size(1, 12));
        let conv = rng.range(0, 1) == 0;
        let (dims, shape, axis) =
            if conv { (vec![1, c, 7, 5], vec![out, c, 3, 2], 0) } else { (vec![3, c], vec![c, out], 1) };
        let ty = rng.byte_type(&dims);
        let x = net.input(ty);
        let scales = (0..out).map(|_| rng.scale()).collect();
        let w = TensorType::fixed(DataType::S8, &shape).quantized(QuantParams::per_axis_symmetric(axis, scales));
        let mut inputs = vec![x, net.random(w, &mut rng)];
        if rng.range(0, 1) == 0 {
            let values: Vec<f32> = (0..out).map(|_| rng.scale() * rng.range(-20, 20) as f32).collect();
            let bias = Tensor::from_slice(&[out], &values).unwrap();
            inputs.push(net.constant(bias.ty(), bias));
        }
        let y = product(&mut net, &mut rng, &inputs, if conv { "Conv" } else { "Gemm" });
        check(&net.output(y), &mut rng);
    }
}

/// Rows of 16 bits: sums of 32 bits where the weights prove it, of 64 elsewhere, in every mode.
#[test]
fn products_of_sixteen_bits_equal_the_reference() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let (c, out, groups) = (rng.size(1, 6), rng.size(1, 5), rng.pick(&[1, 1, 2]));
        let conv = rng.range(0, 1) == 0;
        let long = rng.pick(&[c, 700]);
        let (dims, shape, axis) = if conv {
            (vec![1, c * groups, 7, 5], vec![out * groups, c, 3, 2], 0)
        } else {
            (vec![3, long], vec![long, out], 1)
        };
        let quant = QuantParams::per_tensor(rng.scale() / 100.0, 0);
        let x = net.input(TensorType::fixed(DataType::S16, &dims).quantized(quant));
        let channels = shape[axis];
        let scales = (0..channels).map(|_| rng.scale()).collect();
        let w = TensorType::fixed(DataType::S8, &shape).quantized(QuantParams::per_axis_symmetric(axis, scales));
        let mut inputs = vec![x, net.random(w, &mut rng)];
        match rng.range(0, 2) {
            0 => {}
            1 => inputs.push(net.random(TensorType::fixed(DataType::S32, &[channels]), &mut rng)),
            _ => inputs.push(net.random(TensorType::fixed(DataType::S64, &[channels]), &mut rng)),
        }
        let mut node = op(if conv { "Conv" } else { "Gemm" });
        if conv {
            node.attrs.set("group", Attr::Int(groups as i64));
            node.attrs.set("pads", Attr::Ints(vec![1, 0, 1, 1]));
        }
        node.requant = Some(rng.pick(&RequantMode::ALL));
        let like = match rng.range(0, 3) {
            0 => rng.byte_type(&[]),
            1 => TensorType::fixed(DataType::F32, &[]),
            _ => TensorType::fixed(DataType::S16, &[]).quantized(QuantParams::per_tensor(0.01, 0)),
        };
        let y = net.node(node, &inputs, &like);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn fixed_point_forms_equal_the_reference() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let mode = rng.pick(&[RequantMode::Q31Double, RequantMode::Q31Single]);
        let d = [1, rng.size(1, 6), rng.size(3, 7), rng.size(3, 7)];
        let (ty, like) = (rng.byte_type(&d), rng.byte_type(&[]));
        let x = net.input(ty.clone());
        let mut node = match rng.range(0, 4) {
            4 => own_op("Requantize"),
            0 => op("AveragePool"),
            1 => op("GlobalAveragePool"),
            2 => op("ReduceMean"),
            _ => op(rng.pick(&["Add", "Sub", "Mul"])),
        };
        node.requant = Some(mode);
        let (mut inputs, mut like) = (vec![x], like);
        match node.op.as_str() {
            "AveragePool" => {
                node.attrs.set("kernel_shape", Attr::Ints(vec![3, 2]));
                node.attrs.set("pads", Attr::Ints(vec![1, 0, 1, 1]));
                node.attrs.set("count_include_pad", Attr::Int(rng.range(0, 1)));
                like = if rng.range(0, 1) == 0 { ty } else { like };
            }
            "GlobalAveragePool" | "Requantize" => {}
            "ReduceMean" => inputs.push(net.ints(&[2, 3])),
            _ => {
                let other = rng.byte_type(&d);
                inputs.push(net.input(other));
            }
        }
        let y = net.node(node, &inputs, &like);
        check(&net.output(y), &mut rng);
    }
}

/// The output that TFLite prescribes takes its own form; every other one the table's.
#[test]
fn softmax_of_tflite_equals_the_reference() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let shape = [rng.size(1, 9), rng.size(1, 30)];
        let ty = rng.byte_type(&shape);
        let (dtype, zp) = rng.pick(&[(DataType::S8, -128), (DataType::U8, 0)]);
        let scale = rng.pick(&[1.0 / 256.0, 0.01]);
        let like = TensorType::fixed(dtype, &[]).quantized(QuantParams::per_tensor(scale, zp));
        let x = net.input(ty);
        let mut node = op("Softmax");
        node.requant = Some(rng.pick(&[RequantMode::Q31Double, RequantMode::Q31Single]));
        let y = net.node(node, &[x], &like);
        let program = net.output(y);
        let inputs = data(&program, &mut rng);
        for text in &CHIPS[..3] {
            let device = chip(text);
            let found = run(device.as_ref(), &compile(device.as_ref(), &program), &inputs).unwrap();
            assert_eq!(found, reference(&program, &inputs), "{} on {text}", describe(&program));
        }
    }
}
