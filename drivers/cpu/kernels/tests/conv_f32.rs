//! f32 convolution and matrix product: bit-equal to the naive sum of fused multiply-adds, for every instruction set and thread count.

mod common;

use common::{Rng, for_each_exec, shape, shapes, taps};
use ottava_kernels::{ConvF32, ConvShape, FloatWeights, KernelError, MatMulF32, WeightLayout};

fn floats(n: usize, rng: &mut Rng) -> Vec<f32> {
    (0..n).map(|_| rng.float(-1.0, 1.0) * [1.0, 1e-20, 1e3][(rng.next() >> 30) as usize % 3]).collect()
}

/// Bias, residual and bounds of a case.
#[derive(Clone, Copy)]
struct Finish<'a> {
    bias: Option<&'a [f32]>,
    residual: Option<&'a [f32]>,
    lo: f32,
    hi: f32,
}

const PLAIN: Finish<'static> = Finish { bias: None, residual: None, lo: f32::NEG_INFINITY, hi: f32::INFINITY };

/// Bits; any NaN is one NaN.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| if v.is_nan() { 0x7FC0_0000 } else { v.to_bits() }).collect()
}

/// By definition; weights `[h][w][in][out]`.
fn reference(s: &ConvShape, batch: usize, x: &[f32], w: &[f32], f: Finish<'_>) -> Vec<u32> {
    let [oh, ow] = s.out_hw().unwrap();
    let mut acc = vec![0f32; batch * oh * ow * s.out_c];
    taps(s, batch, |o, k, i| acc[o] = x[i].mul_add(w[k * s.out_c + o % s.out_c], acc[o]));
    for (o, acc) in acc.iter_mut().enumerate() {
        *acc = f.bias.map_or(*acc, |b| *acc + b[o % s.out_c]);
        *acc = f.residual.map_or(*acc, |r| *acc + r[o]);
        *acc = if f.lo > *acc { f.lo } else { *acc };
        *acc = if f.hi < *acc { f.hi } else { *acc };
    }
    bits(&acc)
}

fn check_plan(plan: &ConvF32, batch: usize, x: &[f32], w: &[f32], f: Finish<'_>) {
    let s = plan.shape();
    let want = reference(s, batch, x, w, f);
    for_each_exec(|exec, name| {
        let mut out = vec![f32::NAN; want.len()];
        plan.run_add(exec, x, f.residual, &mut out).unwrap();
        assert_eq!(bits(&out), want, "{name} {s:?}");
    });
}

fn check_all(s: &ConvShape, batch: usize, x: &[f32], w: &[f32], f: Finish<'_>) {
    check_plan(&ConvF32::new(*s, w, WeightLayout::Hwio, f.bias, f.lo, f.hi).unwrap(), batch, x, w, f);
}

fn check(s: &ConvShape, batch: usize, x: &[f32], w: &[f32], bias: Option<&[f32]>, lo: f32, hi: f32) {
    check_all(s, batch, x, w, Finish { bias, lo, hi, ..PLAIN });
}

fn n_weights(s: &ConvShape) -> usize {
    s.kernel[0] * s.kernel[1] * (s.in_c / s.groups) * s.out_c
}

fn n_out(s: &ConvShape, batch: usize) -> usize {
    batch * s.out_hw().unwrap().iter().product::<usize>() * s.out_c
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

/// Shapes that cross the edges of blocks of k, of blocks of tiles, and of bands of rows.
fn large_shapes() -> Vec<ConvShape> {
    [
        [7, 7, 67, 19, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        [5, 5, 131, 17, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        [3, 4, 523, 3, 2, 2, 1, 1, 1, 1, 1, 0, 0, 1, 1],
        [6, 5, 190, 34, 3, 3, 1, 1, 2, 1, 2, 1, 2, 1, 2],
        [5, 6, 300, 6, 3, 3, 2, 1, 1, 2, 2, 3, 1, 0, 3],
        [31, 29, 5, 17, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        [37, 3, 8, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        [41, 43, 3, 8, 7, 5, 2, 3, 1, 1, 3, 2, 3, 2, 1],
        [1, 1, 1031, 37, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1],
        [1, 293, 29, 13, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1],
        [13, 11, 23, 23, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 23],
        [17, 12, 40, 40, 5, 5, 2, 2, 1, 1, 2, 2, 2, 2, 40],
        [9, 10, 13, 13, 3, 3, 1, 1, 2, 3, 2, 3, 2, 3, 13],
    ]
    .map(shape)
    .to_vec()
}

#[test]
fn large_shapes_with_residual_give_the_bits_of_the_definition() {
    let mut rng = Rng(31);
    for s in large_shapes() {
        let (w, bias) = (floats(n_weights(&s), &mut rng), floats(s.out_c, &mut rng));
        for batch in [1, 2] {
            let x = floats(batch * s.in_h * s.in_w * s.in_c, &mut rng);
            let residual = floats(n_out(&s, batch), &mut rng);
            check_all(&s, batch, &x, &w, PLAIN);
            check_all(&s, batch, &x, &w, Finish { bias: Some(&bias), residual: Some(&residual), lo: -0.5, hi: 7.0 });
        }
    }
}

#[test]
fn special_values_give_the_bits_of_the_definition() {
    let mut rng = Rng(47);
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1e-45, -1e-45, f32::MAX, f32::MIN];
    let mut values = |n: usize, often: usize| -> Vec<f32> {
        (0..n)
            .map(|_| match (rng.next() >> 33) as usize % often {
                0 => special[(rng.next() >> 33) as usize % special.len()],
                1 => [1e-30, -1e-30, -0.0][(rng.next() >> 33) as usize % 3],
                _ => rng.float(-1.0, 1.0),
            })
            .collect()
    };
    for s in shapes().into_iter().chain(large_shapes()) {
        // Few specials, so that not everything is NaN; then many.
        for often in [400, 6] {
            let (x, w) = (values(s.in_h * s.in_w * s.in_c, often), values(n_weights(&s), often));
            let residual = values(n_out(&s, 1), often);
            check_all(&s, 1, &x, &w, PLAIN);
            check_all(&s, 1, &x, &w, Finish { residual: Some(&residual), lo: 0.0, ..PLAIN });
        }
    }
}

#[test]
fn half_precision_weights_give_the_bits_of_their_values() {
    let mut rng = Rng(53);
    for s in shapes().into_iter().chain(large_shapes()) {
        let x = floats(s.in_h * s.in_w * s.in_c, &mut rng);
        let patterns: Vec<u16> = (0..n_weights(&s)).map(|_| (rng.next() >> 30) as u16).collect();
        let f16 = patterns.iter().map(|bits| half(*bits, 5)).collect::<Vec<_>>();
        let bf16 = patterns.iter().map(|bits| f32::from_bits(u32::from(*bits) << 16)).collect::<Vec<_>>();
        for (stored, values) in [(FloatWeights::F16(&patterns), f16), (FloatWeights::Bf16(&patterns), bf16)] {
            let plan = |w| ConvF32::with_weights(s, w, WeightLayout::Hwio, None, f32::NEG_INFINITY, f32::INFINITY);
            let plan = plan(stored).unwrap();
            check_plan(&plan, 1, &x, &values, PLAIN);
            let back = ConvF32::from_packed(s, &plan.to_packed(), None, f32::NEG_INFINITY, f32::INFINITY).unwrap();
            check_plan(&back, 1, &x, &values, PLAIN);
        }
    }
}

/// The value of a half-precision pattern with so many exponent bits, by definition.
fn half(bits: u16, exponent_bits: u32) -> f32 {
    let mantissa_bits = 15 - exponent_bits;
    let (exponent, mantissa) =
        (i32::from(bits & 0x7FFF) >> mantissa_bits, u32::from(bits) & ((1 << mantissa_bits) - 1));
    let (bias, unit) = ((1 << (exponent_bits - 1)) - 1, f64::from(mantissa) / f64::from(1 << mantissa_bits));
    let value = match exponent {
        0 => unit * 2f64.powi(1 - bias),
        e if e == (1 << exponent_bits) - 1 => {
            if mantissa == 0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        }
        e => (1.0 + unit) * 2f64.powi(e - bias),
    };
    (if bits & 0x8000 == 0 { value } else { -value }) as f32
}

#[test]
fn f32_weights_that_half_precision_holds_are_stored_as_such() {
    let (s, mut rng) = (ConvShape::gemm(70, 33), Rng(59));
    let x = floats(3 * 70, &mut rng);
    let bytes = |value: &mut dyn FnMut() -> f32| {
        let w: Vec<f32> = (0..70 * 33).map(|_| value()).collect();
        let plan = ConvF32::new(s, &w, WeightLayout::Hwio, None, f32::NEG_INFINITY, f32::INFINITY).unwrap();
        check_plan(&plan, 3, &x, &w, PLAIN);
        plan.packed_bytes()
    };
    let full = 48 * 70 * 4;
    let mut other = Rng(61);
    assert_eq!(bytes(&mut || half((other.next() >> 33) as u16 & 0xBFFF, 5)), full / 2);
    assert_eq!(bytes(&mut || f32::from_bits((other.next() >> 32) as u32 & 0xBFFF_0000)), full / 2);
    assert_eq!(bytes(&mut || other.float(-1.0, 1.0)), full);
}

#[test]
fn products_of_two_operands_give_the_bits_of_the_definition() {
    let mut rng = Rng(67);
    for ([m, k, n], pairs) in [
        ([1, 1, 1], vec![[0, 0]]),
        ([7, 13, 17], vec![[0, 0], [1, 0], [0, 1]]),
        ([31, 400, 33], vec![[0, 0], [1, 1]]),
        ([295, 9, 5], vec![[0, 2], [0, 1], [1, 0]]),
    ] {
        let count = |side: usize| pairs.iter().map(|p: &[usize; 2]| p[side] + 1).max().unwrap();
        let (a, b) = (floats(count(0) * m * k, &mut rng), floats(count(1) * k * n, &mut rng));
        let plan = MatMulF32::new([m, k, n], pairs.clone()).unwrap();
        let product = |p: &[usize; 2]| {
            let (a, b) = (&a[p[0] * m * k..][..m * k], &b[p[1] * k * n..][..k * n]);
            reference(&ConvShape::gemm(k, n), m, a, b, PLAIN)
        };
        let want: Vec<u32> = pairs.iter().flat_map(product).collect();
        for_each_exec(|exec, name| {
            let (mut out, mut scratch) = (vec![f32::NAN; want.len()], vec![0xAA; plan.scratch_len()]);
            plan.run(exec, &a, &b, &mut out, &mut scratch).unwrap();
            assert_eq!(bits(&out), want, "{name} {m} x {k} x {n}");
        });
    }
}
