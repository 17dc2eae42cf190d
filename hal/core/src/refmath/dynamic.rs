//! Rows quantized at run time (numerics.md section 4, dynamic-range models and per-row dynamic quantization).
//!
//! * (C1) `scale = fl32(max|x| / 127)`; a scale of 0 counts as 1. NaN has no part in the maximum.
//! * (C2) `q = rne(fl32(x / scale))` within -127..=127; NaN gives 0.

/// Adding and subtracting it rounds values below 2^22 to the nearest integer, ties to even.
const ROUND: f32 = 12_582_912.0;

/// (C1) The scale of a row.
#[inline]
pub fn row_scale(x: &[f32]) -> f32 {
    // `max` passes NaN by.
    let largest = x.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    let scale = largest / 127.0;
    if scale == 0.0 { 1.0 } else { scale }
}

/// (C2) The integer of one element.
#[inline]
pub fn quantize_value(x: f32, scale: f32) -> i8 {
    // The clamp comes first, so that the conversion is exact; `as` makes 0 of NaN.
    ((x / scale).clamp(-127.0, 127.0) + ROUND - ROUND) as i8
}

/// (C2) The integers of a row; elements without a counterpart are left alone.
#[inline]
pub fn quantize_row(x: &[f32], scale: f32, out: &mut [i8]) {
    x.iter().zip(out).for_each(|(x, q)| *q = quantize_value(*x, scale));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_scales() {
        assert_eq!(row_scale(&[]), 1.0);
        assert_eq!(row_scale(&[0.0, -0.0]), 1.0);
        assert_eq!(row_scale(&[-254.0, 3.0, f32::NAN]), 2.0);
        assert_eq!(row_scale(&[1e-45]), 1.0, "a scale that rounds to zero");
        assert_eq!(row_scale(&[f32::INFINITY]), f32::INFINITY);
    }

    #[test]
    fn c2_codes() {
        let mut q = [9_i8; 6];
        quantize_row(&[0.5, 1.5, -2.5, 127.4, -1e9, f32::NAN], 1.0, &mut q);
        assert_eq!(q, [0, 2, -2, 127, -127, 0]);
        quantize_row(&[f32::INFINITY, 1.0], f32::INFINITY, &mut q[..2]);
        assert_eq!(q[..2], [0, 0], "inf / inf is NaN");
    }
}
