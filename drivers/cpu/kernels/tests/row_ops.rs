//! Softmax and LayerNormalization against the reference mathematics, for every instruction set and thread count.

mod common;

use common::{Rng, for_each_exec};
use ottava_hal::refmath::rows::{layer_norm_row, softmax_row};
use ottava_kernels::{LayerNorm, layer_norm_f32, softmax_f32};

/// Number and length of rows: groups of eight and rests, steps and rests.
const SHAPES: [[usize; 2]; 8] = [[1, 1], [7, 16], [8, 16], [9, 17], [16, 128], [25, 33], [64, 5], [11, 768]];

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| if v.is_nan() { 0x7fc0_0000 } else { v.to_bits() }).collect()
}

fn data(n: usize, rng: &mut Rng) -> Vec<f32> {
    (0..n).map(|_| rng.float(-8.0, 8.0)).collect()
}

#[test]
fn softmax_gives_the_bits_of_the_definition() {
    let mut rng = Rng(21);
    for [n, len] in SHAPES {
        let mut x = data(n * len, &mut rng);
        for (at, special) in
            [(n * len / 2, f32::NAN), (0, f32::INFINITY), (n * len - 1, f32::NEG_INFINITY), (len / 2, -0.0)]
        {
            let mut want = vec![0.0; x.len()];
            x.chunks(len).zip(want.chunks_mut(len)).for_each(|(x, y)| softmax_row(x, y));
            for_each_exec(|exec, name| {
                let mut out = vec![f32::NAN; x.len()];
                softmax_f32(exec, len, &x, &mut out).unwrap();
                assert!(bits(&out) == bits(&want), "{name} {n} rows of {len}");
            });
            x[at] = special;
        }
    }
}

#[test]
fn layer_norm_gives_the_bits_of_the_definition() {
    let mut rng = Rng(22);
    for [n, len] in SHAPES {
        let (x, gamma, beta) = (data(n * len, &mut rng), data(len, &mut rng), data(len, &mut rng));
        for (scale, bias) in
            [(Some(&gamma[..]), Some(&beta[..])), (Some(&gamma[..]), None), (None, Some(&beta[..])), (None, None)]
        {
            let mut want = vec![0.0; x.len()];
            x.chunks(len).zip(want.chunks_mut(len)).for_each(|(x, y)| layer_norm_row(x, scale, bias, 1e-5, y));
            let norm = LayerNorm { len, scale, bias, eps: 1e-5 };
            for_each_exec(|exec, name| {
                let mut out = vec![f32::NAN; x.len()];
                layer_norm_f32(exec, &norm, &x, &mut out).unwrap();
                assert!(bits(&out) == bits(&want), "{name} {n} rows of {len}");
            });
        }
    }
}

#[test]
fn what_is_no_row_is_an_error() {
    for_each_exec(|exec, _| {
        let mut out = [0.0; 6];
        assert!(softmax_f32(exec, 4, &[0.0; 6], &mut out).is_err());
        assert!(softmax_f32(exec, 0, &[0.0; 6], &mut out).is_err());
        assert!(softmax_f32(exec, 3, &[0.0; 3], &mut out).is_err());
        let norm = LayerNorm { len: 3, scale: Some(&[1.0; 2]), bias: None, eps: 0.0 };
        assert!(layer_norm_f32(exec, &norm, &[0.0; 6], &mut out).is_err());
    });
}
