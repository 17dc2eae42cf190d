//! f32 convolution and matrix product: bit-equal to the naive sum of fused multiply-adds, for every instruction set and thread count.

mod common;

use common::{Rng, for_each_exec, shape, shapes, taps};
use ottava_kernels::{ConvF32, ConvShape, KernelError, WeightLayout};

fn floats(n: usize, rng: &mut Rng) -> Vec<f32> {
    (0..n).map(|_| rng.float(-1.0, 1.0) * [1.0, 1e-20, 1e3][(rng.next() >> 30) as usize % 3]).collect()
}

/// By definition; weights `[h][w][in][out]`.
fn reference(s: &ConvShape, batch: usize, x: &[f32], w: &[f32], bias: Option<&[f32]>, lo: f32, hi: f32) -> Vec<u32> {
    let [oh, ow] = s.out_hw().unwrap();
    let mut acc = vec![0f32; batch * oh * ow * s.out_c];
    taps(s, batch, |o, k, i| acc[o] = x[i].mul_add(w[k * s.out_c + o % s.out_c], acc[o]));
    let finish = |(o, acc): (usize, &f32)| {
        let sum = bias.map_or(*acc, |b| *acc + b[o % s.out_c]);
        let sum = if lo > sum { lo } else { sum };
        if hi < sum { hi } else { sum }
    };
    acc.iter().enumerate().map(|a| finish(a).to_bits()).collect()
}

fn check(s: &ConvShape, batch: usize, x: &[f32], w: &[f32], bias: Option<&[f32]>, lo: f32, hi: f32) {
    let plan = ConvF32::new(*s, w, WeightLayout::Hwio, bias, lo, hi).unwrap();
    let want = reference(s, batch, x, w, bias, lo, hi);
    for_each_exec(|exec, name| {
        let mut out = vec![f32::NAN; want.len()];
        plan.run(exec, x, &mut out).unwrap();
        assert_eq!(out.iter().map(|f| f.to_bits()).collect::<Vec<_>>(), want, "{name} {s:?}");
    });
}

#[test]
fn every_shape_gives_the_bits_of_the_definition() {
    let mut rng = Rng(3);
    let wide = shape([9, 9, 40, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 40]);
    for s in shapes().into_iter().chain([wide, ConvShape::gemm(300, 50)]) {
        let n = s.kernel[0] * s.kernel[1] * (s.in_c / s.groups) * s.out_c;
        let (w, bias) = (floats(n, &mut rng), floats(s.out_c, &mut rng));
        for batch in [1, 3, 7] {
            let x = floats(batch * s.in_h * s.in_w * s.in_c, &mut rng);
            check(&s, batch, &x, &w, None, f32::NEG_INFINITY, f32::INFINITY);
            check(&s, batch, &x, &w, Some(&bias), 0.0, 6.0);
        }
    }
}

#[test]
fn padding_is_skipped_not_multiplied() {
    let s = shape([3, 3, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    let mut w = [1.0; 9];
    w[0] = f32::INFINITY;
    let plan = ConvF32::new(s, &w, WeightLayout::Hwio, None, f32::NEG_INFINITY, f32::INFINITY).unwrap();
    for_each_exec(|exec, name| {
        let mut out = [0.0; 9];
        plan.run(exec, &[1.0; 9], &mut out).unwrap();
        assert_eq!(out[..3], [4.0, 6.0, 4.0], "{name}");
        assert_eq!(out[8], f32::INFINITY, "{name}");
    });
}

#[test]
fn underflow_to_negative_zero_is_kept() {
    let tiny = f32::from_bits(1);
    check(&ConvShape::gemm(1, 3), 1, &[tiny], &[-tiny, tiny, 0.5], None, f32::NEG_INFINITY, f32::INFINITY);
}

#[test]
fn nan_and_infinity_propagate() {
    let x = [f32::INFINITY, 1.0, f32::NAN, 1.0];
    let plan = ConvF32::new(ConvShape::gemm(2, 1), &[1.0, 1.0], WeightLayout::KN, None, 0.0, f32::INFINITY).unwrap();
    for_each_exec(|exec, name| {
        let mut out = [0.0; 2];
        plan.run(exec, &x, &mut out).unwrap();
        assert!(out[0] == f32::INFINITY && out[1].is_nan(), "{name} {out:?}");
    });
}

#[test]
fn wrong_lengths_are_errors() {
    let s = ConvShape::gemm(2, 3);
    let new = |w: &[f32], b: Option<&[f32]>| ConvF32::new(s, w, WeightLayout::KN, b, 0.0, 1.0).map(|_| ());
    assert!(matches!(new(&[0.0; 5], None), Err(KernelError::Length { .. })));
    assert!(matches!(new(&[0.0; 6], Some(&[0.0; 2])), Err(KernelError::Length { .. })));
    let plan = ConvF32::new(s, &[0.0; 6], WeightLayout::KN, None, 0.0, 1.0).unwrap();
    for_each_exec(|exec, _| {
        assert!(plan.run(exec, &[0.0; 3], &mut [0.0; 3]).is_err());
        assert!(plan.run(exec, &[0.0; 4], &mut [0.0; 5]).is_err());
    });
}
