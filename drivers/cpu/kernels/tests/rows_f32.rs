//! Softmax and LayerNormalization: the bits of the reference's sequences.

mod common;

use common::{Rng, for_each_exec};
use ottava_hal::refmath::float::{exp, layer_norm_row, softmax_row};
use ottava_kernels::{layer_norm_f32, softmax_f32};

/// Bits; any NaN is one NaN.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| if v.is_nan() { 0x7FC0_0000 } else { v.to_bits() }).collect()
}

fn values(n: usize, scale: f32, rng: &mut Rng) -> Vec<f32> {
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1e-45, f32::MAX];
    let value = |rng: &mut Rng| match (rng.next() >> 33) as usize % 200 {
        0 => special[(rng.next() >> 33) as usize % special.len()],
        _ => rng.float(-scale, scale),
    };
    (0..n).map(|_| value(rng)).collect()
}

#[test]
fn rows_give_the_bits_of_their_sequences() {
    let mut rng = Rng(73);
    for (rows, len) in [(1, 1), (3, 7), (8, 64), (17, 129), (9, 200), (2, 1000)] {
        let (x, gamma, beta) =
            (values(rows * len, 8.0, &mut rng), values(len, 1.0, &mut rng), values(len, 1.0, &mut rng));
        let by_rows = |f: &dyn Fn(&[f32], &mut [f32])| {
            let mut out = vec![0.0; x.len()];
            x.chunks(len).zip(out.chunks_mut(len)).for_each(|(x, out)| f(x, out));
            bits(&out)
        };
        let softmax = by_rows(&softmax_row);
        let plain = by_rows(&|x, out| layer_norm_row(x, None, None, 1e-5, out));
        let affine = by_rows(&|x, out| layer_norm_row(x, Some(&gamma), Some(&beta), 1e-5, out));
        for_each_exec(|exec, name| {
            let mut out = vec![9.0; x.len()];
            softmax_f32(exec, len, &exp, &x, &mut out).unwrap();
            assert_eq!(bits(&out), softmax, "{name} {rows} x {len}");
            layer_norm_f32(exec, [None, None], len, 1e-5, &x, &mut out).unwrap();
            assert_eq!(bits(&out), plain, "{name} {rows} x {len}");
            layer_norm_f32(exec, [Some(&gamma), Some(&beta)], len, 1e-5, &x, &mut out).unwrap();
            assert_eq!(bits(&out), affine, "{name} {rows} x {len}");
        });
    }
}

#[test]
fn wrong_lengths_are_errors() {
    for_each_exec(|exec, _| {
        assert!(softmax_f32(exec, 2, &exp, &[1.0; 3], &mut [0.0; 3]).is_err());
        assert!(softmax_f32(exec, 0, &exp, &[], &mut []).is_err());
        assert!(layer_norm_f32(exec, [Some(&[1.0]), None], 2, 0.1, &[1.0; 2], &mut [0.0; 2]).is_err());
    });
}
