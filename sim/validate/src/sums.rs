//! Sums over pairs of a reference value and a tested value, from which error figures follow.
//!
//! All sums are f64 in the order of the elements, so equal inputs give equal figures.

/// Sums from which mean squared error, cosine and signal-to-noise ratio follow; additive over rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    /// Number of pairs.
    pub n: u64,
    /// Sum of squared reference values.
    pub signal: f64,
    /// Sum of squared differences.
    pub noise: f64,
    /// Sum of squared values under test.
    pub other: f64,
    /// Sum of products.
    pub product: f64,
    /// Largest absolute difference.
    pub max_abs: f64,
}

impl Sums {
    /// Adds pairs of reference and tested values.
    pub fn add(&mut self, reference: &[f32], tested: &[f32]) {
        for (&r, &t) in reference.iter().zip(tested) {
            let (r, t) = (f64::from(r), f64::from(t));
            // Equal infinities differ by nothing, although their difference is NaN.
            let d = if r == t { 0.0 } else { r - t };
            self.n += 1;
            self.signal += r * r;
            self.other += t * t;
            self.product += r * t;
            self.noise += d * d;
            self.max_abs = if d.is_nan() { f64::NAN } else { self.max_abs.max(d.abs()) };
        }
    }

    /// Mean squared difference.
    pub fn mse(&self) -> f64 {
        if self.n == 0 { 0.0 } else { self.noise / self.n as f64 }
    }

    /// Cosine of the angle between both; 1 if both are zero.
    pub fn cosine(&self) -> f64 {
        let norm = (self.signal * self.other).sqrt();
        if norm > 0.0 {
            (self.product / norm).clamp(-1.0, 1.0)
        } else if norm == 0.0 {
            f64::from(u8::from(self.signal == self.other))
        } else {
            f64::NAN
        }
    }

    /// Signal-to-quantization-noise ratio in decibel; infinite without noise.
    pub fn sqnr_db(&self) -> f64 {
        if self.noise == 0.0 { f64::INFINITY } else { 10.0 * (self.signal / self.noise).log10() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_the_textbook_values() {
        let mut s = Sums::default();
        s.add(&[3.0, 4.0], &[3.0, 3.0]);
        assert_eq!((s.mse(), s.max_abs), (0.5, 1.0));
        assert!((s.sqnr_db() - 13.979_400_086_720_376).abs() < 1e-12);
        assert!((s.cosine() - 21.0 / (25.0f64 * 18.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn equal_rows_have_no_noise() {
        let mut s = Sums::default();
        s.add(&[f32::INFINITY, 0.0], &[f32::INFINITY, 0.0]);
        assert_eq!((s.noise, s.sqnr_db()), (0.0, f64::INFINITY));
        assert_eq!(Sums::default().cosine(), 1.0);
    }
}
