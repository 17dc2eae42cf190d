//! The integer forms of transformers against the reference: norms of bytes and words, masked rows, sums of 16 bits, dynamic
//! products, looked-up rows.

use crate::device::CpuDevice;
use crate::testing::{Net, Rng, check, check_with, data, op, own_op};
use ottava_hal::host::HostProgram;
use ottava_hal::{Attr, DataType, Device, Node, Program, QuantParams, RequantMode, Tensor, TensorType, ValueId};
use ottava_kernels::Isa;

fn word_type(rng: &mut Rng, dims: &[usize]) -> TensorType {
    let quant = QuantParams::per_tensor(rng.scale() * 0.01, rng.pick(&[0, 0, -77, 3000]));
    TensorType::fixed(DataType::S16, dims).quantized(quant)
}

fn dims(rng: &mut Rng, rank: usize) -> Vec<usize> {
    (0..rank).map(|_| rng.range(1, 9) as usize).collect()
}

#[test]
fn norms_of_bytes_and_words() {
    let mut rng = Rng::new(201);
    for case in 0..60 {
        let mut shape = dims(&mut rng, 2);
        shape.push(rng.range(1, 70) as usize);
        let n = shape[2];
        let x_type = if case % 2 == 0 { word_type(&mut rng, &shape) } else { rng.byte_type(&shape) };
        let mut net = Net::default();
        let x = net.input(x_type);
        let row = TensorType::fixed(DataType::F32, &[n]);
        let mut inputs = vec![x, net.random(row.clone(), &mut rng)];
        if case % 3 != 0 {
            inputs.push(net.random(row, &mut rng));
        }
        let mut node = op("LayerNormalization");
        node.attrs.set("epsilon", Attr::Float(rng.pick(&[0.0, 1e-5, 1e-12])));
        let y = rng.byte_type(&[]);
        if case % 4 == 0 {
            let (lo, hi) = y.dtype.int_range().unwrap();
            node.fused.clamp = Some((lo as i32 + 20, hi as i32 - 20));
        }
        let y = net.node(node, &inputs, &y);
        check(&net.output(y), &mut rng);
    }
}

/// A mask of zeros and ones, with whole rows of either.
fn mask(rng: &mut Rng, dtype: DataType, shape: &[usize]) -> Tensor {
    let width = shape.last().copied().unwrap_or(1);
    let rows = shape.iter().product::<usize>() / width;
    let values: Vec<i64> = (0..rows)
        .flat_map(|_| {
            let kind = rng.range(0, 4);
            (0..width).map(|_| if kind < 2 { kind } else { rng.range(0, 1) }).collect::<Vec<_>>()
        })
        .collect();
    Tensor::from_ints(dtype, shape, &values).unwrap()
}

/// Extents that broadcast to `shape`.
fn narrowed(rng: &mut Rng, shape: &[usize]) -> Vec<usize> {
    let from = rng.range(0, 1) as usize;
    shape[from..].iter().map(|n| if rng.range(0, 1) == 0 { 1 } else { *n }).collect()
}

#[test]
fn masked_rows() {
    let mut rng = Rng::new(202);
    for case in 0..80 {
        let shape = dims(&mut rng, 3);
        let dtype = rng.pick(&[DataType::Bool, DataType::S64, DataType::S32, DataType::U8]);
        let mut node = own_op(if case % 2 == 0 { "MaskedSoftmax" } else { "MaskedMean" });
        let mut keep = narrowed(&mut rng, &shape);
        if case % 2 == 1 {
            let axis = rng.range(0, 1);
            node.attrs.set("axis", Attr::Int(axis));
            node.attrs.set("keepdims", Attr::Int(rng.range(0, 1)));
            node.requant = Some(RequantMode::Fp32Rne);
            let inner = keep.len() - (2 - axis as usize).min(keep.len());
            keep[inner..].fill(1);
        }
        let mut net = Net::default();
        let x = net.input(rng.byte_type(&shape));
        let flags = net.input(TensorType::fixed(dtype, &keep));
        let y = net.node(node, &[x, flags], &rng.byte_type(&[]));
        let program = net.output(y);
        let mut inputs = data(&program, &mut rng);
        inputs[1] = mask(&mut rng, dtype, &keep);
        check_with(&program, &inputs);
    }
}

#[test]
fn residual_sums_of_sixteen_bits() {
    let mut rng = Rng::new(203);
    for case in 0..40 {
        let (rows, k, n) = (rng.range(1, 9) as usize, rng.range(1, 40) as usize, rng.range(1, 40) as usize);
        let mut net = Net::default();
        let y = if case % 2 == 0 {
            let x = net.input(rng.byte_type(&[2, rows, k]));
            let other = net.input(rng.byte_type(&[2, rows, n]));
            let w = TensorType::fixed(DataType::S8, &[k, n]).quantized(QuantParams::per_tensor(rng.scale(), 0));
            let w = net.random(w, &mut rng);
            let bias = net.random(TensorType::fixed(DataType::S32, &[n]), &mut rng);
            let mut node = op("MatMul");
            node.requant = Some(RequantMode::Fp32Rne);
            let product = net.node(node.clone(), &[x, w], &TensorType::fixed(DataType::F32, &[]));
            let shape = net.ty(product).shape.known().unwrap();
            net.program.nodes.pop();
            net.program.values.pop();
            node.fused.residual = true;
            let out = word_type(&mut rng, &shape);
            let id = net.node(node, &[x, w], &out);
            net.program.nodes.last_mut().unwrap().inputs.extend([Some(bias), Some(other)]);
            id
        } else {
            let a = net.input(rng.byte_type(&[rows, k]));
            let b = net.input(rng.byte_type(&[if case % 4 == 1 { 1 } else { k }]));
            let out = word_type(&mut rng, &[]);
            net.node(op("Add"), &[a, b], &out)
        };
        check(&net.output(y), &mut rng);
    }
}

fn dynamic(net: &mut Net, rng: &mut Rng, x: ValueId, n: usize) -> ValueId {
    let k = *net.ty(x).shape.known().unwrap().last().unwrap();
    let (lo, hi) = (-127, 127);
    let codes: Vec<i64> = (0..k * n).map(|_| rng.range(lo, hi)).collect();
    let codes = Tensor::from_ints(DataType::S8, &[k, n], &codes).unwrap();
    let n_scales = if rng.range(0, 1) == 0 { n } else { 1 };
    let scales: Vec<f32> = (0..n_scales).map(|_| rng.scale()).collect();
    let scales = Tensor::from_slice(&[n_scales], &scales).unwrap();
    let mut inputs = vec![x, net.constant(codes.ty(), codes), net.constant(scales.ty(), scales)];
    if rng.range(0, 1) == 0 {
        inputs.push(net.random(TensorType::fixed(DataType::F32, &[n]), rng));
    }
    net.node(own_op("DynamicMatMul"), &inputs, &TensorType::fixed(DataType::F32, &[]))
}

#[test]
fn dynamic_products() {
    let mut rng = Rng::new(204);
    for case in 0..40 {
        let (rows, k) = (rng.range(1, 20) as usize, rng.range(1, 90) as usize);
        let shape = if case % 2 == 0 { vec![rows, k] } else { vec![2, rows, k] };
        let mut net = Net::default();
        let x = net.input(TensorType::fixed(DataType::F32, &shape));
        let n = rng.range(1, 50) as usize;
        let inner = dynamic(&mut net, &mut rng, x, n);
        let y = dynamic(&mut net, &mut rng, inner, 7);
        let program = net.output(y);
        let mut inputs = data(&program, &mut rng);
        // A zero row, a huge row, a row with NaN and infinity.
        let values = inputs[0].as_slice_mut::<f32>().unwrap();
        match case % 4 {
            0 => values[..k].fill(0.0),
            1 => values[..k].iter_mut().for_each(|v| *v *= 1e30),
            2 => values[0] = f32::NAN,
            _ => values[k - 1] = f32::INFINITY,
        }
        check_with(&program, &inputs);
    }
}

fn lookup(rng: &mut Rng, wide: bool, indices: &[i64]) -> (Program, Vec<Tensor>) {
    let mut net = Net::default();
    let table = rng.byte_type(&[11, 6]);
    let table = net.random(table, rng);
    let dtype = if wide { DataType::S64 } else { DataType::S32 };
    let ids = net.input(TensorType::fixed(dtype, &[2, indices.len() / 2]));
    let mut node = op("Gather");
    node.attrs.set("axis", Attr::Int(0));
    let like = net.ty(table);
    let y = net.node(node, &[table, ids], &like);
    let data = Tensor::from_ints(dtype, &[2, indices.len() / 2], indices).unwrap();
    (net.output(y), vec![data])
}

#[test]
fn rows_are_looked_up_and_outside_is_an_error() {
    let mut rng = Rng::new(205);
    for wide in [false, true] {
        let (program, inputs) = lookup(&mut rng, wide, &[0, 10, -1, 5, -11, 3]);
        check_with(&program, &inputs);
        let device = CpuDevice::new(Isa::portable(), 1).unwrap();
        let compiled = device.program(&program).unwrap();
        let (_, outside) = lookup(&mut rng, wide, &[0, 1, 2, 11, 4, 5]);
        let mut out = vec![0u8; 36];
        let error = compiled.run(&[outside[0].bytes()], &mut [&mut out], None).unwrap_err();
        assert!(error.to_string().contains("index 11 is outside an axis of 11"), "{error}");
    }
}

#[test]
fn what_has_no_kernel_is_refused() {
    let device = CpuDevice::new(Isa::portable(), 1).unwrap();
    let mut rng = Rng::new(206);
    let mut refuses = |node: Node, x: TensorType, keep: &[usize]| {
        let mut net = Net::default();
        let (x, keep) = (net.input(x), net.input(TensorType::fixed(DataType::S64, keep)));
        let y = net.node(node, &[x, keep], &rng.byte_type(&[]));
        let program = net.output(y);
        assert!(!device.assess(&program).unwrap()[0].is_supported(), "{program:?}");
    };
    let bytes = || TensorType::fixed(DataType::U8, &[2, 3, 4]).quantized(QuantParams::per_tensor(0.1, 0));
    let mut mean = own_op("MaskedMean");
    mean.attrs.set("axis", Attr::Int(1));
    refuses(mean, bytes(), &[2, 3, 4]);
    refuses(own_op("MaskedSoftmax"), word_type(&mut Rng::new(1), &[2, 3]), &[2, 3]);
}
