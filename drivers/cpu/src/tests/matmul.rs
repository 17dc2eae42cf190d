//! Float MatMul of two operands known at run time, and weights that half precision holds.

use crate::device::CpuDevice;
use crate::testing::{Net, Rng, check, op};
use ottava_hal::program::Activation;
use ottava_hal::{Attr, DataType, Node, Program, Tensor, TensorType};
use ottava_kernels::Isa;

fn f32_type(dims: &[usize]) -> TensorType {
    TensorType::fixed(DataType::F32, dims)
}

fn product(a: &[usize], b: &[usize]) -> Program {
    let mut net = Net::default();
    let inputs = [net.input(f32_type(a)), net.input(f32_type(b))];
    let y = net.node(op("MatMul"), &inputs, &f32_type(&[]));
    net.output(y)
}

#[test]
fn products_of_two_inputs_equal_the_reference() {
    let mut rng = Rng::new(11);
    let cases: &[(&[usize], &[usize])] = &[
        (&[3, 4], &[4, 5]),
        (&[1, 1], &[1, 1]),
        (&[2, 3, 7, 13], &[2, 3, 13, 17]),
        (&[2, 1, 6, 5], &[3, 5, 16]),
        (&[31, 37], &[5, 37, 33]),
        (&[4, 7, 400], &[400, 3]),
        (&[1, 2, 300, 8], &[8, 40]),
    ];
    for (a, b) in cases {
        check(&product(a, b), &mut rng);
    }
}

#[test]
fn one_input_may_be_both_operands_and_the_left_one_a_constant() {
    let mut rng = Rng::new(12);
    let mut net = Net::default();
    let x = net.input(f32_type(&[2, 9, 9]));
    let squared = net.node(op("MatMul"), &[x, x], &f32_type(&[]));
    let left = net.random(f32_type(&[4, 9]), &mut rng);
    let y = net.node(op("MatMul"), &[left, squared], &f32_type(&[]));
    check(&net.output(y), &mut rng);
}

/// A product with a constant weight of these values.
fn weighted(node: Node, dims: &[usize], values: &[f32]) -> Program {
    let mut net = Net::default();
    let x = net.input(f32_type(&[5, dims[0]]));
    let w = net.constant(f32_type(dims), Tensor::from_f32s(DataType::F32, dims, values).unwrap());
    let y = net.node(node, &[x, w], &f32_type(&[]));
    net.output(y)
}

#[test]
fn weights_that_half_precision_holds_take_half_the_bytes() {
    let (mut rng, dims) = (Rng::new(13), [96, 80]);
    let n = dims[0] * dims[1];
    for dtype in [DataType::F16, DataType::BF16, DataType::F32] {
        let values: Vec<f32> = (0..n).map(|_| rng.real(-1.0, 1.0) * 0.3).collect();
        let stored = Tensor::from_f32s(dtype, &dims, &values).unwrap().to_f32s().unwrap();
        let program = weighted(op("MatMul"), &dims, &stored);
        check(&program, &mut rng);
        let device = CpuDevice::new(Isa::detect(), 1).unwrap();
        let bytes = device.program(&program).unwrap().save().unwrap().len();
        println!("{dtype}: {bytes} bytes for {} of f32 weights", n * 4);
        assert_eq!(bytes < n * 3, dtype != DataType::F32, "{dtype}: {bytes} bytes");
    }
}

/// Random Adds behind a product: bias vectors, values computed before and after it, constants, twice the same; with activations.
#[test]
fn sums_behind_products_equal_the_reference() {
    let (mut rng, dims) = (Rng::new(17), [2, 5, 12]);
    for case in 0..60 {
        let mut net = Net::default();
        let (x, early) = (net.input(f32_type(&dims)), net.input(f32_type(&dims)));
        let w = net.random(f32_type(&[12, 12]), &mut rng);
        let mut y = net.node(op("MatMul"), &[x, w], &f32_type(&[]));
        let first = y;
        let late = net.node(op("Abs"), &[early], &f32_type(&[]));
        for _ in 0..1 + case % 3 {
            let vector = net.random(f32_type(&[12]), &mut rng);
            let (row, whole) = (net.random(f32_type(&[1, 12]), &mut rng), net.random(f32_type(&dims), &mut rng));
            let other = rng.pick(&[vector, row, whole, early, late, x, y, first]);
            let mut add = op("Add");
            add.fused.act = rng.pick(&[None, None, Some(Activation::Relu)]);
            let inputs = if rng.range(0, 1) == 0 { [y, other] } else { [other, y] };
            y = net.node(add, &inputs, &f32_type(&[]));
        }
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn a_bias_and_a_residual_behind_a_product_equal_the_reference() {
    let mut rng = Rng::new(23);
    for act in [None, Some(Activation::Relu)] {
        let mut net = Net::default();
        let x = net.input(f32_type(&[5, 12]));
        let (w, vector) = (net.random(f32_type(&[12, 12]), &mut rng), net.random(f32_type(&[12]), &mut rng));
        let product = net.node(op("MatMul"), &[x, w], &f32_type(&[]));
        let biased = net.node(op("Add"), &[product, vector], &f32_type(&[]));
        let mut add = op("Add");
        add.fused.act = act;
        let y = net.node(add, &[x, biased], &f32_type(&[]));
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn residual_blocks_equal_the_reference() {
    let mut rng = Rng::new(19);
    for act in [None, Some(Activation::Relu)] {
        let mut net = Net::default();
        let x = net.input(f32_type(&[2, 6, 7, 5]));
        let mut conv = op("Conv");
        conv.attrs.set("pads", Attr::Ints(vec![1; 4]));
        let (v, w) = (net.random(f32_type(&[6, 6, 3, 3]), &mut rng), net.random(f32_type(&[6, 6, 3, 3]), &mut rng));
        let inner = net.node(conv.clone(), &[x, v], &f32_type(&[]));
        let trunk = net.node(conv, &[inner, w], &f32_type(&[]));
        let mut add = op("Add");
        add.fused.act = act;
        let y = net.node(add, &[trunk, x], &f32_type(&[]));
        check(&net.output(y), &mut rng);
    }
}
