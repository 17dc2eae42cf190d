//! Bias integers and the guards around them (numerics.md section 4, "Bias", and section 5).
//!
//! * (C1) A bias is s32 with zero point 0 at scale `xs * ws[c]`: `b = sat(rne(f64(bias) / (f64(xs) * f64(ws[c]))))`.
//! * (C2) A bias with another scale `bs` is used as it is iff `|bs / (xs * ws) - 1| <= 2^-20`; scales are compared
//!   relatively, never absolutely.
//! * (C3) Otherwise its real value `b * bs` is requantized for each consumer.
//! * (C4) A bias that does not fit beside the channel's activation bound raises `ws[c]`, if the quantizer may.

use super::round::sat_rne_f64;

/// The largest relative difference of two scales that still count as equal (C2): `2^-20`.
pub const SCALE_TOLERANCE: f64 = 1.0 / 1_048_576.0;

/// (C1) The bias integer of a real bias. NaN, a model error, gives `i32::MIN`.
pub fn bias_s32(bias: f32, xs: f32, ws: f32) -> i32 {
    bias_s32_real(f64::from(bias), xs, ws)
}

/// (C1) The bias integer of a real bias that is known in f64.
pub fn bias_s32_real(bias: f64, xs: f32, ws: f32) -> i32 {
    sat_rne_f64(bias / (f64::from(xs) * f64::from(ws)), i32::MIN, i32::MAX)
}

/// (C2) Whether integers at scale `bs` may be used at scale `xs * ws` unchanged.
pub fn bias_scale_matches(bs: f32, xs: f32, ws: f32) -> bool {
    let product = f64::from(xs) * f64::from(ws);
    // False for NaN, which a zero or infinite product produces.
    (f64::from(bs) / product - 1.0).abs() <= SCALE_TOLERANCE
}

/// (C3) The integer at scale `xs * ws` of the bias integer `b` at scale `bs`.
pub fn requantize_bias(b: i32, bs: f32, xs: f32, ws: f32) -> i32 {
    bias_s32_real(f64::from(b) * f64::from(bs), xs, ws)
}

/// (C2, C3) The bias integer to use: `b` itself where the scales match, else requantized.
pub fn adopt_bias(b: i32, bs: f32, xs: f32, ws: f32) -> i32 {
    if bias_scale_matches(bs, xs, ws) { b } else { requantize_bias(b, bs, xs, ws) }
}

/// (C4) The greatest `|b|` that leaves room for `activation_bound`, the largest magnitude of the channel's sum
/// without bias; `None` if the sum alone fills 32 bits.
pub fn bias_room(activation_bound: i64) -> Option<i64> {
    let room = i64::from(i32::MAX).checked_sub(activation_bound)?;
    (room >= 0).then_some(room)
}

/// (C4) Whether the real `bias` fits beside `activation_bound` at scale `xs * ws`.
pub fn bias_fits(bias: f32, xs: f32, ws: f32, activation_bound: i64) -> bool {
    let Some(room) = bias_room(activation_bound) else { return false };
    let b = libm::rint(f64::from(bias) / (f64::from(xs) * f64::from(ws)));
    b.abs() <= room as f64
}

/// (C4) The least weight scale, not below `ws`, at which `bias` fits beside `activation_bound`.
///
/// `None` if there is none: the bound leaves no room, or the inputs are not finite. The bound is one for the full
/// range of the storage, so it holds for the weights quantized at the new scale too.
pub fn raised_weight_scale(bias: f32, xs: f32, ws: f32, activation_bound: i64) -> Option<f32> {
    if bias_fits(bias, xs, ws, activation_bound) {
        return Some(ws);
    }
    let room = bias_room(activation_bound)?;
    let mut raised = (f64::from(bias).abs() / (room as f64 * f64::from(xs))) as f32;
    // The rounding to f32 may have lost the last unit.
    if !bias_fits(bias, xs, raised, activation_bound) {
        raised = raised.next_up();
    }
    let ok = raised.is_finite() && raised > ws && bias_fits(bias, xs, raised, activation_bound);
    ok.then_some(raised)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::testing::Rng;

    #[test]
    fn c1_rounds_to_even_and_saturates() {
        assert_eq!(bias_s32(0.125, 0.5, 0.5), 0, "0.5 is a tie");
        assert_eq!(bias_s32(0.375, 0.5, 0.5), 2, "1.5 is a tie");
        assert_eq!(bias_s32(-1.0, 0.5, 0.25), -8);
        assert_eq!(bias_s32(1e30, 1e-3, 1e-3), i32::MAX);
        assert_eq!(bias_s32(f32::NEG_INFINITY, 1.0, 1.0), i32::MIN);
        assert_eq!(bias_s32(f32::NAN, 1.0, 1.0), i32::MIN);
        // The product of the scales stays in f64: in f32 it would underflow to 0.
        assert_eq!(bias_s32(3e-40, 1e-20, 1e-20), 3);
    }

    #[test]
    fn c2_scales_are_compared_relatively() {
        let (xs, ws) = (0.5, 1e-6_f32);
        let exact = 0.5 * ws;
        assert!(bias_scale_matches(exact, xs, ws));
        // f32 neighbours differ by 2^-23 to 2^-24: eight of them are 2^-20 at most, twenty are beyond.
        let step = |n: u32| f32::from_bits(exact.to_bits() + n);
        assert!(bias_scale_matches(step(8), xs, ws));
        assert!(!bias_scale_matches(step(20), xs, ws));
        assert!(!bias_scale_matches(1e-9, xs, ws), "small scales are not equal because they are small");
        assert!(bias_scale_matches(1.0 + 1.0 / 1_048_576.0, 1.0, 1.0), "the border itself matches");
        assert!(!bias_scale_matches(0.0, 0.0, 0.0));
    }

    #[test]
    fn c3_requantizes_for_each_consumer() {
        assert_eq!(requantize_bias(1000, 0.5, 0.25, 1.0), 2000);
        assert_eq!(requantize_bias(1000, 0.5, 4.0, 1.0), 125);
        assert_eq!(requantize_bias(i32::MAX, 1.0, 0.25, 0.5), i32::MAX);
        assert_eq!(adopt_bias(1000, 0.5, 0.25, 1.0), 2000);
        assert_eq!(adopt_bias(7, 0.25, 0.25, 1.0), 7);
    }

    #[test]
    fn c4_raised_scales_are_minimal() {
        let mut rng = Rng::new(51);
        for _ in 0..20_000 {
            let (xs, ws) = (rng.scale() * 1e-4, rng.scale() * 1e-4);
            let bias = rng.real(-1e3, 1e3) as f32;
            let bound = rng.int(0, i32::MAX - 1) as i64;
            let raised = raised_weight_scale(bias, xs, ws, bound).expect("finite inputs and room");
            assert!(bias_fits(bias, xs, raised, bound));
            let b = i64::from(bias_s32(bias, xs, raised));
            assert!(b.abs() + bound <= i64::from(i32::MAX));
            if raised > ws {
                let below = raised * (1.0 - 3e-7);
                let room = bias_room(bound).expect("room") as f64;
                let at_below = f64::from(bias).abs() / (f64::from(xs) * f64::from(below));
                assert!(at_below > room - 0.5, "could be smaller");
            }
        }
        assert_eq!(raised_weight_scale(0.1, 0.1, 0.1, 1000), Some(0.1));
        assert_eq!(raised_weight_scale(1.0, 1.0, 1.0, i64::from(i32::MAX) + 1), None);
        assert_eq!(raised_weight_scale(f32::INFINITY, 1.0, 1.0, 0), None);
        assert_eq!(raised_weight_scale(1e30, 1e-30, 1.0, i64::from(i32::MAX)), None, "no room at all");
    }
}
