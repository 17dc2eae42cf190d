//! Tests of [`super`]: limits, ties, the published dynamic cases, and f64 as an independent division.

use super::*;
use crate::refmath::testing::Rng;

const U8: (i32, i32) = (0, 255);
const S8: (i32, i32) = (-128, 127);

#[test]
fn ranges_of_the_storages() {
    assert_eq!(int_range(8, true), (-128, 127));
    assert_eq!(int_range(8, false), (0, 255));
    assert_eq!(int_range(16, true), (-32768, 32767));
    assert_eq!(int_range(16, false), (0, 65535));
    assert_eq!(int_range(4, true), (-8, 7));
    assert_eq!(int_range(4, false), (0, 15));
    assert_eq!(int_range(32, true), (i64::from(i32::MIN), i64::from(i32::MAX)));
    assert_eq!(int_range(2, true), (-2, 1));
    assert_eq!(int_range(63, false), (0, i64::MAX));
    assert_eq!(int_range(0, true), (0, 0));
}

#[test]
fn c1_saturates_and_rounds_ties_to_even() {
    let cases = [
        (1e10, 255, 127),
        (f32::INFINITY, 255, 127),
        (3e38, 255, 127),
        (f32::NEG_INFINITY, 0, -128),
        (-1e10, 0, -128),
        (0.5, 0, 0),
        (1.5, 2, 2),
        (-2.5, 0, -2),
        (126.5, 126, 126),
    ];
    for (x, u8_expect, s8_expect) in cases {
        assert_eq!(quantize_f32(x, 1.0, 0, U8.0, U8.1), u8_expect, "{x}");
        assert_eq!(quantize_f32(x, 1.0, 0, S8.0, S8.1), s8_expect, "{x}");
    }
    // The zero point comes after the rounding: 0.5 + 1 would round to 2.
    assert_eq!(quantize_f32(0.5, 1.0, 1, U8.0, U8.1), 1);
}

#[test]
fn c2_nan_gives_the_least_value() {
    assert_eq!(quantize_f32(f32::NAN, 0.1, 7, U8.0, U8.1), 0);
    assert_eq!(quantize_f32(f32::NAN, 0.1, 7, S8.0, S8.1), -128);
    assert_eq!(quantize_f16(f32::NAN, 0.1, 7, S8.0, S8.1), -128);
    assert_eq!(quantize_bf16(f32::NAN, 0.1, 7, S8.0, S8.1), -128);
}

#[test]
fn c1_is_a_true_division() {
    // Both quotients, rounded once from f64, which is exact enough: 53 >= 2 * 24 + 2.
    let mut rng = Rng::new(21);
    let mut reciprocal_differs = 0;
    for _ in 0..2_000_000 {
        let scale = rng.scale();
        let x = rng.real(-300.0, 300.0) as f32 * scale;
        let quotient = (f64::from(x) / f64::from(scale)) as f32;
        let expect = (f64::from(quotient).round_ties_even() as i64).clamp(-128, 127);
        assert_eq!(i64::from(quantize_f32(x, scale, 0, -128, 127)), expect, "{x} / {scale}");
        reciprocal_differs += u32::from(x * (1.0 / scale) != quotient);
    }
    assert!(reciprocal_differs > 0);
}

#[test]
fn c3_rounds_the_quotient_to_the_precision() {
    // 2049.0 is a tie between the f16 neighbours 2048 and 2050.
    assert_eq!(quantize_f16(2049.0, 1.0, 0, -32768, 32767), 2048);
    assert_eq!(quantize_f16(2051.0, 1.0, 0, -32768, 32767), 2052);
    assert_eq!(quantize_f32(2049.0, 1.0, 0, -32768, 32767), 2049);
    assert_eq!(quantize_bf16(257.0, 1.0, 0, -32768, 32767), 256);
    assert_eq!(quantize_bf16(259.0, 1.0, 0, -32768, 32767), 260);
    // 1e5 overflows f16 and saturates.
    assert_eq!(quantize_f16(1e5, 1.0, 0, -128, 127), 127);
    let target = Target { scale: 1.0, zp: 1, lo: -32768, hi: 32767 };
    assert_eq!(quantize(2049.0, target, Precision::F16), 2049);
    assert_eq!(quantize(257.0, target, Precision::Bf16), 257);
    assert_eq!(quantize(257.0, target, Precision::F32), 258);
    assert_eq!(target.quantize(257.0), 258);
}

#[test]
fn c4_dequantize() {
    assert_eq!(dequantize(10, 128, 0.5), -59.0);
    assert_eq!(dequantize(i32::MIN, 0, 1.0), -2_147_483_648.0);
    assert_eq!(dequantize(16_777_217, 0, 1.0), 16_777_216.0, "the conversion is rne");
    assert_eq!(dequantize(i32::MIN, i32::MAX, 1.0), -4_294_967_296.0, "no overflow");
    assert_eq!(Affine { scale: 0.1, zp: 3 }.dequantize(6), 3.0 * 0.1_f32);
}

#[test]
fn c4_quantize_inverts_dequantize() {
    let mut rng = Rng::new(22);
    for _ in 0..2000 {
        let (scale, zp) = (rng.scale(), rng.int(0, 255));
        for q in 0..=255 {
            assert_eq!(quantize_f32(dequantize(q, zp, scale), scale, zp, 0, 255), q);
        }
    }
}

#[test]
fn c5_dynamic_parameters() {
    let plain = |scale, zp| DynamicParams { scale, zp, n_infinite: 0 };
    // The values of the published DynamicQuantizeLinear cases.
    let xs = [0.0, 2.0, -3.0, -2.5, 1.34, 0.5];
    assert_eq!(dynamic_params_u8(&xs), plain(5.0_f32 / 255.0, 153));
    assert_eq!(dynamic_params_u8(&[1.0, 2.1, 1.3, 2.5, 3.34, 4.0]), plain(4.0_f32 / 255.0, 0));
    assert_eq!(dynamic_params_u8(&[-1.0, -2.1, -1.3, -2.5, -3.34, -4.0]), plain(4.0_f32 / 255.0, 255));
    let unit = plain(1.0, 0);
    for flat in [&[][..], &[0.0, -0.0], &[f32::NAN, f32::NAN], &[1e-45]] {
        assert_eq!(dynamic_params_u8(flat), unit, "{flat:?}");
    }
}

#[test]
fn c5_infinities_stay_out_and_huge_ranges_stay_finite() {
    let params = dynamic_params_u8(&[f32::INFINITY, 2.55, f32::NEG_INFINITY, f32::NAN]);
    assert_eq!((params.n_infinite, params.zp), (2, 0));
    assert_eq!(params.scale, 2.55_f32 / 255.0);
    let huge = dynamic_params_u8(&[f32::MAX, f32::MIN]);
    assert!(huge.scale.is_finite() && huge.scale > 2.6e36);
    assert_eq!(huge.zp, 128);
    assert_eq!(dynamic_params_from_range(f32::NAN, 1.0), (1.0, 0));
}

#[test]
fn c6_rows_are_symmetric_s8() {
    let mut out = [0_i8; 4];
    assert_eq!(quantize_row_s8(&[1.0, -2.0, 0.5, f32::NAN], &mut out), 2.0_f32 / 127.0);
    assert_eq!(out, [64, -127, 32, -127]);
    assert_eq!(quantize_row_s8(&[0.0; 4], &mut out), 1.0);
    assert_eq!(out, [0; 4]);
    assert_eq!(row_scale_s8(&[f32::INFINITY, 254.0]), 2.0);
    assert_eq!(row_scale_s8(&[]), 1.0);
}

#[test]
fn c7_clamps_fold_into_the_range() {
    let mut rng = Rng::new(23);
    for _ in 0..20_000 {
        let target = Target { scale: rng.scale(), zp: rng.int(0, 255), lo: 0, hi: 255 };
        let (a, b) = (rng.real(-50.0, 0.0) as f32, rng.real(0.0, 50.0) as f32);
        let x = rng.real(-100.0, 100.0) as f32;
        let clipped = x.max(a).min(b);
        assert_eq!(target.clipped(Some(a), Some(b)).quantize(x), target.quantize(clipped), "{x} {a} {b} {target:?}");
        assert_eq!(target.clipped(Some(0.0), None).quantize(x), target.quantize(x.max(0.0)), "Relu");
    }
    let target = Target { scale: 1.0, zp: 128, lo: 0, hi: 255 };
    assert_eq!(target.clipped(Some(0.0), Some(6.0)), Target { lo: 128, hi: 134, ..target });
    assert_eq!(target.clipped(None, None), target);
    assert_eq!(target.clipped(Some(5.0), Some(3.0)).quantize(4.0), 131, "crossed bounds: the upper wins");
}
