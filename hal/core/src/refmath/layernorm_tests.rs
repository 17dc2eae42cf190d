//! Tests of [`super`]: hand values, an exact formulation in i128, and real arithmetic.

use super::*;
use crate::refmath::testing::Rng;

const S8: Target = Target { scale: 1.0 / 32.0, zp: 0, lo: -128, hi: 127 };

fn norm(kind: NormKind, n: u32, xs: f32, eps: f32) -> LayerNormInt {
    LayerNormInt::new(kind, n, xs, eps, S8).expect("valid constants")
}

#[test]
fn c3_reciprocal_root_by_hand() {
    assert_eq!(reciprocal_root(0), (0, 0));
    // D = 1: t = 30, D << 60, g = 2^30, r = 2^32.
    assert_eq!(reciprocal_root(1), (30, 1 << 32));
    // D = 2^60: 61 bits, t = 0, g = 2^30.
    assert_eq!(reciprocal_root(1 << 60), (0, 1 << 32));
    // The largest D: g = 2^31 - 1, r = (2^62 + (2^30 - 1)) / (2^31 - 1) = 2^31 + 1.
    assert_eq!(reciprocal_root((1 << 62) - 1), (0, (1 << 31) + 1));
}

#[test]
fn c2_constants_and_bounds() {
    // 16 * 0.25 / 4 * 65536.
    assert_eq!(eps_term(4, 2.0, 0.25), Ok(65536));
    assert!(eps_term(4, 1e-20, 1.0).is_err());
    assert!(eps_term(4, 1.0, -1.0).is_err());
    assert!(eps_term(4, 1.0, f32::NAN).is_err());
    assert!(LayerNormInt::new(NormKind::Layer, 65_000, 1.0, 0.0, S8).is_ok());
    assert!(LayerNormInt::new(NormKind::Layer, 70_000, 1.0, 0.0, S8).is_err());
    assert!(LayerNormInt::new(NormKind::Rms { zx: 0 }, 40_000, 1.0, 0.0, S8).is_err());
    assert!(LayerNormInt::new(NormKind::Layer, u32::MAX, 1.0, 0.0, S8).is_err());
    assert_eq!(layernorm_gain(1.0, 0.5), Ok(32768));
    assert!(layernorm_gain(1e9, 1e-3).is_err());
    assert_eq!(layernorm_offset(-1.0, 0.5), Ok(-(1 << 31)));
    assert!(layernorm_offset(1e30, 1e-3).is_err());
}

#[test]
fn by_hand() {
    // x = -1, 1: mean 0, deviation 1, so z = -1, 1 in Q16 and y = z * gamma / ys + beta / ys.
    let norm = norm(NormKind::Layer, 2, 1.0, 0.0);
    let gain = layernorm_gain(0.5, S8.scale).expect("small");
    let offset = layernorm_offset(0.25, S8.scale).expect("small");
    let mut y = [0_i8; 2];
    norm.row(&[-1_i8, 1], &[gain; 2], Some(&[offset; 2]), &mut y).expect("lengths agree");
    assert_eq!(y, [-16 + 8, 16 + 8]);
    norm.row(&[9_u8, 9], &[gain; 2], Some(&[offset; 2]), &mut y).expect("lengths agree");
    assert_eq!(y, [8, 8], "D = 0: only beta");
    norm.row(&[-1_i8, 1], &[gain; 2], None, &mut y).expect("lengths agree");
    assert_eq!(y, [-16, 16]);
}

#[test]
fn rms_is_taken_about_the_zero_point() {
    let norm = norm(NormKind::Rms { zx: 100 }, 2, 1.0, 0.0);
    let gain = layernorm_gain(1.0, S8.scale).expect("small");
    let mut y = [0_i8; 2];
    norm.row(&[103_u8, 103], &[gain; 2], None, &mut y).expect("lengths agree");
    assert_eq!(y, [32, 32], "x / rms = 1");
    norm.row(&[100_u8, 100], &[gain; 2], None, &mut y).expect("lengths agree");
    assert_eq!(y, [0, 0]);
}

/// The definition in i128 with floor division instead of shifts, for LayerNorm and (with `s = 0`) RMSNorm.
fn slow(values: &[i64], rms: bool, norm: &LayerNormInt, gain: i32, offset: i64) -> Vec<i128> {
    let (eps_term, one) = (norm.eps_term, 1_i128 << norm.fraction);
    let full = 46 - norm.fraction / 2;
    let n = values.len() as i128;
    let s: i128 = if rms { 0 } else { values.iter().map(|&v| i128::from(v)).sum() };
    let q: i128 = values.iter().map(|&v| i128::from(v) * i128::from(v)).sum();
    let d = (n * q - s * s) * one + i128::from(eps_term);
    let z = |v: i64| {
        if d == 0 {
            return 0;
        }
        let mut bits = 0;
        while d >> bits != 0 {
            bits += 1;
        }
        let t = (62 - bits) / 2;
        let scaled = d * (1 << (2 * t));
        let mut g = libm::sqrt(scaled as f64) as i128;
        while g * g > scaled {
            g -= 1;
        }
        while (g + 1) * (g + 1) <= scaled {
            g += 1;
        }
        let r = ((1_i128 << 62) + g / 2) / g;
        ((n * i128::from(v) - s) * r + (1 << (full - 1 - t))).div_euclid(1 << (full - t))
    };
    let output = |z: i128| (i128::from(gain) * z + i128::from(offset) + (1 << 29)).div_euclid(1 << 30);
    values.iter().map(|&v| output(z(v))).collect()
}

#[test]
fn equals_the_slow_formulation() {
    let mut rng = Rng::new(121);
    for round in 0..3000 {
        let n = rng.int(1, 70) as usize;
        let size = rng.int(0, 127);
        let x: Vec<i8> = (0..n).map(|_| rng.int(-size, size) as i8).collect();
        let rms = round % 2 == 1;
        let zx = rng.int(-128, 127);
        let kind = if rms { NormKind::Rms { zx } } else { NormKind::Layer };
        let norm = norm(kind, n as u32, rng.scale(), if round % 3 == 0 { 0.0 } else { 1e-5 });
        let (gain, offset) = (rng.next_i32() >> rng.int(0, 20), rng.next_u64() as i64 >> rng.int(20, 60));
        let mut y = vec![0_i8; n];
        norm.row(&x, &vec![gain; n], Some(&vec![offset; n]), &mut y).expect("lengths agree");
        let values: Vec<i64> = x.iter().map(|&v| i64::from(v) - if rms { i64::from(zx) } else { 0 }).collect();
        for (got, expect) in y.iter().zip(slow(&values, rms, &norm, gain, offset)) {
            assert_eq!(i128::from(*got), expect.clamp(-128, 127));
        }
    }
}

#[test]
fn c5_wide_rows_equal_the_slow_formulation() {
    let mut rng = Rng::new(123);
    for round in 0..1500 {
        let n = rng.int(1, 70) as usize;
        let size = rng.int(0, 32767);
        let x: Vec<i16> = (0..n).map(|_| rng.int(-size, size) as i16).collect();
        let rms = round % 2 == 1;
        let zx = rng.int(-100, 100);
        let kind = if rms { NormKind::Rms { zx } } else { NormKind::Layer };
        let norm = LayerNormInt::wide(kind, n as u32, rng.scale(), if round % 3 == 0 { 0.0 } else { 1e-5 }, S8);
        let Ok(norm) = norm else { continue };
        let (gain, offset) = (rng.next_i32() >> rng.int(0, 20), rng.next_u64() as i64 >> rng.int(20, 60));
        let mut y = vec![0_i8; n];
        norm.row(&x, &vec![gain; n], Some(&vec![offset; n]), &mut y).expect("lengths agree");
        let values: Vec<i64> = x.iter().map(|&v| i64::from(v) - if rms { i64::from(zx) } else { 0 }).collect();
        for (got, expect) in y.iter().zip(slow(&values, rms, &norm, gain, offset)) {
            assert_eq!(i128::from(*got), expect.clamp(-128, 127));
        }
    }
    assert!(LayerNormInt::wide(NormKind::Layer, 4096, 1.0, 0.0, S8).is_ok());
    assert!(LayerNormInt::wide(NormKind::Layer, 4097, 1.0, 0.0, S8).is_err());
}

#[test]
fn c5_wide_rows_are_within_one_of_real_arithmetic() {
    let mut rng = Rng::new(124);
    for _ in 0..300 {
        let n = rng.int(8, 400) as usize;
        let xs = rng.real(1e-4, 0.01) as f32;
        // One outlier takes most of the range, as in the residual streams of transformers.
        let mut x: Vec<i16> = (0..n).map(|_| rng.int(-600, 600) as i16).collect();
        x[rng.int(0, n as i32 - 1) as usize] = rng.int(-32768, 32767) as i16;
        let gain = layernorm_gain(1.5, S8.scale).expect("small");
        let mut y = vec![0_i8; n];
        let norm = LayerNormInt::wide(NormKind::Layer, n as u32, xs, 1e-5, S8).expect("short rows");
        norm.row(&x, &vec![gain; n], None, &mut y).expect("lengths agree");
        let real: Vec<f64> = x.iter().map(|&q| f64::from(q) * f64::from(xs)).collect();
        let mean = real.iter().sum::<f64>() / n as f64;
        let variance = real.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64;
        for (v, got) in real.iter().zip(y) {
            let exact = (v - mean) / libm::sqrt(variance + f64::from(1e-5_f32)) * 1.5 / f64::from(S8.scale);
            let rounded = exact.round_ties_even().clamp(-128.0, 127.0);
            assert!((f64::from(got) - rounded).abs() <= 1.0, "{got} {exact}");
        }
    }
}

#[test]
fn within_one_of_real_arithmetic() {
    let mut rng = Rng::new(122);
    let (mut count, mut different) = (0_u32, 0_u32);
    for _ in 0..2000 {
        let n = rng.int(8, 256) as usize;
        let (xs, zx) = (rng.real(0.005, 0.1) as f32, rng.int(0, 255));
        let x: Vec<u8> = (0..n).map(|_| rng.int(0, 255) as u8).collect();
        let (gamma, beta) = (rng.real(-2.0, 2.0) as f32, rng.real(-1.0, 1.0) as f32);
        let gain = layernorm_gain(gamma, S8.scale).expect("small");
        let offset = layernorm_offset(beta, S8.scale).expect("small");
        let mut y = vec![0_i8; n];
        norm(NormKind::Layer, n as u32, xs, 1e-5)
            .row(&x, &vec![gain; n], Some(&vec![offset; n]), &mut y)
            .expect("lengths agree");
        let real: Vec<f64> = x.iter().map(|&q| f64::from(i32::from(q) - zx) * f64::from(xs)).collect();
        let mean = real.iter().sum::<f64>() / n as f64;
        let variance = real.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64;
        for (v, got) in real.iter().zip(y) {
            let norm = (v - mean) / libm::sqrt(variance + f64::from(1e-5_f32));
            let exact = (norm * f64::from(gamma) + f64::from(beta)) / f64::from(S8.scale);
            let rounded = exact.round_ties_even().clamp(-128.0, 127.0);
            assert!((f64::from(got) - rounded).abs() <= 1.0, "{got} {exact}");
            count += 1;
            different += u32::from(f64::from(got) != rounded);
        }
    }
    // The contract speaks of about one value in 8000.
    assert!(different * 2000 < count, "{different} of {count}");
}

#[test]
fn lengths_are_checked() {
    let norm = norm(NormKind::Layer, 2, 1.0, 0.0);
    let mut y = [5_i8; 2];
    assert!(norm.row(&[1_i8], &[1, 1], None, &mut y).is_err());
    assert!(norm.row(&[1_i8, 2], &[1], None, &mut y).is_err());
    assert!(norm.row(&[1_i8, 2], &[1, 1], Some(&[1]), &mut y).is_err());
    assert!(norm.row(&[1_i8, 2], &[1, 1], None, &mut y[..1]).is_err());
    assert_eq!(y, [5, 5], "nothing written");
}
