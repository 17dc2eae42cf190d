//! Rounding primitives (numerics.md, notation and section 3).
//!
//! Everything here is total: NaN, infinities and out-of-range values have a defined result, nothing panics and
//! nothing wraps. The order is always *clamp first, convert afterwards*, so that no conversion ever sees a value
//! that the integer type cannot hold.

/// `1.5 * 2^52`: adding and subtracting it rounds an f64 of magnitude below 2^51 to an integer, ties to even.
const ROUND_MAGIC: f64 = 6_755_399_441_055_744.0;

/// Rounds `v` to the nearest integer, ties to even. Contract: `|v| < 2^51`.
///
/// The sum is an IEEE operation in the default rounding mode, so this is `rne` on every host without needing a
/// rounding instruction.
#[inline]
pub(super) fn rne_small(v: f64) -> f64 {
    (v + ROUND_MAGIC) - ROUND_MAGIC
}

/// `sat(rne(t))` with the clamp to `[lo, hi]` before the conversion; NaN gives `lo`.
///
/// The f32 is widened exactly, which also makes the bounds of 32-bit storages exact (`i32::MAX` is no f32).
#[inline]
pub fn sat_rne_f32(t: f32, lo: i32, hi: i32) -> i32 {
    sat_rne_f64(f64::from(t), lo, hi)
}

/// `sat(rne(t))` for an f64, as [`sat_rne_f32`].
#[inline]
pub fn sat_rne_f64(t: f64, lo: i32, hi: i32) -> i32 {
    sat_rne_zp(t, 0, lo, hi)
}

/// `sat(rne(t) + zp)`: `t` is clamped to `[lo - zp, hi - zp]`, rounded, and the zero point is added last.
///
/// NaN gives `lo`. If `lo > hi` the result is `hi`.
#[inline]
pub fn sat_rne_zp(t: f64, zp: i32, lo: i32, hi: i32) -> i32 {
    let zp = i64::from(zp);
    // The differences need 33 bits; f64 holds them exactly. `max` returns the bound when `t` is NaN.
    let min = (i64::from(lo) - zp) as f64;
    let max = (i64::from(hi) - zp) as f64;
    let clamped = t.max(min).min(max);
    (rne_small(clamped) as i64 + zp) as i32
}

/// `sat(rne(t))` over the i64 range, for constants of the integer forms; `None` for NaN and values outside
/// `±2^62`.
pub fn rne_i64(t: f64) -> Option<i64> {
    const LIMIT: f64 = 4_611_686_018_427_387_904.0;
    // Above 2^52 every f64 is an integer already, and rint leaves it alone.
    (t.abs() <= LIMIT).then(|| libm::rint(t) as i64)
}

/// Saturates an i64 to `[lo, hi]`.
#[inline]
pub fn sat_i64(v: i64, lo: i32, hi: i32) -> i32 {
    v.max(i64::from(lo)).min(i64::from(hi)) as i32
}

/// Saturating rounding doubling high multiply: `(a*b + 2^30) >> 31`, with `SRDHM(MIN, MIN) = MAX`.
///
/// This equals the published form with a sign-dependent nudge and C truncation (the tests compare both).
#[inline]
pub fn srdhm(a: i32, b: i32) -> i32 {
    let product = i64::from(a) * i64::from(b);
    sat_i64((product + (1 << 30)) >> 31, i32::MIN, i32::MAX)
}

/// Rounding division by `2^e`, half away from zero. `e` is limited to 31; `rdp(x, 0) = x`.
#[inline]
pub fn rdp(x: i32, e: u32) -> i32 {
    let e = e.min(31);
    if e == 0 {
        return x;
    }
    let wide = i64::from(x);
    let remainder = wide & ((1_i64 << e) - 1);
    let threshold = ((1_i64 << (e - 1)) - 1) + i64::from(x < 0);
    ((wide >> e) + i64::from(remainder > threshold)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::testing::Rng;

    #[test]
    fn sat_rne_clamps_before_converting() {
        for (t, expect) in [
            (0.5, 0),
            (1.5, 2),
            (2.5, 2),
            (-0.5, 0),
            (-1.5, -2),
            (-2.5, -2),
            (127.49, 127),
            (127.5, 127),
            (1e10, 127),
            (3e38, 127),
            (f32::INFINITY, 127),
            (-1e10, -128),
            (f32::NEG_INFINITY, -128),
            (f32::NAN, -128),
        ] {
            assert_eq!(sat_rne_f32(t, -128, 127), expect, "t = {t}");
        }
        assert_eq!(sat_rne_f32(2_147_483_648.0, i32::MIN, i32::MAX), i32::MAX);
        assert_eq!(sat_rne_f32(-2_147_483_648.0, i32::MIN, i32::MAX), i32::MIN);
        assert_eq!(sat_rne_f64(2_147_483_646.5, i32::MIN, i32::MAX), 2_147_483_646);
    }

    #[test]
    fn zero_point_never_overflows() {
        assert_eq!(sat_rne_zp(f64::INFINITY, i32::MIN, i32::MIN, i32::MAX), i32::MAX);
        assert_eq!(sat_rne_zp(f64::NEG_INFINITY, i32::MAX, i32::MIN, i32::MAX), i32::MIN);
        assert_eq!(sat_rne_zp(0.0, 5, 10, 3), 3);
    }

    #[test]
    fn rne_agrees_with_the_library_rounding() {
        let mut rng = Rng::new(1);
        for _ in 0..200_000 {
            let v = (rng.next_i32() as f64) / 8.0;
            assert_eq!(rne_small(v), v.round_ties_even(), "v = {v}");
        }
        assert_eq!(rne_i64(2.5), Some(2));
        assert_eq!(rne_i64(-3.5), Some(-4));
        assert_eq!(rne_i64(f64::NAN), None);
        assert_eq!(rne_i64(1e19), None);
    }

    /// The published form: nudge by sign, then division that truncates.
    fn srdhm_published(a: i32, b: i32) -> i32 {
        if a == i32::MIN && b == i32::MIN {
            return i32::MAX;
        }
        let product = i128::from(a) * i128::from(b);
        let nudge = if product >= 0 { 1_i128 << 30 } else { 1 - (1_i128 << 30) };
        ((product + nudge) / (1_i128 << 31)) as i32
    }

    #[test]
    fn srdhm_equals_the_published_form() {
        assert_eq!(srdhm(i32::MIN, i32::MIN), i32::MAX);
        let mut rng = Rng::new(2);
        let edges = [i32::MIN, i32::MIN + 1, -1, 0, 1, i32::MAX, 1 << 30, -(1 << 30), 3];
        for a in edges {
            for b in edges {
                assert_eq!(srdhm(a, b), srdhm_published(a, b), "{a} {b}");
            }
        }
        for _ in 0..200_000 {
            let (a, b) = (rng.next_i32(), rng.next_i32() >> (rng.next_u32() % 31));
            assert_eq!(srdhm(a, b), srdhm_published(a, b), "{a} {b}");
            // Exact ties: a product that is an odd multiple of 2^30.
            let odd = (rng.next_i32() >> 8) | 1;
            assert_eq!(srdhm(odd, 1 << 30), srdhm_published(odd, 1 << 30));
        }
    }

    #[test]
    fn rdp_worked_examples() {
        assert_eq!([rdp(-5, 1), rdp(-3, 1), rdp(3, 1), rdp(5, 1)], [-3, -2, 2, 3]);
        assert_eq!(rdp(i32::MIN, 31), -1);
        assert_eq!(rdp(i32::MAX, 31), 1);
        assert_eq!(rdp(-7, 0), -7);
    }

    #[test]
    fn rdp_is_half_away_from_zero() {
        let mut rng = Rng::new(3);
        for _ in 0..200_000 {
            let x = rng.next_i32() >> (rng.next_u32() % 31);
            let e = rng.next_u32() % 32;
            let expect = libm::round(f64::from(x) / libm::exp2(f64::from(e)));
            assert_eq!(f64::from(rdp(x, e)), expect, "x = {x}, e = {e}");
        }
    }
}
