//! Deterministic f32 sums and the row operations built on them (numerics.md section 7).
//!
//! * (C1) A sum has one accumulator that starts at +0 and takes its terms in ascending index, plain `fl32` adds.
//! * (C2) A dot product is one fused multiply-add per step in ascending K; only here is fusing allowed.
//! * (C3) Softmax: subtract the maximum, `exp`, sum, divide.
//! * (C4) LayerNorm in two passes: the mean, then the sum of `fl32(d*d)`; `1/sqrt` is two operations.
//! * (C5) NaN propagates through maximum, minimum and Relu.
//!
//! Kernels vectorise over rows or outputs, never over the summed index.

use super::float::{exp, log};

/// (C1) The sum of a row.
#[inline]
pub fn sum(xs: &[f32]) -> f32 {
    xs.iter().fold(0.0, |acc, &x| acc + x)
}

/// `fl32(sum / n)`; NaN for an empty row.
#[inline]
pub fn mean(xs: &[f32]) -> f32 {
    sum(xs) / xs.len() as f32
}

/// (C4) `fl32(sum of fl32(d*d) / n)`, `d = fl32(x - mean)`.
#[inline]
pub fn variance(xs: &[f32], mean: f32) -> f32 {
    let squares = xs.iter().fold(0.0, |acc: f32, &x| {
        let d = x - mean;
        acc + d * d
    });
    squares / xs.len() as f32
}

/// (C2) Continues the accumulator `acc` over the common length of both operands.
#[inline]
pub fn dot(acc: f32, a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).fold(acc, |acc, (&x, &w)| x.mul_add(w, acc))
}

/// Gemm: `fl32(fl32(alpha * acc) + fl32(beta * c))`; without `c` only the first product.
#[inline]
pub fn gemm_epilogue(acc: f32, alpha: f32, beta: f32, c: Option<f32>) -> f32 {
    // A multiplication by 1 changes no bit, so omitting it and doing it are the same.
    let scaled = alpha * acc;
    match c {
        Some(c) => scaled + beta * c,
        None => scaled,
    }
}

/// (C5) The greater value; NaN if either is NaN, `b` if they are equal.
#[inline]
pub fn max(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// (C5) The lesser value; NaN if either is NaN, `b` if they are equal.
#[inline]
pub fn min(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

/// (C5) 0 for negative values, else `x` itself (NaN and -0 included).
#[inline]
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// (C5) The maximum of a row; -inf for an empty one.
fn row_max(xs: &[f32]) -> f32 {
    xs.iter().fold(f32::NEG_INFINITY, |m, &x| max(m, x))
}

/// (C3) Softmax of a row. Only the common length is written.
///
/// A row that holds NaN or +inf, or only -inf, gives NaN, as the formula does.
pub fn softmax_row(xs: &[f32], out: &mut [f32]) {
    let m = row_max(xs);
    let mut total = 0.0;
    for (y, &x) in out.iter_mut().zip(xs) {
        *y = exp(x - m);
        total += *y;
    }
    for y in out.iter_mut().take(xs.len()) {
        *y /= total;
    }
}

/// LogSoftmax: `fl32(fl32(x - max) - log(sum))`, the sum as in [`softmax_row`].
pub fn log_softmax_row(xs: &[f32], out: &mut [f32]) {
    let m = row_max(xs);
    let total = xs.iter().fold(0.0, |acc, &x| acc + exp(x - m));
    let log_total = log(total);
    for (y, &x) in out.iter_mut().zip(xs) {
        *y = (x - m) - log_total;
    }
}

/// (C4) LayerNormalization: `fl32(fl32(fl32(d * inv) * gamma) + beta)`, `inv = fl32(1 / fl32(sqrt(var + eps)))`.
///
/// `gamma` and `beta` may be absent; their operation is then left out. Only the common length is written.
pub fn layer_norm_row(xs: &[f32], gamma: Option<&[f32]>, beta: Option<&[f32]>, eps: f32, out: &mut [f32]) {
    let mean = mean(xs);
    let inv = 1.0 / (variance(xs, mean) + eps).sqrt();
    for (i, (y, &x)) in out.iter_mut().zip(xs).enumerate() {
        *y = affine((x - mean) * inv, element(gamma, i), element(beta, i));
    }
}

/// (C4) RMSNormalization: as [`layer_norm_row`] with `d = x`, no mean and no offset.
pub fn rms_norm_row(xs: &[f32], gamma: Option<&[f32]>, eps: f32, out: &mut [f32]) {
    let inv = 1.0 / (variance(xs, 0.0) + eps).sqrt();
    for (i, (y, &x)) in out.iter_mut().zip(xs).enumerate() {
        *y = affine(x * inv, element(gamma, i), None);
    }
}

fn element(values: Option<&[f32]>, index: usize) -> Option<f32> {
    values.and_then(|v| v.get(index).copied())
}

fn affine(z: f32, gamma: Option<f32>, beta: Option<f32>) -> f32 {
    let scaled = gamma.map_or(z, |g| z * g);
    beta.map_or(scaled, |b| scaled + b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::testing::Rng;

    #[test]
    fn c1_sums_ascend() {
        // 2^24 + 1 + 1: ascending order loses both ones, descending order keeps them.
        assert_eq!(sum(&[16_777_216.0, 1.0, 1.0]), 16_777_216.0);
        assert_eq!(sum(&[1.0, 1.0, 16_777_216.0]), 16_777_218.0);
        assert_eq!(sum(&[-0.0]).to_bits(), 0, "starts at +0");
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert!(mean(&[]).is_nan());
        assert_eq!(variance(&[1.0, 3.0], 2.0), 1.0);
    }

    #[test]
    fn c2_dot_is_fused() {
        let eps = f32::EPSILON;
        // (1 + eps)^2 - 1 - 2 eps leaves eps^2, which only a fused step keeps.
        assert_eq!(dot(-1.0 - 2.0 * eps, &[1.0 + eps], &[1.0 + eps]), eps * eps);
        assert_eq!(dot(dot(0.0, &[2.0], &[3.0]), &[4.0], &[5.0]), dot(0.0, &[2.0, 4.0], &[3.0, 5.0]));
        assert_eq!(gemm_epilogue(2.0, 0.5, 3.0, Some(4.0)), 13.0);
        assert_eq!(gemm_epilogue(2.0, 0.5, 3.0, None), 1.0);
    }

    #[test]
    fn c3_softmax_against_f64() {
        let mut rng = Rng::new(41);
        let mut xs = [0.0; 37];
        let mut ys = [0.0; 37];
        for _ in 0..500 {
            xs.fill_with(|| rng.real(-20.0, 20.0) as f32);
            softmax_row(&xs, &mut ys);
            let m = xs.iter().fold(f64::MIN, |m, &x| m.max(x.into()));
            let total: f64 = xs.iter().map(|&x| libm::exp(f64::from(x) - m)).sum();
            for (x, y) in xs.iter().zip(ys) {
                let exact = libm::exp(f64::from(*x) - m) / total;
                assert!((f64::from(y) - exact).abs() <= exact * 5e-6, "{y} {exact}");
            }
            log_softmax_row(&xs, &mut ys);
            for (x, y) in xs.iter().zip(ys) {
                let exact = f64::from(*x) - m - libm::log(total);
                assert!((f64::from(y) - exact).abs() <= 5e-6, "{y} {exact}");
            }
        }
    }

    #[test]
    fn c3_softmax_special_rows() {
        let mut ys = [0.0; 2];
        softmax_row(&[f32::NEG_INFINITY, 0.0], &mut ys);
        assert_eq!(ys, [0.0, 1.0]);
        for bad in [[f32::NAN, 0.0], [0.0, f32::NAN], [f32::INFINITY, 0.0], [f32::NEG_INFINITY; 2]] {
            softmax_row(&bad, &mut ys);
            assert!(ys.iter().any(|y| y.is_nan()), "{bad:?}");
        }
        softmax_row(&[1000.0, 1000.0], &mut ys);
        assert_eq!(ys, [0.5, 0.5]);
        softmax_row(&[], &mut []);
    }

    #[test]
    fn c4_layer_norm_is_the_written_sequence() {
        let (xs, gamma, beta) = ([1.0, 2.0, 4.0, 9.0], [2.0, 0.5, 1.0, 3.0], [0.1, 0.2, 0.3, 0.4]);
        let mut ys = [0.0; 4];
        layer_norm_row(&xs, Some(&gamma), Some(&beta), 1e-5, &mut ys);
        // mean 4, variance (9 + 4 + 0 + 25) / 4 = 9.5.
        let inv = 1.0 / (9.5_f32 + 1e-5).sqrt();
        for i in 0..4 {
            assert_eq!(ys[i], (xs[i] - 4.0) * inv * gamma[i] + beta[i]);
        }
        layer_norm_row(&xs, None, None, 1e-5, &mut ys);
        assert_eq!(ys[3], 5.0 * inv);
        rms_norm_row(&xs, Some(&gamma), 0.5, &mut ys);
        let inv = 1.0 / (25.5_f32 + 0.5).sqrt();
        assert_eq!(ys[1], 2.0 * inv * 0.5);
    }

    #[test]
    fn c5_nan_propagates() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(max(a, b).is_nan() && min(a, b).is_nan());
        }
        assert!(relu(f32::NAN).is_nan());
        assert_eq!([max(1.0, 2.0), min(1.0, 2.0), relu(-1.0), relu(3.0)], [2.0, 1.0, 0.0, 3.0]);
        assert!(max(0.0, -0.0).is_sign_negative(), "equal values give the second");
        assert!(relu(-0.0).is_sign_negative());
    }
}
