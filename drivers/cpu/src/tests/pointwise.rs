//! Elementwise operators, bridges, tables and Softmax against the reference.

use crate::testing::{Net, Rng, check, check_with, op, own_op};
use ottava_hal::program::Activation;
use ottava_hal::{Attr, DataType, Node, Program, Tensor, TensorType};

fn float(dims: &[usize]) -> TensorType {
    TensorType::fixed(DataType::F32, dims)
}

fn one_input(node: Node, x: TensorType, y: &TensorType) -> Program {
    let mut net = Net::default();
    let x = net.input(x);
    let y = net.node(node, &[x], y);
    net.output(y)
}

#[test]
fn float_functions_equal_the_reference() {
    let mut rng = Rng::new(11);
    let names = "Relu LeakyRelu HardSigmoid HardSwish Sigmoid Tanh Exp Erf Sqrt Log Abs Neg Reciprocal Swish Gelu";
    for name in names.split(' ') {
        let program = one_input(op(name), float(&[9, 1201]), &float(&[]));
        check(&program, &mut rng);
        let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, -1e-40, 89.5, -104.0, 0.625, 4.0];
        let program = one_input(op(name), float(&[special.len()]), &float(&[]));
        check_with(&program, &[Tensor::from_slice(&[special.len()], &special).unwrap()]);
    }
}

#[test]
fn float_clip_equals_the_reference() {
    let mut rng = Rng::new(12);
    let scalar = |v: f32| Tensor::scalar(v);
    for (lo, hi) in [(-1.0, 2.0), (2.0, -1.0), (0.0, f32::INFINITY), (f32::NAN, 1.0)] {
        let mut net = Net::default();
        let x = net.input(float(&[3, 5]));
        let (lo, hi) = (net.constant(float(&[]), scalar(lo)), net.constant(float(&[]), scalar(hi)));
        let y = net.node(op("Clip"), &[x, lo, hi], &float(&[]));
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn typed_relu_clip_and_requantize_equal_the_reference() {
    let mut rng = Rng::new(13);
    for case in 0..24 {
        let (x, y) = (rng.byte_type(&[2, 3, 5, 7]), rng.byte_type(&[]));
        let same = case % 3 == 0;
        let y = if same { x.clone() } else { y };
        let clamp = if case % 2 == 0 { Some((3, 60)) } else { None };
        for name in ["Relu", "Requantize"] {
            let mut node = if name == "Relu" { op(name) } else { own_op(name) };
            node.fused.clamp = clamp;
            check(&one_input(node, x.clone(), &y), &mut rng);
        }
        let mut net = Net::default();
        let id = net.input(x);
        let bounds = [-0.3f32, 0.7].map(|v| net.constant(float(&[]), Tensor::scalar(v)));
        let y = net.node(op("Clip"), &[id, bounds[0], bounds[1]], &y);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn tables_and_bridges_equal_the_reference() {
    let mut rng = Rng::new(14);
    for _ in 0..12 {
        let (x, y) = (rng.byte_type(&[2, 700]), rng.byte_type(&[256]));
        let mut net = Net::default();
        let id = net.input(x.clone());
        let table = net.random(y.clone(), &mut rng);
        let out = net.node(own_op("Lut"), &[id, table], &y);
        check(&net.output(out), &mut rng);
        check(&one_input(own_op("Dequantize"), x.clone(), &float(&[])), &mut rng);
        let mut node = own_op("Quantize");
        node.fused.clamp = Some((10, 90));
        check(&one_input(node, float(&[3, 41]), &y), &mut rng);
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, 0.0];
        let program = one_input(own_op("Quantize"), float(&[6]), &y);
        check_with(&program, &[Tensor::from_slice(&[6], &special).unwrap()]);
    }
}

#[test]
fn typed_arithmetic_equals_the_reference() {
    let mut rng = Rng::new(15);
    let shapes: [(&[usize], &[usize]); 5] = [
        (&[2, 3, 4, 5], &[2, 3, 4, 5]),
        (&[2, 3, 4, 5], &[3, 1, 1]),
        (&[2, 3, 1, 1], &[2, 3, 4, 5]),
        (&[7], &[]),
        (&[4, 1], &[3]),
    ];
    for name in ["Add", "Sub", "Mul", "Div"] {
        for (a, b) in shapes {
            for constant in [false, true] {
                let mut net = Net::default();
                let (a, b) = (rng.byte_type(a), rng.byte_type(b));
                let a = net.input(a);
                let b = if constant { net.random(b, &mut rng) } else { net.input(b) };
                let mut node = op(name);
                node.fused.clamp = rng.pick(&[None, Some((0, 77))]);
                let y = net.node(node, &[a, b], &rng.byte_type(&[]));
                check(&net.output(y), &mut rng);
            }
        }
    }
}

#[test]
fn an_operand_may_be_used_twice() {
    let mut rng = Rng::new(16);
    let mut net = Net::default();
    let x = net.input(rng.byte_type(&[2, 9]));
    let y = net.node(op("Add"), &[x, x], &rng.byte_type(&[]));
    let z = net.node(op("Mul"), &[y, y], &rng.byte_type(&[]));
    check(&net.output(z), &mut rng);
}

#[test]
fn float_arithmetic_equals_the_reference() {
    let mut rng = Rng::new(17);
    let shapes: [(&[usize], &[usize]); 4] =
        [(&[2, 3, 4, 5], &[2, 3, 4, 5]), (&[2, 3, 4, 5], &[3, 1, 1]), (&[1, 3, 1], &[2, 1, 4]), (&[6], &[])];
    for name in ["Add", "Sub", "Mul", "Div"] {
        for (a, b) in shapes {
            let mut net = Net::default();
            let a = net.input(float(a));
            let b = if name == "Sub" { net.random(float(b), &mut rng) } else { net.input(float(b)) };
            let mut node = op(name);
            node.fused.act = rng.pick(&[None, Some(Activation::Relu), Some(Activation::Clip { lo: -1.0, hi: 0.5 })]);
            let y = net.node(node, &[a, b], &float(&[]));
            check(&net.output(y), &mut rng);
        }
    }
}

#[test]
fn softmax_equals_the_reference() {
    let mut rng = Rng::new(18);
    for (version, axis, dims) in [
        (13, -1, vec![3, 40]),
        (13, 1, vec![2, 600]),
        (11, 1, vec![2, 3, 4]),
        (13, 2, vec![2, 5, 9]),
        (22, 1, vec![2, 7, 1, 1]),
    ] {
        let mut node = op("Softmax");
        node.version = version;
        node.attrs.set("axis", Attr::Int(axis));
        check(&one_input(node.clone(), float(&dims), &float(&[])), &mut rng);
        check(&one_input(node, rng.byte_type(&dims), &rng.byte_type(&[])), &mut rng);
    }
}

#[test]
fn batch_normalization_equals_the_reference() {
    let mut rng = Rng::new(19);
    for dims in [vec![2, 5, 6, 7], vec![3, 4], vec![1, 3, 9]] {
        let mut net = Net::default();
        let mut inputs = vec![net.input(float(&dims))];
        for _ in 0..3 {
            inputs.push(net.random(float(&dims[1..2]), &mut rng));
        }
        let var: Vec<f32> = (0..dims[1]).map(|_| rng.real(0.1, 3.0)).collect();
        inputs.push(net.constant(float(&dims[1..2]), Tensor::from_slice(&dims[1..2], &var).unwrap()));
        let y = net.node(op("BatchNormalization"), &inputs, &float(&[]));
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn layer_normalization_equals_the_reference() {
    let mut rng = Rng::new(20);
    for (axis, row) in [(-1, vec![9]), (1, vec![5, 9])] {
        for n_operands in [1, 2] {
            let mut net = Net::default();
            let mut inputs = vec![net.input(float(&[300, 5, 9]))];
            for _ in 0..n_operands {
                inputs.push(net.random(float(&row), &mut rng));
            }
            let mut node = op("LayerNormalization");
            node.attrs.set("axis", Attr::Int(axis));
            let y = net.node(node, &inputs, &float(&[]));
            check(&net.output(y), &mut rng);
        }
    }
}

/// GELU as exported: bias, `x / sqrt 2`, Erf, `+ 1`, `* x`, `* 0.5` between bytes.
fn gelu(rng: &mut Rng, x: TensorType, bias: &[usize], read_twice: bool) -> Program {
    let mut net = Net::default();
    let id = net.input(x);
    let mut x = net.node(own_op("Dequantize"), &[id], &float(&[]));
    let scalar = |net: &mut Net, v: f32| net.constant(float(&[]), Tensor::scalar(v));
    let b = net.random(float(bias), rng);
    x = net.node(op("Add"), &[b, x], &float(&[]));
    let root = scalar(&mut net, std::f32::consts::SQRT_2);
    let mut y = net.node(op("Div"), &[x, root], &float(&[]));
    y = net.node(op("Erf"), &[y], &float(&[]));
    let one = scalar(&mut net, 1.0);
    y = net.node(op("Add"), &[y, one], &float(&[]));
    y = net.node(op("Mul"), &[x, y], &float(&[]));
    let half = scalar(&mut net, 0.5);
    y = net.node(op("Mul"), &[y, half], &float(&[]));
    if read_twice {
        net.program.outputs.push(x);
    }
    let y = net.node(own_op("Quantize"), &[y], &rng.byte_type(&[]));
    net.output(y)
}

#[test]
fn chains_equal_the_reference() {
    let mut rng = Rng::new(17);
    let cases: [(&[usize], &[usize]); 6] = [
        (&[2, 20, 33], &[33]),
        (&[40, 7], &[1, 7]),
        (&[3, 300], &[3, 300]),
        (&[5, 9], &[1]),
        (&[2, 5, 3], &[5, 1]),
        (&[2, 40, 3], &[2, 1, 1]),
    ];
    for (x, bias) in cases {
        for read_twice in [false, true] {
            let x = rng.byte_type(x);
            let program = gelu(&mut rng, x, bias, read_twice);
            check(&program, &mut rng);
        }
    }
}

#[test]
fn a_dequantized_value_may_be_part_of_several_chains() {
    let mut rng = Rng::new(18);
    let mut net = Net::default();
    let (x, z) = (net.input(rng.byte_type(&[6, 40])), net.input(float(&[6, 40])));
    let real = net.node(own_op("Dequantize"), &[x], &float(&[]));
    let a = net.node(op("Add"), &[real, z], &float(&[]));
    let norm = net.node(op("Softmax"), &[a], &float(&[]));
    let b = net.node(op("Mul"), &[norm, real], &float(&[]));
    let c = net.node(own_op("Quantize"), &[b], &rng.byte_type(&[]));
    net.program.outputs.extend([a, c]);
    let y = net.node(op("Sub"), &[b, real], &float(&[]));
    check(&net.output(y), &mut rng);
}

#[test]
fn long_chains_are_cut() {
    let mut rng = Rng::new(19);
    let mut net = Net::default();
    let x = net.input(float(&[7, 30]));
    let mut y = x;
    for i in 0..40 {
        let c = net.constant(float(&[]), Tensor::scalar(1.0 + i as f32 * 0.125));
        y = net.node(op(["Add", "Mul", "Sub"][i % 3]), &[y, c], &float(&[]));
    }
    let y = net.node(op("Add"), &[y, x], &float(&[]));
    check(&net.output(y), &mut rng);
}
