//! Shared memory: results in the place of operands, parts of concatenations where they will lie. `check` poisons what is
//! dead, so that an early reuse shows as a wrong number.

use crate::CpuDriver;
use crate::testing::{Net, Rng, check, op};
use ottava_hal::{Attr, CompileOptions, DataType, Driver, Options, Program, TensorType};

fn float(dims: &[usize]) -> TensorType {
    TensorType::fixed(DataType::F32, dims)
}

fn arena_bytes(program: &Program) -> usize {
    let device = CpuDriver.open("cpu", &Options::new()).unwrap();
    device.compile(program, &CompileOptions::default()).unwrap().arena_bytes()
}

/// Longer than a task of an elementwise step in place, and no multiple of its blocks.
const LONG: usize = 50_003;

#[test]
fn a_chain_of_functions_needs_no_buffer() {
    let mut rng = Rng::new(81);
    let mut net = Net::default();
    let x = net.input(float(&[LONG]));
    let mut y = x;
    for name in ["Abs", "Neg", "Relu", "Sigmoid"] {
        y = net.node(op(name), &[y], &float(&[]));
    }
    let program = net.output(y);
    check(&program, &mut rng);
    assert_eq!(arena_bytes(&program), 0);
}

#[test]
fn sums_replace_the_operand_that_dies() {
    let mut rng = Rng::new(82);
    for case in 0..4 {
        let mut net = Net::default();
        let (a, b) = (rng.byte_type(&[LONG]), rng.byte_type(&[LONG]));
        let (x, z) = (net.input(a.clone()), net.input(b));
        let p = net.node(op("Relu"), &[x], &a);
        let q = net.node(op("Relu"), &[z], &rng.byte_type(&[]));
        let pair = [[p, q], [q, p], [p, p], [q, x]][case];
        let sum = net.node(op("Add"), &pair, &rng.byte_type(&[]));
        // In the second half the first operand lives on.
        let last = if case % 2 == 0 { sum } else { net.node(op("Mul"), &[sum, pair[0]], &rng.byte_type(&[])) };
        let y = net.node(op("Sub"), &[last, sum], &rng.byte_type(&[]));
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn concatenated_parts_are_written_in_place() {
    let mut rng = Rng::new(83);
    for (dims, axis) in [(vec![1, 70, 9, 9], 1), (vec![3, 5, 7], 0), (vec![2, 40], 1), (vec![2, 6, 5, 5], 1)] {
        let mut net = Net::default();
        let x = net.input(float(&dims));
        let mut node = op("Concat");
        node.attrs.set("axis", Attr::Int(axis));
        let parts = ["Abs", "Neg", "Relu"].map(|name| net.node(op(name), &[x], &float(&[])));
        let y = net.node(node.clone(), &parts, &float(&[]));
        // A part is read besides, and is part of a second concatenation.
        let sum = net.node(op("Add"), &[parts[0], parts[1]], &float(&[]));
        let z = net.node(node, &[sum, parts[2], x], &float(&[]));
        let y = net.node(op("Tanh"), &[y], &float(&[]));
        let program = net.output(y);
        let both = Program { outputs: vec![y, z], ..program };
        check(&both, &mut rng);
    }
}

#[test]
fn parts_of_the_outermost_axis_take_no_memory_of_their_own() {
    let mut net = Net::default();
    let x = net.input(float(&[1000]));
    let mut node = op("Concat");
    node.attrs.set("axis", Attr::Int(0));
    let parts = ["Abs", "Neg"].map(|name| net.node(op(name), &[x], &float(&[])));
    let y = net.node(node, &parts, &float(&[]));
    let y = net.node(op("Relu"), &[y], &float(&[]));
    let (starts, ends) = (net.ints(&[3]), net.ints(&[9]));
    let y = net.node(op("Slice"), &[y, starts, ends], &float(&[]));
    let program = net.output(y);
    assert!((8000..8000 + 256).contains(&arena_bytes(&program)), "{}", arena_bytes(&program));
}

#[test]
fn the_first_elements_of_an_image_are_quantized_into_channels_last() {
    let mut rng = Rng::new(84);
    for (dims, name) in [([2, 3, 17, 19], "MaxPool"), ([1, 1, 9, 8], "MaxPool"), ([1, 5, 1, 70], "GlobalAveragePool")] {
        let mut net = Net::default();
        let x = net.input(float(&dims));
        let ty = rng.byte_type(&[]);
        let q = net.node(crate::testing::own_op("Quantize"), &[x], &ty);
        let mut node = op(name);
        if name == "MaxPool" {
            node.attrs.set("kernel_shape", Attr::Ints(vec![3, 2]));
        }
        let y = net.node(node, &[q], &ty);
        let program = net.output(y);
        check(&program, &mut rng);
        let both = Program { outputs: vec![y, q], ..program };
        check(&both, &mut rng);
    }
}
