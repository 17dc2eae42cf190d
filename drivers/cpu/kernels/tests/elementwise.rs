//! Elementwise kernels and layout changes against the definition, for every instruction set and thread count.

mod common;

use common::{Rng, bytes, for_each_exec};
use ottava_kernels::{
    BinaryOp, BinaryQ, KernelError, OtherQ, OutQ, binary_f32, binary_q, clip_f32, dequantize, lut, nchw_to_nhwc,
    nhwc_to_nchw, quantize, xor_sign,
};

/// Quantize by definition, rounding in f64.
fn reference_quantize(x: f32, scale: f32, q: OutQ) -> u8 {
    let t = x / scale;
    if t.is_nan() {
        return q.lo as u8;
    }
    let y = f64::from(t).round_ties_even() + f64::from(q.zero_point);
    y.clamp(f64::from(q.lo), f64::from(q.hi)) as i32 as u8
}

fn value(byte: u8, q: OtherQ) -> f32 {
    let v = if q.signed { i32::from(byte as i8) } else { i32::from(byte) };
    (v - q.zero_point) as f32 * q.scale
}

#[test]
fn quantize_divides_rounds_to_even_and_saturates() {
    let mut rng = Rng(1);
    let mut x: Vec<f32> = (0..2001).map(|_| rng.float(-40.0, 40.0)).collect();
    x.extend((-600..600).map(|i| i as f32 * 0.125));
    x.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e10, -3e38, 0.0, -0.0, f32::MIN_POSITIVE]);
    for scale in [0.25f32, 0.1, 0.037, 1e-30, 3e30] {
        for q in [OutQ::u8(0), OutQ::u8(131), OutQ::s8(0), OutQ { zero_point: -5, lo: -5, hi: 40, signed: true }] {
            let want: Vec<u8> = x.iter().map(|x| reference_quantize(*x, scale, q)).collect();
            for_each_exec(|exec, name| {
                let mut out = vec![1; x.len()];
                quantize(exec, &x, scale, q, &mut out).unwrap();
                assert_eq!(out, want, "{name} {scale} {q:?}");
            });
        }
    }
}

#[test]
fn dequantize_is_one_multiplication() {
    let x: Vec<u8> = (0..=255).chain(3..200).collect();
    for q in [
        OtherQ { scale: 0.037, zero_point: 130, signed: false },
        OtherQ { scale: 1.7e-3, zero_point: -128, signed: true },
    ] {
        for_each_exec(|exec, name| {
            let mut out = vec![0.0; x.len()];
            dequantize(exec, &x, q, &mut out).unwrap();
            assert_eq!(out, x.iter().map(|b| value(*b, q)).collect::<Vec<_>>(), "{name}");
        });
    }
}

fn apply(op: BinaryOp, a: f32, b: f32) -> f32 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
    }
}

const OPS: [BinaryOp; 4] = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div];

#[test]
fn binary_operations_on_all_pairs_of_bytes() {
    let a: Vec<u8> = (0..65536).map(|i| (i >> 8) as u8).collect();
    let b: Vec<u8> = (0..65536).map(|i| i as u8).collect();
    let signed = BinaryQ {
        a: OtherQ { scale: 0.031, zero_point: -4, signed: true },
        b: OtherQ { scale: 0.007, zero_point: 11, signed: true },
        lo: 0.0,
        hi: 3.0,
        y_scale: 0.0171,
        out: OutQ::s8(-100),
    };
    let unsigned = BinaryQ {
        a: OtherQ { scale: 0.5, zero_point: 128, signed: false },
        b: OtherQ { scale: 0.25, zero_point: 0, signed: false },
        lo: f32::NEG_INFINITY,
        hi: f32::INFINITY,
        y_scale: 0.5,
        out: OutQ::u8(128),
    };
    for (q, op) in [signed, unsigned].iter().flat_map(|q| OPS.map(|op| (q, op))) {
        let want = |i: usize| {
            let t = apply(op, value(a[i], q.a), value(b[i], q.b));
            let t = if t.is_nan() { t } else { t.max(q.lo).min(q.hi) };
            reference_quantize(t, q.y_scale, q.out)
        };
        let want: Vec<u8> = (0..a.len()).map(want).collect();
        for_each_exec(|exec, name| {
            let mut out = vec![0; a.len()];
            binary_q(exec, op, q, &a, &b, &mut out).unwrap();
            assert!(out == want, "{name} {op:?}");
        });
    }
}

#[test]
fn float_operations() {
    let mut rng = Rng(4);
    let a: Vec<f32> = (0..777).map(|_| rng.float(-5.0, 5.0)).collect();
    let b: Vec<f32> = (0..777).map(|_| rng.float(-5.0, 5.0)).collect();
    for_each_exec(|exec, name| {
        let mut out = vec![0.0; a.len()];
        for op in OPS {
            binary_f32(exec, op, &a, &b, &mut out).unwrap();
            assert_eq!(out, a.iter().zip(&b).map(|(a, b)| apply(op, *a, *b)).collect::<Vec<_>>(), "{name} {op:?}");
        }
        clip_f32(exec, &a, 0.0, f32::INFINITY, &mut out).unwrap();
        assert_eq!(out, a.iter().map(|a| a.max(0.0)).collect::<Vec<_>>(), "{name}");
        clip_f32(exec, &[f32::NAN], 0.0, 6.0, &mut out[..1]).unwrap();
        assert!(out[0].is_nan());
        assert!(clip_f32(exec, &a, f32::NAN, 6.0, &mut out).is_err());
    });
}

#[test]
fn tables_and_sign_bridges() {
    let mut rng = Rng(6);
    let x = bytes(3, 300_001, &mut rng);
    let table: [u8; 256] = core::array::from_fn(|i| (i * 37 + 5) as u8);
    for_each_exec(|exec, name| {
        let mut out = vec![0; x.len()];
        lut(exec, &x, &table, &mut out).unwrap();
        assert!(out.iter().zip(&x).all(|(o, x)| *o == table[usize::from(*x)]), "{name}");
        xor_sign(exec, &x, &mut out).unwrap();
        assert!(out.iter().zip(&x).all(|(o, x)| i16::from(*o as i8) == i16::from(*x) - 128), "{name}");
    });
}

#[test]
fn layouts_change_and_change_back() {
    for [n, c, hw] in [
        [1, 3, 50_000],
        [2, 33, 65],
        [1, 1, 7],
        [3, 64, 1],
        [0, 4, 4],
        [2, 200, 49],
        [2, 2, 70],
        [1, 3, 1031],
        [3, 4, 300],
        [2, 5, 40],
        [4, 1, 9],
        [3, 9, 1],
    ] {
        let x: Vec<u32> = (0..(n * c * hw) as u32).collect();
        for_each_exec(|exec, name| {
            let (mut there, mut back) = (vec![0u32; x.len()], vec![0u32; x.len()]);
            nchw_to_nhwc(exec, [n, c, hw], &x, &mut there).unwrap();
            let index = |i: usize| (i / (c * hw) * c + i % c) * hw + i / c % hw;
            assert!(there.iter().enumerate().all(|(i, v)| *v as usize == index(i)), "{name} {n} {c} {hw}");
            nhwc_to_nchw(exec, [n, c, hw], &there, &mut back).unwrap();
            assert_eq!(back, x, "{name}");
        });
    }
}

#[test]
fn wrong_arguments_are_errors() {
    for_each_exec(|exec, _| {
        assert!(matches!(xor_sign(exec, &[0; 3], &mut [0; 4]), Err(KernelError::Length { .. })));
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let error = quantize(exec, &[1.0], scale, OutQ::u8(0), &mut [0]);
            assert!(matches!(error, Err(KernelError::Parameter { .. })), "{scale}");
        }
        assert!(quantize(exec, &[1.0], 1.0, OutQ { zero_point: 0, lo: 5, hi: 4, signed: false }, &mut [0]).is_err());
        let q = OtherQ { scale: 1.0, zero_point: 128, signed: true };
        assert!(dequantize(exec, &[1], q, &mut [0.0]).is_err());
        assert!(nchw_to_nhwc(exec, [1, 2, 3], &[0u8; 5], &mut [0u8; 6]).is_err());
        assert!(nchw_to_nhwc(exec, [2, usize::MAX, 3], &[0u8; 5], &mut [0u8; 5]).is_err());
    });
}
