//! Tests of [`super`]: the worked examples of numerics.md section 3 and comparisons with slow exact arithmetic.

use super::*;
use crate::refmath::testing::Rng;

const MIN: i32 = i32::MIN;
const MAX: i32 = i32::MAX;

fn q31(real: f64, mode: RequantMode) -> Q31 {
    Q31::from_real(real, mode).expect("a finite multiplier >= 0")
}

/// `acc * real` in every mode over the full i32 range: `[fp32_rne, q31_double, q31_single]`.
fn all_modes(acc: i32, real: f64, zp: i32) -> [i32; 3] {
    [
        requant_fp32(acc, real as f32, zp, MIN, MAX),
        requant_q31_double(acc, q31(real, RequantMode::Q31Double), zp, MIN, MAX),
        requant_q31_single(acc, q31(real, RequantMode::Q31Single), zp, MIN, MAX),
    ]
}

#[test]
fn example_1_ties() {
    let rne = [-3, -3, -2, -1, -1, -1, 0, 1, 1, 1, 2, 3, 3, 3, 4, 5, 5];
    let half_up = [-3, -2, -2, -1, -1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5];
    for (i, acc) in (-8..=8).enumerate() {
        let [fp32, double, single] = all_modes(acc, 0.5, 1);
        assert_eq!(fp32, rne[i], "fp32_rne, acc = {acc}");
        // SRDHM rounds ties upwards and leaves RDP nothing to do here, so both Q31 modes agree.
        assert_eq!([double, single], [half_up[i]; 2], "q31, acc = {acc}");
    }
}

#[test]
fn example_2_double_rounding() {
    assert_eq!(q31(0.25, RequantMode::Q31Double), Q31 { multiplier: 1 << 30, shift: -1 });
    // Order of the table: fp32_rne, q31_single, q31_double.
    for (acc, expect) in [(1, [0, 0, 1]), (-6, [-2, -1, -2]), (2, [0, 1, 1])] {
        let [fp32, double, single] = all_modes(acc, 0.25, 0);
        assert_eq!([fp32, single, double], expect, "acc = {acc}");
    }
}

#[test]
fn example_3_tensorflow_102943() {
    let [xs, ws, ys] = [0x3d58_ede4, 0x3cc5_6051, 0x3deb_32f4].map(f32::from_bits);
    let m = fp32_multiplier(xs, ws, ys);
    assert_eq!(m.to_bits(), 0x3c36_0b61);
    assert_eq!(585.0_f32 * m, 6.5);
    assert_eq!(requant_fp32(585, m, -126, -128, 127), -120);
    for mode in [RequantMode::Q31Single, RequantMode::Q31Double] {
        let q = Q31::from_scales(xs, ws, ys, mode).expect("valid scales");
        assert_eq!(q, Q31 { multiplier: 1_527_099_593, shift: -6 });
        let requant = Requant { mode, multiplier: Multiplier::Q31(q), zp: -126, lo: -128, hi: 127 };
        assert_eq!(requant.apply(585), -119, "{mode}");
    }
}

#[test]
fn example_4_large_accumulators() {
    assert_eq!(all_modes(MAX, 0.75, 0), [1_610_612_736, 1_610_612_735, 1_610_612_735]);
    assert_eq!(requant_fp32(16_777_217, 1.0, 0, MIN, MAX), 16_777_216);
    assert_eq!(requant_fp32(33_554_435, 1.0, 0, MIN, MAX), 33_554_436);
}

#[test]
fn example_5_int_min() {
    assert_eq!(q31(0.5, RequantMode::Q31Double), Q31 { multiplier: 1 << 30, shift: 0 });
    assert_eq!(all_modes(MIN, 0.5, 0), [-1_073_741_824; 3]);
    let tiny = libm::exp2(-31.0);
    assert_eq!(q31(tiny, RequantMode::Q31Double), Q31 { multiplier: 1 << 30, shift: -30 });
    assert_eq!(all_modes(MIN, tiny, 0), [-1; 3]);
    let one = q31(1.0, RequantMode::Q31Single);
    assert_eq!(one, Q31 { multiplier: 1 << 30, shift: 1 });
    assert_eq!(requant_q31_single(MIN, one, 0, MIN, MAX), MIN);
    assert_eq!(requant_fp32(MIN, 1.0, 0, MIN, MAX), MIN);
    assert!(one.check_left_shift(i64::from(MIN), 0).is_err(), "q31_double rejects acc * 2");
    assert_eq!(one.check_left_shift(-(1 << 30) + 1, (1 << 30) - 1), Ok(()));
    assert!(one.check_left_shift(0, 1 << 30).is_err());
    assert_eq!(q31(0.5, RequantMode::Q31Double).check_left_shift(i64::from(MIN), i64::from(MAX)), Ok(()));
}

#[test]
fn c2_multiplier_edges() {
    for mode in [RequantMode::Q31Double, RequantMode::Q31Single] {
        assert_eq!(q31(0.0, mode), Q31 { multiplier: 0, shift: 0 });
        // Rounds to 2^31, hence 2^30 with the next shift.
        assert_eq!(q31(1.0 - f64::EPSILON, mode), Q31 { multiplier: 1 << 30, shift: 1 });
        // 2^-32 has q = 0.5, s = -31; half of it disappears.
        assert_eq!(q31(libm::exp2(-32.0), mode), Q31 { multiplier: 1 << 30, shift: -31 });
        assert_eq!(q31(libm::exp2(-33.0), mode), Q31 { multiplier: 0, shift: 0 });
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Q31::from_real(bad, mode).is_err(), "{bad}");
        }
    }
    assert_eq!(q31(libm::exp2(40.0), RequantMode::Q31Single), Q31 { multiplier: MAX, shift: 30 });
    assert_eq!(q31(libm::exp2(40.0), RequantMode::Q31Double), Q31 { multiplier: 1 << 30, shift: 41 });
}

#[test]
fn c2_multiplier_is_within_half_a_unit() {
    let mut rng = Rng::new(11);
    for _ in 0..100_000 {
        let real = libm::exp2(rng.real(-30.0, 20.0));
        let q = q31(real, RequantMode::Q31Double);
        assert!((1 << 30..=MAX).contains(&q.multiplier));
        assert!((q.real() / real - 1.0).abs() <= libm::exp2(-31.0), "{real}");
    }
}

/// Floor division by a power of two that never shifts: the independent form of `>>`.
fn floor_div(v: i128, bits: u32) -> i128 {
    v.div_euclid(1_i128 << bits)
}

#[test]
fn c3_c4_equal_exact_arithmetic() {
    let mut rng = Rng::new(12);
    for _ in 0..300_000 {
        let acc = rng.next_i32() >> (rng.next_u32() % 31);
        let q = Q31 { multiplier: rng.int(1 << 30, MAX), shift: rng.int(-31, 6) };
        let zp = rng.int(-128, 255);
        let product = i128::from(acc) * i128::from(q.multiplier);

        // Single: floor(real + 1/2) of the exact product.
        let bits = (31 - q.shift) as u32;
        let single = floor_div(2 * product + (1_i128 << bits), bits + 1);
        let expect = (single + i128::from(zp)).clamp(-128, 127) as i32;
        assert_eq!(requant_q31_single(acc, q, zp, -128, 127), expect, "single {acc} {q:?}");

        // Double: floor(x + 1/2) at 2^-31, then half away from zero.
        if q.check_left_shift(acc.into(), acc.into()).is_ok() {
            let shifted = product << q.shift.max(0);
            let high = floor_div(2 * shifted + (1_i128 << 31), 32);
            let right = (-q.shift).max(0) as u32;
            let magnitude = floor_div(2 * high.abs() + (1_i128 << right), right + 1);
            let double = if high < 0 { -magnitude } else { magnitude };
            let expect = (double + i128::from(zp)).clamp(-128, 127) as i32;
            assert_eq!(requant_q31_double(acc, q, zp, -128, 127), expect, "double {acc} {q:?}");
        }
    }
}

#[test]
fn c1_rounds_the_f32_product_once() {
    let mut rng = Rng::new(13);
    for _ in 0..300_000 {
        let acc = rng.next_i32() >> (rng.next_u32() % 31);
        let m = libm::exp2(rng.real(-31.0, 4.0)) as f32;
        let zp = rng.int(0, 255);
        // The conversion and the product, each rounded once from an exact f64 value.
        let acc32 = f64::from(acc) as f32;
        let t = (f64::from(acc32) * f64::from(m)) as f32;
        let rounded = f64::from(t).round_ties_even() + f64::from(zp);
        assert_eq!(f64::from(requant_fp32(acc, m, zp, 0, 255)), rounded.clamp(0.0, 255.0), "{acc} {m}");
    }
    assert_eq!(requant_fp32(MAX, f32::INFINITY, 3, 0, 255), 255);
    assert_eq!(requant_fp32(0, f32::INFINITY, 3, 0, 255), 0, "0 * inf is NaN, which gives lo");
}

#[test]
fn c5_i64_accumulators() {
    let mut rng = Rng::new(14);
    for _ in 0..200_000 {
        let acc = (rng.next_u64() as i64 >> 17) >> (rng.next_u32() % 40);
        let q = Q31 { multiplier: rng.int(1 << 30, MAX), shift: rng.int(-31, 7) };
        assert_eq!(q.check_i64(acc, acc), Ok(()));
        let m16 = if q.multiplier < 0x7FFF_0000 { (i64::from(q.multiplier) + 32768) / 65536 } else { 32767 };
        let bits = (15 - q.shift) as u32;
        let exact = floor_div(2 * i128::from(acc) * i128::from(m16) + (1_i128 << bits), bits + 1);
        let expect = (exact + 7).clamp(-32768, 32767) as i32;
        assert_eq!(requant_q31_i64(acc, q, 7, -32768, 32767), expect, "{acc} {q:?}");
    }
    let q = Q31 { multiplier: 1_527_099_593, shift: -6 };
    for acc in [-600, -1, 0, 585, 1 << 24] {
        assert_eq!(q.scale_single_i64(acc), q.scale_single(acc as i32), "the same as of 32 bits");
    }
    // 2^46 * M / 2^37: no bit of M is lost.
    assert_eq!(requant_q31_single_i64(1 << 40, q, 0, MIN, MAX), MAX);
    assert_eq!(q.scale_single_i64(1 << 46), 1_527_099_593 << 9);
    assert!(Q31 { multiplier: MAX, shift: 8 }.check_i64(0, 1).is_err());
    assert!(Q31 { multiplier: MAX, shift: 0 }.check_i64(-(1 << 47), 0).is_err());
    // fp32_rne: f64 holds the accumulator, so 2^24 + 1 survives here.
    assert_eq!(requant_fp32_i64(16_777_217, 1.0, 0, MIN, MAX), 16_777_217);
    assert_eq!(requant_fp32_i64(5, 0.5, 0, -32768, 32767), 2);
    assert_eq!(requant_fp32_i64(i64::MAX, 1.0, 0, -32768, 32767), 32767);
}

#[test]
fn out_of_contract_values_do_not_panic() {
    let q = Q31 { multiplier: MIN, shift: i32::MIN + 1 };
    for shift in [i32::MIN + 1, -100, 100, i32::MAX] {
        let q = Q31 { shift, ..q };
        for acc in [MIN, -1, 0, MAX] {
            requant_q31_single(acc, q, MAX, 0, 255);
            requant_q31_double(acc, q, MIN, 0, 255);
            requant_q31_i64(i64::MIN, q, MAX, 0, 255);
        }
    }
}

#[test]
fn modes_have_stable_values_and_names() {
    for mode in RequantMode::ALL {
        assert_eq!(RequantMode::from_u32(mode.as_u32()), Some(mode));
        assert_eq!(RequantMode::from_name(mode.name()), Some(mode));
    }
    assert_eq!(RequantMode::ALL.map(RequantMode::as_u32), [1, 2, 3]);
    assert_eq!(RequantMode::from_u32(0), None);
    assert_eq!(RequantMode::from_u32(4), None);
    assert_eq!(RequantMode::from_name("fp32"), None);
}

#[test]
fn multipliers_are_checked() {
    let ok = Multiplier::from_scales(RequantMode::Fp32Rne, 0.5, 0.5, 0.125).expect("valid");
    assert_eq!(ok, Multiplier::Fp32(2.0));
    assert!(Multiplier::from_scales(RequantMode::Fp32Rne, 1e30, 1e30, 1.0).is_err(), "infinite");
    assert!(Multiplier::from_scales(RequantMode::Fp32Rne, 65536.0, 65536.0, 1.0).is_err(), "2^32");
    assert!(Multiplier::from_scales(RequantMode::Q31Double, 0.0, 1.0, 1.0).is_err());
    assert_eq!(fp32_multiplier_alpha(0.5, 0.5, 3.0, 0.25), 3.0);
    let requant = Requant { mode: RequantMode::Q31Single, multiplier: ok, zp: 0, lo: 0, hi: 1 };
    assert!(!requant.is_consistent());
}

#[test]
fn requant_from_scales() {
    let out = Target { scale: 0.125, zp: 3, lo: 0, hi: 255 };
    for mode in RequantMode::ALL {
        let requant = Requant::from_scales(mode, 0.5, 0.5, out).expect("valid scales");
        assert!(requant.is_consistent());
        assert_eq!([requant.apply(-1), requant.apply(2), requant.apply(126), requant.apply(127)], [1, 7, 255, 255]);
        assert_eq!(requant.apply_i64(2), 7);
        // Multiplier 2 has s = 2: q31_double multiplies the accumulator by 4 first.
        let proved = requant.check_acc(-(1 << 29) + 1, (1 << 29) - 1);
        assert_eq!(proved, Ok(()), "{mode}");
        assert_eq!(requant.check_acc(0, 1 << 29).is_err(), mode == RequantMode::Q31Double);
        assert!(Requant::from_scales(mode, 0.5, -0.5, out).is_err());
    }
}
