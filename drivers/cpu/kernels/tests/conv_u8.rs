//! Integer convolution and matrix product against a naive sum, for every instruction set and thread count.

mod common;

use common::{BYTE_KINDS, Rng, WEIGHT_KINDS, bytes, for_each_exec, shapes, taps, weights};
use ottava_kernels::{
    ConvShape, ConvU8, Epilogue, Exec, Isa, KernelError, OtherQ, OutMut, OutQ, Packing, ThreadPool, WeightData,
    WeightLayout, Weights,
};

/// `acc` by definition; weights `[h][w][in][out]`.
fn accumulate(s: &ConvShape, batch: usize, x: &[u8], zx: u8, w: &[i32], zw: &[i32], bias: &[i32]) -> Vec<i32> {
    let [oh, ow] = s.out_hw().unwrap();
    let mut acc: Vec<i32> = (0..batch * oh * ow * s.out_c).map(|i| bias[i % s.out_c]).collect();
    taps(s, batch, |o, k, i| {
        let c = o % s.out_c;
        let zero = if zw.is_empty() { 0 } else { zw[c % zw.len()] };
        acc[o] += (i32::from(x[i]) - i32::from(zx)) * (w[k * s.out_c + c] - zero);
    });
    acc
}

fn n_weights(s: &ConvShape) -> usize {
    s.kernel[0] * s.kernel[1] * (s.in_c / s.groups) * s.out_c
}

fn run_raw(plan: &ConvU8, exec: Exec<'_>, x: &[u8], n: usize) -> Vec<i32> {
    let mut out = vec![-7; n];
    let mut scratch = vec![0xAA; plan.scratch_len()];
    plan.run(exec, x, None, OutMut::I32(&mut out), &mut scratch).unwrap();
    out
}

#[test]
fn every_shape_and_weight_kind_is_exact() {
    let mut rng = Rng(0x9E37_79B9_7F4A_7C15);
    for (i, s) in shapes().iter().enumerate() {
        for kind in 0..WEIGHT_KINDS {
            let w = weights(kind, n_weights(s), &mut rng);
            let zx = [0, 255, 128, 3][(kind + i) % 4];
            let bias: Vec<i32> = (0..s.out_c).map(|_| rng.next() as i32 >> 8).collect();
            let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::Hwio, zero_points: &[] };
            let plan = ConvU8::new(*s, &spec, zx, Some(&bias), Epilogue::Raw).unwrap();
            let wide: Vec<i32> = w.iter().map(|w| i32::from(*w)).collect();
            let batch = 1 + i % 2;
            let x = bytes((kind + i) % BYTE_KINDS, batch * s.in_h * s.in_w * s.in_c, &mut rng);
            let want = accumulate(s, batch, &x, zx, &wide, &[], &bias);
            for_each_exec(|exec, name| {
                assert_eq!(run_raw(&plan, exec, &x, want.len()), want, "{name} {s:?} weights {kind}")
            });
        }
    }
}

#[test]
fn matrix_products_are_exact_for_all_k_and_extreme_data() {
    let mut rng = Rng(77);
    for (m, k, n) in [(13, 256, 33), (4, 64, 16), (7, 4, 16), (1, 1000, 10), (2, 1021, 17), (5, 3, 3), (3, 1, 2)] {
        let s = ConvShape::gemm(k, n);
        for kind in 0..WEIGHT_KINDS {
            let w = weights(kind, k * n, &mut rng);
            let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::KN, zero_points: &[] };
            let plan = ConvU8::new(s, &spec, 7, None, Epilogue::Raw).unwrap();
            let wide: Vec<i32> = w.iter().map(|w| i32::from(*w)).collect();
            for data in 0..BYTE_KINDS {
                let x = bytes(data, m * k, &mut rng);
                let want = accumulate(&s, m, &x, 7, &wide, &[], &vec![0; n]);
                for_each_exec(|exec, name| {
                    assert_eq!(
                        run_raw(&plan, exec, &x, want.len()),
                        want,
                        "{name} {m}x{k}x{n} weights {kind} data {data}"
                    );
                });
            }
        }
    }
}

#[test]
fn asymmetric_weights_are_exact() {
    let mut rng = Rng(5);
    for s in shapes() {
        let per_channel: Vec<i32> = (0..s.out_c).map(|_| i32::from(rng.byte())).collect();
        for zeros in [vec![255], vec![0], vec![131], per_channel] {
            let w = bytes(2 + zeros.len() % 2, n_weights(&s), &mut rng);
            let spec = Weights { data: WeightData::U8(&w), layout: WeightLayout::Hwio, zero_points: &zeros };
            let plan = ConvU8::new(s, &spec, 9, None, Epilogue::Raw).unwrap();
            let wide: Vec<i32> = w.iter().map(|w| i32::from(*w)).collect();
            let x = bytes(3, s.in_h * s.in_w * s.in_c, &mut rng);
            let want = accumulate(&s, 1, &x, 9, &wide, &zeros, &vec![0; s.out_c]);
            for_each_exec(|exec, name| assert_eq!(run_raw(&plan, exec, &x, want.len()), want, "{name} {s:?}"));
        }
    }
}

#[test]
fn layouts_describe_the_same_weights() {
    let mut rng = Rng(11);
    for s in shapes() {
        let (ci, [kh, kw]) = (s.in_c / s.groups, s.kernel);
        let hwio = weights(3, n_weights(&s), &mut rng);
        let at = |y: usize, x: usize, i: usize, o: usize| hwio[((y * kw + x) * ci + i) * s.out_c + o];
        let (mut oihw, mut ohwi) = (Vec::new(), Vec::new());
        for o in 0..s.out_c {
            (0..ci).for_each(|i| (0..kh * kw).for_each(|t| oihw.push(at(t / kw, t % kw, i, o))));
            (0..kh * kw).for_each(|t| (0..ci).for_each(|i| ohwi.push(at(t / kw, t % kw, i, o))));
        }
        let x = bytes(3, s.in_h * s.in_w * s.in_c, &mut rng);
        let n = s.out_hw().unwrap().iter().product::<usize>() * s.out_c;
        let pool = ThreadPool::new(1).unwrap();
        let exec = Exec { isa: Isa::detect(), pool: &pool };
        let run = |w: &[i8], layout| {
            let spec = Weights { data: WeightData::S8(w), layout, zero_points: &[] };
            run_raw(&ConvU8::new(s, &spec, 1, None, Epilogue::Raw).unwrap(), exec, &x, n)
        };
        let want = run(&hwio, WeightLayout::Hwio);
        assert_eq!(run(&oihw, WeightLayout::Oihw), want);
        assert_eq!(run(&ohwi, WeightLayout::Ohwi), want);
    }
}

/// Quantize by definition, in f64 where it is exact.
fn quantize(t: f32, q: OutQ) -> u8 {
    let min = if q.signed { -128 } else { 0 };
    if t.is_nan() {
        return q.lo as u8;
    }
    let y = (f64::from(t).round_ties_even() + f64::from(q.zero_point)).clamp(f64::from(q.lo), f64::from(q.hi));
    debug_assert!(y as i32 >= min);
    (y as i32) as u8
}

#[test]
fn epilogues_follow_the_contract() {
    let mut rng = Rng(21);
    for s in shapes() {
        let w = weights(4, n_weights(&s), &mut rng);
        let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::Hwio, zero_points: &[] };
        let x = bytes(3, s.in_h * s.in_w * s.in_c, &mut rng);
        let raw = ConvU8::new(s, &spec, 100, None, Epilogue::Raw).unwrap();
        let pool = ThreadPool::new(1).unwrap();
        let n = s.out_hw().unwrap().iter().product::<usize>() * s.out_c;
        let acc = run_raw(&raw, Exec { isa: Isa::portable(), pool: &pool }, &x, n);
        let m: Vec<f32> = (0..s.out_c).map(|_| rng.float(0.0, 0.02)).collect();
        let other = bytes(3, n, &mut rng);
        for out in [OutQ::u8(0), OutQ::u8(128), OutQ::s8(-3), OutQ { zero_point: 5, lo: 5, hi: 90, signed: true }] {
            let bytes_of = |e: Epilogue, residual: Option<&[u8]>, want: Vec<u8>| {
                let plan = ConvU8::new(s, &spec, 100, None, e).unwrap();
                for_each_exec(|exec, name| {
                    let (mut got, mut scratch) = (vec![0; n], vec![0; plan.scratch_len()]);
                    plan.run(exec, &x, residual, OutMut::Bytes(&mut got), &mut scratch).unwrap();
                    assert_eq!(got, want, "{name} {s:?} {out:?}");
                });
            };
            let requant = (0..n).map(|i| quantize(acc[i] as f32 * m[i % s.out_c], out)).collect();
            bytes_of(Epilogue::Requant { m: m.clone(), out }, None, requant);
            let q = OtherQ { scale: 0.037, zero_point: if out.signed { -7 } else { 130 }, signed: out.signed };
            let value = |b: u8| if q.signed { i32::from(b as i8) } else { i32::from(b) };
            let sum = |i: usize| acc[i] as f32 * m[i % s.out_c] + (value(other[i]) - q.zero_point) as f32 * q.scale;
            let fused = (0..n).map(|i| quantize(sum(i).max(0.0) / 0.71, out)).collect();
            let e = Epilogue::Residual { xw: m.clone(), other: q, lo: 0.0, hi: f32::INFINITY, y_scale: 0.71, out };
            bytes_of(e, Some(&other), fused);
        }
    }
}

/// Shapes whose pixels lie equally far apart in tiles of eight and more, by whole panels and a part of one.
fn even_shapes() -> Vec<(ConvShape, usize)> {
    let matrices = [1, 4, 15, 16, 17, 24, 33, 64, 70, 144].into_iter().enumerate();
    let mut all: Vec<_> = matrices.map(|(i, k)| (ConvShape::gemm(k, 32 + i % 2 * 5), 8 + 9 * i)).collect();
    let square = |in_c, kernel, stride, groups| ConvShape {
        in_h: 16,
        in_w: 16,
        in_c,
        out_c: 16 * groups,
        kernel: [kernel; 2],
        stride: [stride; 2],
        dilation: [1; 2],
        pads: [kernel / 2; 4],
        groups,
    };
    all.extend([(3, 3, 1, 1), (16, 3, 2, 1), (8, 1, 1, 2), (20, 1, 2, 1)].map(|(c, k, s, g)| (square(c, k, s, g), 1)));
    all
}

#[test]
fn requantized_stripes_of_pixels_are_exact() {
    let mut rng = Rng(41);
    for (s, batch) in even_shapes() {
        let n = s.out_hw().unwrap().iter().product::<usize>() * s.out_c * batch;
        for kind in 0..WEIGHT_KINDS {
            let w = weights(kind, n_weights(&s), &mut rng);
            let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::Hwio, zero_points: &[] };
            let bias: Vec<i32> = (0..s.out_c).map(|_| rng.next() as i32 >> 14).collect();
            let x = bytes(kind % BYTE_KINDS, batch * s.in_h * s.in_w * s.in_c, &mut rng);
            let wide: Vec<i32> = w.iter().map(|w| i32::from(*w)).collect();
            let acc = accumulate(&s, batch, &x, 9, &wide, &[], &bias);
            let m: Vec<f32> = (0..s.out_c).map(|_| rng.float(0.0, 0.01)).collect();
            let out = [OutQ::u8(100), OutQ { zero_point: 5, lo: 5, hi: 90, signed: true }, OutQ::s8(-3)][kind % 3];
            let want: Vec<u8> = (0..n).map(|i| quantize(acc[i] as f32 * m[i % s.out_c], out)).collect();
            let e = Epilogue::Requant { m, out };
            let plan = ConvU8::with_packing(s, &spec, 9, Some(&bias), e, Packing::Windows).unwrap();
            for_each_exec(|exec, name| {
                let (mut got, mut scratch) = (vec![0; n], vec![0; plan.scratch_len()]);
                plan.run(exec, &x, None, OutMut::Bytes(&mut got), &mut scratch).unwrap();
                assert_eq!(got, want, "{name} {s:?} weights {kind} {out:?}");
            });
            let (m, shift) = (vec![1_500_000_000], (0..s.out_c as i32).map(|c| -(c % 9) - 3).collect::<Vec<_>>());
            for double in [false, true] {
                let at = |i: usize| q31(acc[i], m[0], shift[i % s.out_c], double, out);
                let want: Vec<u8> = (0..n).map(at).collect();
                let e = Epilogue::Q31 { m: m.clone(), shift: shift.clone(), double, out };
                let plan = ConvU8::with_packing(s, &spec, 9, Some(&bias), e, Packing::Windows).unwrap();
                for_each_exec(|exec, name| {
                    let (mut got, mut scratch) = (vec![0; n], vec![0; plan.scratch_len()]);
                    plan.run(exec, &x, None, OutMut::Bytes(&mut got), &mut scratch).unwrap();
                    assert_eq!(got, want, "{name} {s:?} weights {kind} {out:?} double {double}");
                });
            }
        }
    }
}

#[test]
fn q31_epilogues_follow_the_contract() {
    let mut rng = Rng(31);
    let s = ConvShape::gemm(20, 21);
    let w = weights(3, 420, &mut rng);
    let x = bytes(3, 9 * 20, &mut rng);
    let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::KN, zero_points: &[] };
    let pool = ThreadPool::new(1).unwrap();
    let exec = Exec { isa: Isa::portable(), pool: &pool };
    let acc = run_raw(&ConvU8::new(s, &spec, 128, None, Epilogue::Raw).unwrap(), exec, &x, 9 * 21);
    let m: Vec<i32> = (0..21).map(|_| (1 << 30) + (rng.next() as i32 >> 2).abs()).collect();
    let shift: Vec<i32> = (0..21).map(|c| -(c % 12) - 2).collect();
    let out = OutQ::s8(4);
    for double in [false, true] {
        let want: Vec<u8> =
            acc.iter().enumerate().map(|(i, acc)| q31(*acc, m[i % 21], shift[i % 21], double, out)).collect();
        let plan = ConvU8::new(s, &spec, 128, None, Epilogue::Q31 { m: m.clone(), shift: shift.clone(), double, out })
            .unwrap();
        for_each_exec(|exec, name| {
            let (mut got, mut scratch) = (vec![0; want.len()], vec![0; plan.scratch_len()]);
            plan.run(exec, &x, None, OutMut::Bytes(&mut got), &mut scratch).unwrap();
            assert_eq!(got, want, "{name} double {double}");
        });
    }
}

/// By the formulas of the contract in i128; right shifts only.
fn q31(acc: i32, m: i32, shift: i32, double: bool, out: OutQ) -> u8 {
    let product = i128::from(acc) * i128::from(m);
    let y = if double {
        let high = (product + (1 << 30)) >> 31;
        let (half, magnitude) = ((1i128 << -shift) / 2, high.abs());
        high.signum() * ((magnitude + half) >> -shift)
    } else {
        (product + (1i128 << (30 - shift))) >> (31 - shift)
    };
    (y + i128::from(out.zero_point)).clamp(i128::from(out.lo), i128::from(out.hi)) as i32 as u8
}

#[test]
fn float_output_is_one_multiplication_and_a_clip() {
    let mut rng = Rng(41);
    let s = ConvShape::gemm(24, 18);
    let w = weights(3, 24 * 18, &mut rng);
    let x = bytes(3, 5 * 24, &mut rng);
    let xw: Vec<f32> = (0..18).map(|_| rng.float(1e-4, 1.0)).collect();
    let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::KN, zero_points: &[] };
    let raw = ConvU8::new(s, &spec, 3, None, Epilogue::Raw).unwrap();
    let plan =
        ConvU8::new(s, &spec, 3, None, Epilogue::Float { xw: xw.clone(), lo: -50.0, hi: f32::INFINITY }).unwrap();
    for_each_exec(|exec, name| {
        let acc = run_raw(&raw, exec, &x, 90);
        let want: Vec<u32> =
            acc.iter().enumerate().map(|(i, a)| (*a as f32 * xw[i % 18]).max(-50.0).to_bits()).collect();
        let (mut got, mut scratch) = (vec![0.0; 90], vec![0; plan.scratch_len()]);
        plan.run(exec, &x, None, OutMut::F32(&mut got), &mut scratch).unwrap();
        assert_eq!(got.iter().map(|f| f.to_bits()).collect::<Vec<_>>(), want, "{name}");
    });
}

#[test]
fn wrong_lengths_and_types_are_errors() {
    let s = ConvShape::gemm(6, 4);
    let w = [1i8; 24];
    let spec = |w| Weights { data: WeightData::S8(w), layout: WeightLayout::KN, zero_points: &[] };
    assert!(matches!(ConvU8::new(s, &spec(&w[1..]), 0, None, Epilogue::Raw), Err(KernelError::Length { .. })));
    assert!(matches!(ConvU8::new(s, &spec(&w), 0, Some(&[1; 5]), Epilogue::Raw), Err(KernelError::Length { .. })));
    let bad = Epilogue::Requant { m: vec![f32::NAN], out: OutQ::u8(0) };
    assert!(matches!(ConvU8::new(s, &spec(&w), 0, None, bad), Err(KernelError::Parameter { .. })));
    let bad = Epilogue::Requant { m: vec![0.1], out: OutQ::u8(-1) };
    assert!(matches!(ConvU8::new(s, &spec(&w), 0, None, bad), Err(KernelError::Parameter { .. })));
    let plan = ConvU8::new(s, &spec(&w), 0, None, Epilogue::Raw).unwrap();
    let pool = ThreadPool::new(1).unwrap();
    let exec = Exec { isa: Isa::detect(), pool: &pool };
    let (mut out, mut scratch) = ([0i32; 8], vec![0; plan.scratch_len()]);
    assert!(plan.run(exec, &[0; 13], None, OutMut::I32(&mut out), &mut scratch).is_err());
    assert!(plan.run(exec, &[0; 12], None, OutMut::I32(&mut out[1..]), &mut scratch).is_err());
    assert!(plan.run(exec, &[0; 12], None, OutMut::Bytes(&mut [0; 8]), &mut scratch).is_err());
    assert!(plan.run(exec, &[0; 12], Some(&[0; 8]), OutMut::I32(&mut out), &mut scratch).is_err());
    assert!(plan.run(exec, &[0; 12], None, OutMut::I32(&mut out), &mut []).is_err());
    assert_eq!(plan.run(exec, &[], None, OutMut::I32(&mut []), &mut scratch), Ok(()));
}

#[test]
fn packing_does_not_change_the_result() {
    let mut rng = Rng(51);
    for (s, kind) in shapes().into_iter().zip((0..WEIGHT_KINDS).cycle()) {
        let w = weights(kind, n_weights(&s), &mut rng);
        let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::Hwio, zero_points: &[] };
        let x = bytes(3, s.in_h * s.in_w * s.in_c, &mut rng);
        let n = s.out_hw().unwrap().iter().product::<usize>() * s.out_c;
        let plans =
            Packing::ALL.map(|packing| ConvU8::with_packing(s, &spec, 5, None, Epilogue::Raw, packing).unwrap());
        for_each_exec(|exec, name| {
            let want = run_raw(&plans[0], exec, &x, n);
            for (plan, packing) in plans.iter().zip(Packing::ALL).skip(1) {
                assert_eq!(want, run_raw(plan, exec, &x, n), "{name} {packing:?} {s:?}");
            }
        });
    }
}

#[test]
fn four_bit_weights_are_those_of_eight_bits() {
    let mut rng = Rng(77);
    for s in shapes() {
        let w: Vec<i8> = (0..n_weights(&s)).map(|_| (rng.byte() & 15) as i8 - 8).collect();
        let nibbles = |pair: &[i8]| (pair[0] as u8 & 15) | (pair.get(1).map_or(0, |w| *w as u8) << 4);
        let packed: Vec<u8> = w.chunks(2).map(nibbles).collect();
        for zero_points in [vec![], vec![-8], (0..s.out_c).map(|c| c as i32 % 16 - 8).collect()] {
            let spec = |data| Weights { data, layout: WeightLayout::Oihw, zero_points: &zero_points };
            let x = bytes(3, s.in_h * s.in_w * s.in_c, &mut rng);
            let n = s.out_hw().unwrap().iter().product::<usize>() * s.out_c;
            let eight = ConvU8::new(s, &spec(WeightData::S8(&w)), 5, None, Epilogue::Raw).unwrap();
            let of = |packing| {
                ConvU8::with_packing(s, &spec(WeightData::S4(&packed)), 5, None, Epilogue::Raw, packing).unwrap()
            };
            let four = Packing::ALL.map(of);
            for_each_exec(|exec, name| {
                let want = run_raw(&eight, exec, &x, n);
                for (plan, packing) in four.iter().zip(Packing::ALL) {
                    assert_eq!(want, run_raw(plan, exec, &x, n), "{name} {packing:?} {s:?}");
                }
            });
        }
    }
    let spec = Weights { data: WeightData::S4(&[0; 3]), layout: WeightLayout::KN, zero_points: &[] };
    let short = ConvU8::new(ConvShape::gemm(2, 4), &spec, 0, None, Epilogue::Raw);
    assert!(matches!(short, Err(KernelError::Length { found: 3, expected: 4, .. })));
}
