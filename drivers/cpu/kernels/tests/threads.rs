//! Work large enough to be split: results do not depend on the number of threads.

mod common;

use common::{Rng, bytes, shape, weights};
use ottava_kernels::{
    ConvF32, ConvShape, ConvU8, Epilogue, Exec, Isa, OutMut, OutQ, PoolShape, ThreadPool, WeightData, WeightLayout,
    Weights, average_pool_f32, max_pool,
};

/// A batch and a shape of at least half a million multiply-adds: framed, in place, matrix with odd K, one row, depthwise, grouped.
fn cases() -> Vec<(usize, ConvShape)> {
    vec![
        (1, shape([24, 23, 32, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1])),
        (2, shape([20, 20, 16, 33, 3, 3, 2, 1, 1, 1, 0, 0, 0, 0, 1])),
        (201, ConvShape::gemm(131, 70)),
        (1, ConvShape::gemm(1024, 613)),
        (1, shape([40, 40, 50, 50, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2, 50])),
        (1, shape([24, 24, 32, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 4])),
    ]
}

fn n_weights(s: &ConvShape) -> usize {
    s.kernel[0] * s.kernel[1] * (s.in_c / s.groups) * s.out_c
}

fn n_out(batch: usize, s: &ConvShape) -> usize {
    batch * s.out_hw().unwrap().iter().product::<usize>() * s.out_c
}

#[test]
fn integer_products() {
    let mut rng = Rng(61);
    for (batch, s) in cases() {
        let w = weights(4, n_weights(&s), &mut rng);
        let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::Hwio, zero_points: &[] };
        let plan = ConvU8::new(s, &spec, 77, None, Epilogue::Requant { m: vec![1e-3], out: OutQ::s8(1) }).unwrap();
        let x = bytes(3, batch * s.in_h * s.in_w * s.in_c, &mut rng);
        let run = |threads| {
            let pool = ThreadPool::new(threads).unwrap();
            let (mut out, mut scratch) = (vec![0; n_out(batch, &s)], vec![0; plan.scratch_len()]);
            let exec = Exec { isa: Isa::detect(), pool: &pool };
            plan.run(exec, &x, None, OutMut::Bytes(&mut out), &mut scratch).unwrap();
            out
        };
        let want = run(1);
        assert!(want.iter().any(|y| *y != want[0]), "a test that cannot fail: {s:?}");
        assert!([2, 3, 5].iter().all(|threads| run(*threads) == want), "{s:?}");
    }
}

#[test]
fn float_products() {
    let mut rng = Rng(62);
    for (batch, s) in cases() {
        let w: Vec<f32> = (0..n_weights(&s)).map(|_| rng.float(-1.0, 1.0)).collect();
        let plan = ConvF32::new(s, &w, WeightLayout::Hwio, None, f32::NEG_INFINITY, f32::INFINITY).unwrap();
        let x: Vec<f32> = (0..batch * s.in_h * s.in_w * s.in_c).map(|_| rng.float(-1.0, 1.0)).collect();
        let run = |threads| {
            let pool = ThreadPool::new(threads).unwrap();
            let mut out = vec![0.0; n_out(batch, &s)];
            plan.run(Exec { isa: Isa::detect(), pool: &pool }, &x, &mut out).unwrap();
            out
        };
        let want = run(1);
        assert!([2, 3, 5].iter().all(|threads| run(*threads) == want), "{s:?}");
    }
}

#[test]
fn pooling() {
    let mut rng = Rng(63);
    let s = PoolShape { kernel: [3, 3], stride: [1, 1], pads: [1; 4], ..PoolShape::global(40, 40, 70) };
    let x = bytes(3, 40 * 40 * 70, &mut rng);
    let real: Vec<f32> = x.iter().map(|b| f32::from(*b) * 0.1).collect();
    let run = |threads| {
        let pool = ThreadPool::new(threads).unwrap();
        let exec = Exec { isa: Isa::detect(), pool: &pool };
        let (mut out, mut average) = (vec![0; x.len()], vec![0.0; x.len()]);
        max_pool(exec, &s, false, &x, &mut out).unwrap();
        average_pool_f32(exec, &s, true, &real, &mut average).unwrap();
        (out, average)
    };
    let want = run(1);
    assert!([2, 3, 5].iter().all(|threads| run(*threads) == want));
}
