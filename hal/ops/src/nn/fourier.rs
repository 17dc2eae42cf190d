//! The discrete Fourier transform that DFT and STFT are made of.
//!
//! * (C1) `X[k] = sum over j of x[j] * exp(∓2πi jk/n)`, minus forwards. (C2) In f64: the length is split at its smallest
//!   prime factor p, the parts are transformed and added in ascending order. Each power of the root of unity is computed
//!   from its angle, so it is right to one ulp for any length.

use ottava_hal::{Error, Reason, Result, Tensor};

/// A complex number.
pub(super) type Complex = [f64; 2];

/// Largest prime factor of a length. A transform takes as many steps per element as its factors have in sum.
const MAX_FACTOR: usize = 1 << 14;

/// Transforms of one length and direction.
pub(super) struct Fourier {
    /// Powers of the root of unity.
    powers: Vec<Complex>,
}

impl Fourier {
    /// Forwards or backwards (without the factor 1/n), for `n > 0` elements.
    pub fn new(n: usize, inverse: bool) -> Result<Self> {
        let mut rest = n;
        while rest > 1 {
            let factor = smallest_factor(rest);
            if factor > MAX_FACTOR {
                let what =
                    format!("a Fourier transform of length {n} has the prime factor {factor}; at most {MAX_FACTOR}");
                return Err(Error::unsupported(Reason::ShapeLimit, what));
            }
            rest /= factor;
        }
        let sign = if inverse { 1.0 } else { -1.0 };
        let power = |j: usize| {
            // Quarter turns are exact; the angle in f64 is not.
            let turns: &[Complex; 4] = &[[1.0, 0.0], [0.0, sign], [-1.0, 0.0], [0.0, -sign]];
            if (j * 4).is_multiple_of(n) {
                return turns[j * 4 / n];
            }
            let angle = 2.0 * std::f64::consts::PI * j as f64 / n as f64;
            [libm::cos(angle), sign * libm::sin(angle)]
        };
        Ok(Self { powers: Tensor::collect((0..n).map(power))? })
    }

    /// The transform of as many elements as [`Self::new`] was told.
    pub fn run(&self, x: &[Complex]) -> Vec<Complex> {
        let n = x.len();
        if n <= 1 {
            return x.to_vec();
        }
        let factor = smallest_factor(n);
        let part = n / factor;
        let parts: Vec<Vec<Complex>> =
            (0..factor).map(|r| self.run(&x.iter().skip(r).step_by(factor).copied().collect::<Vec<_>>())).collect();
        let step = self.powers.len() / n;
        let at = |k: usize| {
            let mut sum = [0.0, 0.0];
            for (r, values) in parts.iter().enumerate() {
                let term = multiply(values[k % part], self.powers[r * k % n * step]);
                sum = [sum[0] + term[0], sum[1] + term[1]];
            }
            sum
        };
        (0..n).map(at).collect()
    }
}

fn multiply(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

fn smallest_factor(n: usize) -> usize {
    let odd = (3..).step_by(2).take_while(|f| f * f <= n);
    std::iter::once(2).chain(odd).find(|f| n.is_multiple_of(*f)).unwrap_or(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_every_length_is_the_sum_of_the_definition() {
        for n in [1usize, 2, 7, 12, 30, 49] {
            let x: Vec<Complex> = (0..n).map(|i| [(i * i % 7) as f64 - 3.0, (i % 3) as f64]).collect();
            let found = Fourier::new(n, false).expect("small factors").run(&x);
            for (k, y) in found.iter().enumerate() {
                let mut sum = [0.0, 0.0];
                for (j, v) in x.iter().enumerate() {
                    let angle = -2.0 * std::f64::consts::PI * (j * k % n) as f64 / n as f64;
                    let term = multiply(*v, [angle.cos(), angle.sin()]);
                    sum = [sum[0] + term[0], sum[1] + term[1]];
                }
                assert!(
                    (y[0] - sum[0]).abs() < 1e-12 * n as f64 && (y[1] - sum[1]).abs() < 1e-12 * n as f64,
                    "{n} {k}"
                );
            }
        }
    }

    #[test]
    fn a_large_prime_is_refused() {
        assert!(Fourier::new(65537, false).is_err());
        assert!(Fourier::new(1 << 16, true).is_ok());
    }
}
