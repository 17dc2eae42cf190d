//! Accumulator bounds (numerics.md section 5).
//!
//! * (C1) Per output channel, from the constants: `amax = b + sum of max(w'(qmin-zx), w'(qmax-zx))`, `amin` with min,
//!   `w' = w - zw`. An i32 accumulator is accepted iff `-2^31 <= amin` and `amax <= 2^31 - 1`.
//! * (C2) For weights that are not constant, the type bound: the largest product and the largest K.
//! * (C3) i64 accumulators of the Q31 modes need `|acc| < 2^47`.

use super::quantize::int_range;

/// The values an activation may take, and its zero point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivationRange {
    /// The least stored value.
    pub qmin: i32,
    /// The greatest stored value.
    pub qmax: i32,
    /// The zero point.
    pub zx: i32,
}

impl ActivationRange {
    /// The whole range of an integer storage (up to 32 bits).
    pub fn of_storage(bits: u32, signed: bool, zx: i32) -> Self {
        let (qmin, qmax) = int_range(bits.min(32), signed);
        Self { qmin: qmin as i32, qmax: qmax.min(i64::from(i32::MAX)) as i32, zx }
    }
}

/// The interval that holds every value of an accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccBounds {
    /// `amin`.
    pub min: i64,
    /// `amax`.
    pub max: i64,
}

impl AccBounds {
    /// (C1) Whether i32 accumulation is exact.
    pub fn fits_i32(self) -> bool {
        i64::from(i32::MIN) <= self.min && self.max <= i64::from(i32::MAX)
    }

    /// (C3) Whether an i64 accumulator is inside the contract of the Q31 modes.
    pub fn fits_i47(self) -> bool {
        self.largest() < 1 << 47
    }

    /// The largest magnitude.
    pub fn largest(self) -> u64 {
        self.min.unsigned_abs().max(self.max.unsigned_abs())
    }

    /// The interval that covers both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// (C1) The bounds of one output channel. Sums saturate at i64, which no real K reaches.
///
/// Taps in the padding contribute 0 and can only narrow the true interval when 0 lies between `qmin - zx` and
/// `qmax - zx`; if it does not, they are counted as a value of their own.
pub fn channel_bounds(weights: impl IntoIterator<Item = i32>, zw: i32, x: ActivationRange, bias: i32) -> AccBounds {
    let zx = i64::from(x.zx);
    // Widened to 0, the value of a padded tap.
    let low = (i64::from(x.qmin) - zx).min(0);
    let high = (i64::from(x.qmax) - zx).max(0);
    let mut bounds = AccBounds { min: i64::from(bias), max: i64::from(bias) };
    for w in weights {
        let w = i64::from(w) - i64::from(zw);
        let (a, b) = (w.saturating_mul(low), w.saturating_mul(high));
        bounds.min = bounds.min.saturating_add(a.min(b));
        bounds.max = bounds.max.saturating_add(a.max(b));
    }
    bounds
}

/// The largest `|q - z|` of a storage: for the given zero point, or for any if it is `None`.
pub fn max_operand(bits: u32, signed: bool, zp: Option<i64>) -> i64 {
    let (qmin, qmax) = int_range(bits.min(32), signed);
    match zp {
        Some(zp) => qmin.saturating_sub(zp).saturating_abs().max(qmax.saturating_sub(zp).saturating_abs()),
        None => qmax - qmin,
    }
}

/// (C2) The largest K for which products of magnitude up to `x_max * w_max` fit an i32 accumulator.
pub fn max_k_i32(x_max: i64, w_max: i64) -> i64 {
    max_k(x_max, w_max, i64::from(i32::MAX))
}

/// (C3) As [`max_k_i32`] for the i64 accumulators of the Q31 modes.
pub fn max_k_i47(x_max: i64, w_max: i64) -> i64 {
    max_k(x_max, w_max, (1 << 47) - 1)
}

fn max_k(x_max: i64, w_max: i64, limit: i64) -> i64 {
    match x_max.saturating_mul(w_max) {
        product if product > 0 => limit / product,
        _ => i64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::testing::Rng;

    #[test]
    fn c2_type_bounds_of_the_table() {
        let any_8 = max_operand(8, false, None);
        assert_eq!(any_8, max_operand(8, true, None));
        let cases = [
            (any_8, max_operand(8, true, Some(0)), 65_793),
            (any_8, 127, 66_311),
            (any_8, max_operand(8, false, None), 33_025),
            (any_8, max_operand(4, true, Some(0)), 1_052_688),
            (max_operand(16, true, Some(0)), 128, 511),
        ];
        for (x, w, k) in cases {
            assert_eq!(max_k_i32(x, w), k, "{x} * {w}");
            assert!(k * x * w <= i64::from(i32::MAX) && (k + 1) * x * w > i64::from(i32::MAX));
        }
        // s16 * s16: one product fits, two do not.
        assert_eq!(max_k_i32(32768, 32768), 1);
        assert_eq!(max_k_i47(32768, 32768), 131_071);
        assert_eq!(max_k_i32(0, 5), i64::MAX);
        assert_eq!(max_k_i32(i64::MAX, i64::MAX), 0);
        assert_eq!(max_operand(8, false, Some(128)), 128);
    }

    #[test]
    fn c1_bounds_are_reached_and_never_passed() {
        let mut rng = Rng::new(61);
        for _ in 0..2000 {
            let x = ActivationRange::of_storage(8, rng.int(0, 1) == 0, 0);
            let x = ActivationRange { zx: rng.int(x.qmin, x.qmax), ..x };
            let (zw, bias) = (rng.int(-5, 5), rng.int(-1000, 1000));
            let mut weights = [0; 9];
            weights.fill_with(|| rng.int(-128, 127));
            let bounds = channel_bounds(weights, zw, x, bias);
            let acc = |pick: &mut dyn FnMut(i32) -> i32| -> i64 {
                let sum: i32 = weights.iter().map(|&w| (pick(w) - x.zx) * (w - zw)).sum();
                i64::from(sum + bias)
            };
            assert_eq!(acc(&mut |w| if w - zw > 0 { x.qmax } else { x.qmin }), bounds.max);
            assert_eq!(acc(&mut |w| if w - zw > 0 { x.qmin } else { x.qmax }), bounds.min);
            let any = acc(&mut |_| rng.int(x.qmin, x.qmax));
            assert!((bounds.min..=bounds.max).contains(&any));
        }
    }

    #[test]
    fn c1_accepts_exactly_the_i32_range() {
        let x = ActivationRange { qmin: 0, qmax: 1, zx: 0 };
        assert!(channel_bounds([1], 0, x, i32::MAX - 1).fits_i32());
        assert!(!channel_bounds([1], 0, x, i32::MAX).fits_i32());
        assert!(channel_bounds([-1], 0, x, i32::MIN + 1).fits_i32());
        assert!(!channel_bounds([-1], 0, x, i32::MIN).fits_i32());
        let full = ActivationRange::of_storage(8, false, 255);
        let weights = core::iter::repeat_n(-128, 65_793);
        assert!(channel_bounds(weights, 0, full, 0).fits_i32());
        let weights = core::iter::repeat_n(-128, 65_794);
        assert!(!channel_bounds(weights, 0, full, 0).fits_i32());
    }

    #[test]
    fn c1_padding_counts_as_zero() {
        // A zero point outside of the range: every real tap is positive, a padded tap is 0.
        let x = ActivationRange { qmin: 10, qmax: 20, zx: 0 };
        assert_eq!(channel_bounds([1, 1], 0, x, 5), AccBounds { min: 5, max: 45 });
    }

    #[test]
    fn bounds_combine() {
        let (a, b) = (AccBounds { min: -5, max: 2 }, AccBounds { min: 0, max: 9 });
        assert_eq!(a.union(b), AccBounds { min: -5, max: 9 });
        assert_eq!(a.largest(), 5);
        assert!(AccBounds { min: 0, max: (1 << 47) - 1 }.fits_i47());
        assert!(!AccBounds { min: -(1 << 47), max: 0 }.fits_i47());
        let wide = ActivationRange::of_storage(32, true, 0);
        let bounds = channel_bounds([i32::MIN; 8], i32::MAX, wide, 0);
        assert_eq!(bounds.max, i64::MAX, "saturates");
    }
}
