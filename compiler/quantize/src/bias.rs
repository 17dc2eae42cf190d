//! Quantizing biases to s32 at scale `xs * ws[c]`, and raising a weight scale where the bias would not fit (numerics,
//! sections 4 and 5).

/// The largest accumulator.
const ACC_MAX: f64 = i32::MAX as f64;

/// `b = sat(rne(bias / (xs * ws)))`, in f64.
pub fn quantize_bias(bias: f32, x_scale: f32, w_scale: f32) -> i32 {
    // The float-to-integer conversion saturates, and turns NaN into 0; NaN biases are refused before.
    (f64::from(bias) / bias_scale(x_scale, w_scale)).round_ties_even() as i32
}

/// The real value of one step of the bias, in f64.
pub fn bias_scale(x_scale: f32, w_scale: f32) -> f64 {
    f64::from(x_scale) * f64::from(w_scale)
}

/// The weight scale that a channel needs so that its bias and its products fit an i32 together; `None` if the present
/// one does.
///
/// `weight_sum` is Σ|w'| over the channel's integer weights, `k` their number, `x_span` the largest |x - zx|. A larger
/// scale shrinks the integers, but each rounds up by at most one half, which is allowed for.
pub fn scale_for_bias(bias: f32, x_scale: f32, w_scale: f32, weight_sum: u64, k: usize, x_span: u32) -> Option<f32> {
    let products = |sum: f64| (sum + 0.5 * k as f64) * f64::from(x_span);
    let fits = |scale: f32, sum: f64| f64::from(bias).abs() / bias_scale(x_scale, scale) + products(sum) < ACC_MAX;
    if fits(w_scale, weight_sum as f64) {
        return None;
    }
    let room = ACC_MAX - products(weight_sum as f64);
    if room <= 0.0 {
        // The products alone do not fit; another weight scale is no remedy, the compiler splits or widens the node.
        return None;
    }
    let needed = f64::from(bias).abs() / (f64::from(x_scale) * room);
    let raised = (needed * (1.0 + 1e-6)) as f32;
    (raised.is_finite() && raised > w_scale).then_some(raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_round_to_even_and_saturate() {
        assert_eq!(quantize_bias(2.5, 1.0, 1.0), 2);
        assert_eq!(quantize_bias(-3.5, 1.0, 1.0), -4);
        assert_eq!(quantize_bias(1.0, 0.5, 0.25), 8);
        assert_eq!(quantize_bias(1e9, 1e-3, 1e-3), i32::MAX);
        assert_eq!(quantize_bias(-1e9, 1e-3, 1e-3), i32::MIN);
    }

    #[test]
    fn a_fitting_bias_changes_nothing() {
        assert_eq!(scale_for_bias(1.0, 0.01, 0.01, 1000, 9, 255), None);
    }

    #[test]
    fn a_large_bias_raises_the_weight_scale_just_enough() {
        let (bias, xs, ws) = (40_000.0, 1e-3, 1e-3);
        let raised = scale_for_bias(bias, xs, ws, 9 * 127, 9, 255).unwrap();
        assert!(raised > ws && raised < 0.02, "{raised}");
        let room = i64::from(i32::MAX) - (9 * 127 + 5) * 255;
        assert!(i64::from(quantize_bias(bias, xs, raised)) <= room);
        assert!(i64::from(quantize_bias(bias, xs, raised)) > room - 100_000);
    }

    #[test]
    fn products_that_overflow_alone_are_left_to_the_compiler() {
        assert_eq!(scale_for_bias(1.0, 1.0, 1.0, 1 << 32, 70_000, 255), None);
    }
}
