//! Chains and tables against the reference mathematics and naive loops, for every instruction set and thread count.

mod common;

use common::{Rng, for_each_exec};
use ottava_hal::refmath::{float, unary as sequences};
use ottava_kernels::{
    BinaryOp, Chain, ChainInput, ChainOp, ChainOut, KernelError, OtherQ, OutMut, OutQ, Unary, lut_rows,
};

type Reference = fn(f32) -> f32;

const FUNCTIONS: [(Unary, Reference); 16] = [
    (Unary::Relu, float::relu),
    (Unary::LeakyRelu(0.2), |x| sequences::leaky_relu(x, 0.2)),
    (Unary::HardSigmoid(0.3, 0.4), |x| sequences::hard_sigmoid(x, 0.3, 0.4)),
    (Unary::HardSwish, sequences::hard_swish),
    (Unary::Sigmoid, float::sigmoid),
    (Unary::Tanh, float::tanh),
    (Unary::Exp, float::exp),
    (Unary::Erf, float::erf),
    (Unary::Sqrt, f32::sqrt),
    (Unary::Log, float::log),
    (Unary::Abs, f32::abs),
    (Unary::Neg, |x| -x),
    (Unary::Reciprocal, |x| 1.0 / x),
    (Unary::Swish(1.5), |x| x * float::sigmoid(1.5 * x)),
    (Unary::Gelu, sequences::gelu),
    (Unary::Clip(-0.5, 2.0), |x| sequences::clip(x, -0.5, 2.0)),
];

/// Every 65537th bit pattern, and ordinary numbers.
fn arguments() -> Vec<f32> {
    let mut rng = Rng(9);
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, -1e-40, 89.5, -104.5, 0.625, 1.0, 4.0];
    let patterns = (0..=u32::MAX).step_by(65_537).map(f32::from_bits);
    patterns.chain(special).chain((0..20_000).map(|_| rng.float(-20.0, 20.0))).collect()
}

fn canonical(x: f32) -> u32 {
    if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }
}

#[test]
fn functions_give_the_bits_of_their_sequences() {
    let x = arguments();
    for (f, reference) in FUNCTIONS {
        let chain = Chain::new(&[ChainOp::Floats(0), ChainOp::Unary(f, 0)], 0, ChainOut::Floats).unwrap();
        for_each_exec(|exec, name| {
            let mut out = vec![0.0; x.len()];
            chain.run(exec, &[ChainInput::Floats(&x)], OutMut::F32(&mut out)).unwrap();
            for (x, y) in x.iter().zip(&out) {
                let want = reference(*x);
                assert_eq!(canonical(*y), canonical(want), "{name} {f:?}({x:?}) = {y:?}, expected {want:?}");
            }
        });
    }
}

const Q: OtherQ = OtherQ { scale: 0.043, zero_point: 120, signed: false };

/// `round(erf(q(x) + row) * (2 - other))`, a value used twice, a row and a scalar on the left.
fn mixed(width: usize, row: &[f32]) -> (Vec<ChainOp>, ChainOut) {
    let ops = vec![
        ChainOp::Bytes(0, Q),
        ChainOp::Row(row.to_vec()),
        ChainOp::Binary(BinaryOp::Add, 1, 0),
        ChainOp::Unary(Unary::Erf, 2),
        ChainOp::Floats(1),
        ChainOp::Scalar(2.0),
        ChainOp::Binary(BinaryOp::Sub, 5, 4),
        ChainOp::Binary(BinaryOp::Mul, 3, 6),
        ChainOp::Binary(BinaryOp::Mul, 7, 2),
    ];
    assert_eq!(row.len(), width);
    (ops, ChainOut::Bytes(0.02, OutQ { zero_point: -3, lo: -100, hi: 127, signed: true }))
}

#[test]
fn chains_equal_one_operation_after_another() {
    let mut rng = Rng(4);
    for (width, n_rows) in [(1, 1000), (3, 100), (64, 9), (255, 3), (256, 5), (257, 4), (700, 7), (3072, 3)] {
        let n = width * n_rows;
        let row: Vec<f32> = (0..width).map(|_| rng.float(-1.0, 1.0)).collect();
        let bytes: Vec<u8> = (0..n).map(|_| rng.byte()).collect();
        let floats: Vec<f32> = (0..n).map(|_| rng.float(-3.0, 3.0)).collect();
        let (ops, out_type) = mixed(width, &row);
        let chain = Chain::new(&ops, width, out_type).unwrap();
        let one = |i: usize| {
            let sum = row[i % width] + (i32::from(bytes[i]) - 120) as f32 * 0.043;
            let y = float::erf(sum) * (2.0 - floats[i]) * sum;
            ((y / 0.02).round_ties_even() as i32 - 3).clamp(-100, 127) as u8
        };
        let want: Vec<u8> = (0..n).map(one).collect();
        for_each_exec(|exec, name| {
            let mut out = vec![0; n];
            let inputs = [ChainInput::Bytes(&bytes), ChainInput::Floats(&floats)];
            chain.run(exec, &inputs, OutMut::Bytes(&mut out)).unwrap();
            assert!(out == want, "{name} rows of {width}");
        });
    }
}

#[test]
fn rows_alone_and_values_used_twice() {
    let rows = [ChainOp::Row(vec![1.0, 2.0, 3.0]), ChainOp::Row(vec![10.0, 20.0, 30.0]), ChainOp::Floats(0)];
    let sum = [
        ChainOp::Binary(BinaryOp::Add, 0, 1),
        ChainOp::Binary(BinaryOp::Mul, 2, 2),
        ChainOp::Binary(BinaryOp::Sub, 3, 4),
    ];
    let chain = Chain::new(&[rows.to_vec(), sum.to_vec()].concat(), 3, ChainOut::Floats).unwrap();
    for_each_exec(|exec, name| {
        let mut out = [0.0; 6];
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        chain.run(exec, &[ChainInput::Floats(&x)], OutMut::F32(&mut out)).unwrap();
        assert_eq!(out, [10.0, 18.0, 24.0, -5.0, -3.0, -3.0], "{name}");
    });
}

#[test]
fn a_scalar_that_is_named_late_is_none_the_less_there_from_the_start() {
    let mut ops = vec![ChainOp::Floats(0)];
    for i in 0..9 {
        ops.push(ChainOp::Scalar(i as f32));
        ops.push(ChainOp::Binary(BinaryOp::Add, 2 * i, 2 * i + 1));
    }
    let chain = Chain::new(&ops, 0, ChainOut::Floats).unwrap();
    for_each_exec(|exec, name| {
        let mut out = vec![0.0; 700];
        chain.run(exec, &[ChainInput::Floats(&[0.5; 700])], OutMut::F32(&mut out)).unwrap();
        assert!(out.iter().all(|y| *y == 36.5), "{name}");
    });
}

#[test]
fn what_does_not_fit_is_an_error() {
    let new = |ops: &[ChainOp], period| Chain::new(ops, period, ChainOut::Floats).map(|_| ());
    assert!(new(&[], 0).is_err());
    assert!(new(&[ChainOp::Unary(Unary::Exp, 0)], 0).is_err(), "its own operand");
    assert!(matches!(new(&[ChainOp::Row(vec![1.0])], 2), Err(KernelError::Length { .. })));
    let many: Vec<ChainOp> = (0..60).map(|i| ChainOp::Scalar(i as f32)).chain([ChainOp::Floats(0)]).collect();
    assert!(new(&many, 0).is_err(), "too many values");
    let chain = Chain::new(&[ChainOp::Floats(0)], 0, ChainOut::Floats).unwrap();
    for_each_exec(|exec, _| {
        let mut out = [0.0; 4];
        assert!(chain.run(exec, &[ChainInput::Floats(&[0.0; 3])], OutMut::F32(&mut out)).is_err());
        assert!(chain.run(exec, &[ChainInput::Bytes(&[0; 4])], OutMut::F32(&mut out)).is_err());
        assert!(chain.run(exec, &[ChainInput::Floats(&[0.0; 4])], OutMut::Bytes(&mut [0; 4])).is_err());
    });
}

#[test]
fn tables_differ_from_column_to_column() {
    let mut rng = Rng(8);
    for (width, n_rows) in [(1, 50), (63, 4), (64, 3), (200, 5)] {
        let tables: Vec<[u8; 256]> = (0..width).map(|_| core::array::from_fn(|_| rng.byte())).collect();
        let x: Vec<u8> = (0..width * n_rows).map(|_| rng.byte()).collect();
        let want: Vec<u8> = x.iter().enumerate().map(|(i, x)| tables[i % width][usize::from(*x)]).collect();
        for_each_exec(|exec, name| {
            let mut out = vec![0; x.len()];
            lut_rows(exec, &x, &tables, &mut out).unwrap();
            assert_eq!(out, want, "{name}");
            assert!(lut_rows(exec, &x, &[], &mut out).is_err());
        });
    }
}
