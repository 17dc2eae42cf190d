//! Kernels against the project's one definition of the arithmetic, `ottava_hal::refmath`.

mod common;

use common::{Rng, bytes, for_each_exec};
use ottava_hal::refmath::epilogue::residual;
use ottava_hal::refmath::rows::relu;
use ottava_hal::refmath::{Affine, Requant, RequantMode, Target, elementwise, requant::Multiplier, requant::Q31};
use ottava_kernels::{
    BinaryOp, BinaryQ, ConvShape, ConvU8, Epilogue, OtherQ, OutMut, OutQ, WeightData, WeightLayout, Weights, binary_q,
    dequantize, quantize, requantize,
};

/// Accumulators of all magnitudes.
fn accumulators(n: usize, rng: &mut Rng) -> Vec<i32> {
    let mut acc: Vec<i32> = (0..n).map(|_| (rng.next() as i32) >> (rng.next() % 31)).collect();
    acc.extend([0, 1, -1, i32::MAX, i32::MIN, 16_777_217, -16_777_217]);
    acc
}

/// Runs an epilogue on given accumulators: a product with weight 0 whose bias they are.
fn run(acc: &[i32], epilogue: Epilogue, other: Option<&[u8]>, check: &mut dyn FnMut(&[u8], &str)) {
    let w = vec![0i8; acc.len()];
    let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::KN, zero_points: &[] };
    let plan = ConvU8::new(ConvShape::gemm(1, acc.len()), &spec, 0, Some(acc), epilogue).unwrap();
    for_each_exec(|exec, name| {
        let (mut out, mut scratch) = (vec![0; acc.len()], vec![0; plan.scratch_len()]);
        plan.run(exec, &[200], other, OutMut::Bytes(&mut out), &mut scratch).unwrap();
        check(&out, name);
    });
}

#[test]
fn requantization_in_all_three_modes() {
    let mut rng = Rng(8);
    for mode in RequantMode::ALL {
        for round in 0..40 {
            let (xs, ws, ys) = (rng.float(1e-3, 0.1), rng.float(1e-4, 0.05), rng.float(0.05, 9.0));
            let out = if round % 2 == 0 { OutQ::s8(round - 20) } else { OutQ { lo: 30, ..OutQ::u8(round) } };
            let target = Target { scale: ys, zp: out.zero_point, lo: out.lo, hi: out.hi };
            let requant = Requant::from_scales(mode, xs, ws, target).unwrap();
            let epilogue = match requant.multiplier {
                Multiplier::Fp32(m) => Epilogue::Requant { m: vec![m], out },
                Multiplier::Q31(q) => {
                    let double = mode == RequantMode::Q31Double;
                    Epilogue::Q31 { m: vec![q.multiplier], shift: vec![q.shift], double, out }
                }
            };
            let acc = accumulators(500, &mut rng);
            let want: Vec<u8> = acc.iter().map(|a| requant.apply(*a) as u8).collect();
            run(&acc, epilogue, None, &mut |got, name| assert_eq!(got, want, "{name} {mode}"));
        }
    }
}

#[test]
fn q31_shifts_of_every_size() {
    let mut rng = Rng(9);
    for mode in [RequantMode::Q31Double, RequantMode::Q31Single] {
        for shift in -31..=30 {
            let q = Q31 { multiplier: (1 << 30) + ((rng.next() as i32) >> 2).abs(), shift };
            let out = OutQ { lo: -100, ..OutQ::s8(shift) };
            let requant = Requant { mode, multiplier: Multiplier::Q31(q), zp: out.zero_point, lo: out.lo, hi: out.hi };
            // A left shift that loses bits is refused by the compiler.
            let fits = |a: &i32| mode == RequantMode::Q31Single || q.check_left_shift((*a).into(), (*a).into()).is_ok();
            let acc: Vec<i32> = accumulators(200, &mut rng).into_iter().filter(fits).collect();
            let want: Vec<u8> = acc.iter().map(|a| requant.apply(*a) as u8).collect();
            let double = mode == RequantMode::Q31Double;
            let epilogue = Epilogue::Q31 { m: vec![q.multiplier], shift: vec![shift], double, out };
            run(&acc, epilogue, None, &mut |got, name| assert_eq!(got, want, "{name} {mode} {q:?}"));
        }
    }
}

fn value(byte: u8, signed: bool) -> i32 {
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}

#[test]
fn fused_residual() {
    let mut rng = Rng(9);
    for round in 0..40 {
        let signed = round % 2 == 0;
        let out = if signed { OutQ::s8(round) } else { OutQ::u8(round) };
        let other = OtherQ { scale: rng.float(1e-3, 0.1), zero_point: 100 - round, signed };
        let (m, y_scale) = (rng.float(1e-6, 1e-3), rng.float(0.01, 0.5));
        let acc = accumulators(300, &mut rng);
        let bytes = bytes(3, acc.len(), &mut rng);
        let target = Target { scale: y_scale, zp: out.zero_point, lo: out.lo, hi: out.hi };
        let params = Affine { scale: other.scale, zp: other.zero_point };
        let want: Vec<u8> = acc
            .iter()
            .zip(&bytes)
            .map(|(a, b)| residual(*a, m, value(*b, signed), params, relu, target) as u8)
            .collect();
        let e = Epilogue::Residual { xw: vec![m], other, lo: 0.0, hi: f32::INFINITY, y_scale, out };
        run(&acc, e, Some(&bytes), &mut |got, name| assert_eq!(got, want, "{name}"));
    }
}

#[test]
fn fused_sum_of_rounded_products() {
    let mut rng = Rng(12);
    for round in 0..6 {
        let signed = round % 2 == 0;
        let q = |zp: i32| if signed { OutQ::s8(zp - 128) } else { OutQ::u8(zp) };
        let zero = |rng: &mut Rng| i32::from(rng.byte());
        let (inner, out) = (q(zero(&mut rng)), q(zero(&mut rng)));
        let inner = if round % 3 == 0 { OutQ { lo: inner.zero_point, ..inner } } else { inner };
        let out = if round % 4 == 1 { OutQ { hi: out.hi - 17, lo: out.lo + 9, ..out } } else { out };
        // The other operand is of the other sign.
        let zero_point = zero(&mut rng) - if signed { 0 } else { 128 };
        let other = OtherQ { scale: rng.float(1e-3, 0.1), zero_point, signed: !signed };
        // The last round's numbers leave f32.
        let wide = if round < 5 { 1.0 } else { 3e37 };
        let (inner_scale, y_scale) = (rng.float(1e-3, 0.1) * wide, rng.float(0.01, 0.3));
        // Halves, so that ties occur: every byte and more on both sides, against every byte.
        let acc: Vec<i32> = (-520..520).flat_map(|a| std::iter::repeat_n(a, 256)).collect();
        let bytes: Vec<u8> = (0..acc.len()).map(|i| i as u8).collect();
        let target = |scale, q: OutQ| Target { scale, zp: q.zero_point, lo: q.lo, hi: q.hi };
        let affine = |q: OtherQ| Affine { scale: q.scale, zp: q.zero_point };
        let Target { zp, lo, hi, .. } = target(inner_scale, inner);
        let product = Requant { mode: RequantMode::Fp32Rne, multiplier: Multiplier::Fp32(0.5), zp, lo, hi };
        let own = Affine { scale: inner_scale, zp: inner.zero_point };
        let want = |(a, b): (&i32, &u8)| {
            let byte = product.apply(*a);
            elementwise::qdq_add(byte, own, value(*b, other.signed), affine(other), target(y_scale, out)) as u8
        };
        let want: Vec<u8> = acc.iter().zip(&bytes).map(want).collect();
        let e = Epilogue::RequantAdd { m: vec![0.5], inner, inner_scale, other, y_scale, out };
        run(&acc, e, Some(&bytes), &mut |got, name| assert!(got == want, "{name} {inner:?} {other:?} {out:?}"));
    }
}

#[test]
fn elementwise_operators() {
    let mut rng = Rng(10);
    let (a, b) = (bytes(3, 3001, &mut rng), bytes(3, 3001, &mut rng));
    for round in 0..20 {
        let signed = round % 2 == 1;
        let q = |rng: &mut Rng| OtherQ { scale: rng.float(1e-3, 0.2), zero_point: round * 5, signed };
        let (qa, qb, y_scale) = (q(&mut rng), q(&mut rng), rng.float(1e-3, 0.3));
        let out = if signed { OutQ::s8(-round) } else { OutQ::u8(round * 9) };
        let affine = |q: OtherQ| Affine { scale: q.scale, zp: q.zero_point };
        let target = Target { scale: y_scale, zp: out.zero_point, lo: out.lo, hi: out.hi };
        let params = BinaryQ { a: qa, b: qb, lo: f32::NEG_INFINITY, hi: f32::INFINITY, y_scale, out };
        for_each_exec(|exec, name| {
            let mut got = vec![0; a.len()];
            type Definition = fn(i32, Affine, i32, Affine, Target) -> i32;
            let ops: [(BinaryOp, Definition); 4] = [
                (BinaryOp::Add, elementwise::qdq_add),
                (BinaryOp::Sub, elementwise::qdq_sub),
                (BinaryOp::Mul, elementwise::qdq_mul),
                (BinaryOp::Div, elementwise::qdq_div),
            ];
            for (op, define) in ops {
                binary_q(exec, op, &params, &a, &b, &mut got).unwrap();
                for (i, got) in got.iter().enumerate() {
                    let (x, y) = (value(a[i], signed), value(b[i], signed));
                    assert_eq!(*got, define(x, affine(qa), y, affine(qb), target) as u8, "{name} {op:?} {x} {y}");
                }
            }
            requantize(exec, &a, qa, y_scale, out, &mut got).unwrap();
            let want = |x: &u8| elementwise::requantize(value(*x, signed), affine(qa), target) as u8;
            assert_eq!(got, a.iter().map(want).collect::<Vec<_>>(), "{name}");
            let mut real = vec![0.0; a.len()];
            dequantize(exec, &a, qa, &mut real).unwrap();
            assert_eq!(real, a.iter().map(|x| affine(qa).dequantize(value(*x, signed))).collect::<Vec<_>>(), "{name}");
            quantize(exec, &real, y_scale, out, &mut got).unwrap();
            assert_eq!(got, real.iter().map(|x| target.quantize(*x) as u8).collect::<Vec<_>>(), "{name}");
        });
    }
}
