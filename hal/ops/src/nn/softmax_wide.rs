//! Softmax of s16 values in a Q31 mode: that of TFLite's reference kernel (numerics.md section 4).
//!
//! * (C1) A table of 512 steps over s16 with the last point as entry 513; a value between two entries is interpolated with
//!   7 fraction bits, `base + ((slope * offset + 64) >> 7)`. An entry is moved by half of the error that interpolation has
//!   in the middle of its step. Tables are made in f64.
//! * (C2) `e = exp`: differences to the maximum, rescaled (`q31_double` or the node's mode) so that -65535 stands for -10,
//!   saturated; Q0.15.
//! * (C3) `1/sum`: the sum shifted to 17 bits, `1/(1+x)` from a second table; `y = (e * r + half) >> top`,
//!   `top` being the sum's highest bit.

use ottava_hal::refmath::requant::Q31;
use ottava_hal::{Error, RequantMode, Result};

/// Steps of a table.
const STEPS: usize = 512;
/// Greatest u16.
const FULL: f64 = 65_535.0;

/// The constants of a node.
pub(crate) struct SoftmaxWide {
    mode: RequantMode,
    difference: Q31,
    exp: Vec<i32>,
    reciprocal: Vec<i32>,
}

impl SoftmaxWide {
    /// For inputs of scale `xs`.
    pub fn new(xs: f32, mode: RequantMode) -> Result<Self> {
        let difference = Q31::from_real(f64::from(xs) / (10.0 / FULL), mode);
        Ok(Self {
            mode,
            difference: difference.map_err(|e| Error::invalid(e.to_string()))?,
            exp: table(10.0 / FULL, 32_767.0, libm::exp),
            reciprocal: table(1.0 / FULL, -32_768.0, |x| 1.0 / (1.0 + x)),
        })
    }

    /// A row; both slices have one length.
    pub fn row(&self, x: &[i32], y: &mut [i32]) {
        let max = x.iter().copied().max().unwrap_or(0);
        let mut sum = 0i64;
        for (y, x) in y.iter_mut().zip(x) {
            // (C2) Both are s16: the difference has 17 bits.
            let scaled = self.difference.scale(x - max, self.mode);
            *y = lookup(&self.exp, scaled + 32_767);
            sum += i64::from(*y);
        }
        // (C3) Rows so long that the sum leaves 31 bits saturate.
        let sum = sum.clamp(1, i64::from(i32::MAX));
        let top = 63 - sum.leading_zeros();
        let shifted = ((sum << (30 - top)) + (1 << 13)) >> 14;
        let reciprocal = i64::from(lookup(&self.reciprocal, shifted - (1 << 15) - (1 << 16)));
        let half = if top == 0 { 0 } else { 1i64 << (top - 1) };
        for y in y {
            *y = ((i64::from(*y) * reciprocal + half) >> top).clamp(0, 32_767) as i32;
        }
    }
}

/// (C1) The entries for inputs `scale * (q - zp)` and outputs of scale 2/65535.
fn table(scale: f64, zp: f64, f: fn(f64) -> f64) -> Vec<i32> {
    let (low, high) = (scale * (-32_768.0 - zp), scale * (32_767.0 - zp));
    let step = (high - low) / STEPS as f64;
    let (out, round) = (2.0 / FULL, libm::round);
    let inverse = 65_536.0 / (out * 32_767.0 - out * -32_768.0);
    let entry = |v: f64| v.clamp(-32_768.0, 32_767.0) as i32;
    let steps = (0..STEPS).map(|i| {
        let at = low + i as f64 * step;
        let (value, middle, next) = (f(at), f(at + step / 2.0), f(low + (i + 1) as f64 * step));
        let sample = round(value * inverse);
        let error = round((next * inverse + sample) / 2.0) - round(middle * inverse);
        entry(sample - round(error / 2.0))
    });
    steps.chain([entry(round(f(high) * inverse))]).collect()
}

/// (C1) A value between two entries; `q` saturates to s16.
fn lookup(table: &[i32], q: i64) -> i32 {
    let q = q.clamp(-32_768, 32_767) as i32;
    let (index, offset) = ((256 + (q >> 7)) as usize, q & 127);
    let (base, next) = (table[index], table[index + 1]);
    base + (((next - base) * offset + 64) >> 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c2_c3_rows_are_close_to_the_real_softmax() {
        let scale = 3.0 / 32_768.0;
        let softmax = SoftmaxWide::new(scale, RequantMode::Q31Double).unwrap();
        let x: Vec<i32> = (0..24).map(|i| (i * 7919) % 65_536 - 32_768).collect();
        let mut y = vec![0; x.len()];
        softmax.row(&x, &mut y);
        let real: Vec<f64> = x.iter().map(|q| (f64::from(*q) * f64::from(scale)).exp()).collect();
        let sum: f64 = real.iter().sum();
        for (y, e) in y.iter().zip(&real) {
            assert!((f64::from(*y) - e / sum * 32_768.0).abs() < 8.0, "{y} {}", e / sum * 32_768.0);
        }
    }

    #[test]
    fn c3_one_element_is_the_whole() {
        let softmax = SoftmaxWide::new(0.001, RequantMode::Q31Double).unwrap();
        let mut y = [0];
        softmax.row(&[-5], &mut y);
        assert!((32_766..=32_767).contains(&y[0]), "{y:?}");
        softmax.row(&[], &mut []);
    }
}
