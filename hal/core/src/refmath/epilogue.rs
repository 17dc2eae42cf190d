//! Float ends of integer accumulations (numerics.md section 4).
//!
//! * (C1) No Quantize behind: `fl32(f32(acc) * fl32(xs * ws))`, the bias inside `acc`.
//! * (C2) QGemm without y_scale: `fl32(f32(acc) * fl32(fl32(xs * ws) * alpha))`.
//! * (C3) Dynamic rows: `fl32(fl32(f32(acc) * fl32(sx * ws)) + bias)`.
//! * (C4) Fused residual: `t` as C1, the other operand dequantized, one `fl32` sum, the activation in f32, Quantize.
//!
//! The conversion of the accumulator rounds to nearest even. None of these may be fused into a multiply-add.

use super::quantize::{Affine, Target};

/// (C1, C2) The multiplier of a float output: `fl32(xs * ws)`, and times `alpha` where there is one.
///
/// `alpha = 1` changes no bit.
#[inline]
pub fn float_multiplier(xs: f32, ws: f32, alpha: f32) -> f32 {
    xs * ws * alpha
}

/// (C1, C2) The float value of an accumulator: `fl32(f32(acc) * m)`.
#[inline]
pub fn acc_to_f32(acc: i32, m: f32) -> f32 {
    acc as f32 * m
}

/// (C1) As [`acc_to_f32`] for an i64 accumulator, which converts to f32 in one rounding as well.
#[inline]
pub fn acc_i64_to_f32(acc: i64, m: f32) -> f32 {
    acc as f32 * m
}

/// (C3) The output of a dynamically quantized row; `m = fl32(sx * ws)`.
#[inline]
pub fn dynamic_output(acc: i32, m: f32, bias: f32) -> f32 {
    acc as f32 * m + bias
}

/// (C4) Conv/Gemm/MatMul -> Add -> activation -> Quantize; `m = fl32(xs * ws)`.
#[inline]
pub fn residual(
    acc: i32,
    m: f32,
    other: i32,
    other_params: Affine,
    activation: impl Fn(f32) -> f32,
    out: Target,
) -> i32 {
    out.quantize(activation(acc_to_f32(acc, m) + other_params.dequantize(other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::float::relu;
    use crate::refmath::testing::Rng;

    #[test]
    fn c1_c2_round_conversion_and_product() {
        assert_eq!(acc_to_f32(16_777_217, 1.0), 16_777_216.0);
        assert_eq!(acc_i64_to_f32((1 << 40) + 1, 0.5), 549_755_813_888.0);
        assert_eq!(float_multiplier(0.5, 0.25, 3.0), 0.375);
        let (xs, ws) = (0.1_f32, 0.3_f32);
        assert_eq!(float_multiplier(xs, ws, 1.0).to_bits(), (xs * ws).to_bits());
    }

    #[test]
    fn c3_is_not_fused() {
        // The product 33 * fl32(0.1) rounds; a fused sum would keep its tail.
        let product = 33.0_f32 * 0.1;
        assert_eq!(dynamic_output(33, 0.1, -product), 0.0);
        assert_ne!(33.0_f32.mul_add(0.1, -product), 0.0);
    }

    #[test]
    fn c4_equals_the_unfused_graph() {
        let mut rng = Rng::new(131);
        for _ in 0..100_000 {
            let (m, acc) = (rng.scale() * 1e-3, rng.next_i32() >> 12);
            let (p, q) = (Affine { scale: rng.scale(), zp: rng.int(0, 255) }, rng.int(0, 255));
            let out = Target { scale: rng.scale(), zp: rng.int(0, 255), lo: 0, hi: 255 };
            // Each step rounded once from f64.
            let t = (f64::from(acc as f32) * f64::from(m)) as f32;
            let d = (f64::from(q - p.zp) * f64::from(p.scale)) as f32;
            let sum = (f64::from(t) + f64::from(d)) as f32;
            let y = (f64::from(sum.max(0.0)) / f64::from(out.scale)) as f32;
            let expect = (f64::from(y).round_ties_even() + f64::from(out.zp)).clamp(0.0, 255.0);
            assert_eq!(f64::from(residual(acc, m, q, p, relu, out)), expect);
        }
    }
}
