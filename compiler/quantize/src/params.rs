//! From a range of real values to a scale and a zero point (numerics, sections 1 and 8).
//!
//! All of it is f64; the scale is rounded to f32 at the very end. A range is first widened to include 0, because padding,
//! ReLU and sparse data need an exact zero. A scale below 2^-126 would be denormal: such a tensor is constant for all that
//! eight bits can see, takes scale 1 and zero point 0, and is reported.

/// The smallest scale: the smallest normal f32.
pub const MIN_SCALE: f64 = f32::MIN_POSITIVE as f64;

/// The integers that a quantized tensor may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Smallest integer.
    pub qmin: i32,
    /// Largest integer.
    pub qmax: i32,
}

impl Grid {
    /// Signed 8 bits.
    pub const S8: Self = Self { qmin: -128, qmax: 127 };
    /// Unsigned 8 bits.
    pub const U8: Self = Self { qmin: 0, qmax: 255 };
    /// Signed 16 bits.
    pub const S16: Self = Self { qmin: -32768, qmax: 32767 };
    /// Unsigned 16 bits.
    pub const U16: Self = Self { qmin: 0, qmax: 65535 };
    /// Signed 8-bit weights: -128 stays unused, so that negation never overflows.
    pub const S8_WEIGHTS: Self = Self { qmin: -127, qmax: 127 };
    /// Unsigned 8-bit weights, symmetric about 128.
    pub const U8_WEIGHTS: Self = Self { qmin: 1, qmax: 255 };
    /// Signed 4-bit weights.
    pub const S4_WEIGHTS: Self = Self { qmin: -7, qmax: 7 };
    /// Unsigned 4-bit weights, symmetric about 8.
    pub const U4_WEIGHTS: Self = Self { qmin: 1, qmax: 15 };

    /// The zero point of symmetric quantization: 0, 128 or 32768.
    pub fn middle(self) -> i32 {
        (self.qmin + self.qmax + 1) / 2
    }

    /// Steps from the middle to the largest integer.
    pub fn reach(self) -> i32 {
        self.qmax - self.middle()
    }

    /// Steps from the smallest to the largest integer.
    pub fn steps(self) -> i32 {
        self.qmax - self.qmin
    }
}

/// How a range becomes parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The integers to use.
    pub grid: Grid,
    /// Zero point in the middle of the grid.
    pub symmetric: bool,
    /// Round the scale up to a power of two.
    pub power_of_two: bool,
}

impl Target {
    /// Asymmetric over the whole grid.
    pub const fn asymmetric(grid: Grid) -> Self {
        Self { grid, symmetric: false, power_of_two: false }
    }

    /// Symmetric about the middle of the grid.
    pub const fn symmetric(grid: Grid) -> Self {
        Self { grid, symmetric: true, power_of_two: false }
    }
}

/// A closed range of real values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

impl Range {
    /// The smallest range that holds this one and 0.
    pub fn with_zero(self) -> Self {
        Self { lo: self.lo.min(0.0), hi: self.hi.max(0.0) }
    }

    /// The smallest range that holds both.
    pub fn union(self, other: Self) -> Self {
        Self { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    /// The largest magnitude.
    pub fn reach(self) -> f64 {
        self.lo.abs().max(self.hi.abs())
    }
}

/// Scale and zero point of one tensor or channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// Finite, at least 2^-126.
    pub scale: f32,
    /// Inside the grid.
    pub zero_point: i32,
    /// The range was too small for a scale; scale 1 and zero point 0 stand in.
    pub constant: bool,
}

impl Params {
    /// The real value that `x` becomes after quantization to `grid`, in f64.
    pub fn round_trip(&self, x: f64, grid: Grid) -> f64 {
        let (scale, zero) = (f64::from(self.scale), f64::from(self.zero_point));
        let q = ((x / scale).round_ties_even() + zero).clamp(f64::from(grid.qmin), f64::from(grid.qmax));
        (q - zero) * scale
    }
}

/// Parameters that cover `range` on the target's grid.
pub fn params_for(range: Range, target: Target) -> Params {
    let Range { lo, hi } = range.with_zero();
    let Grid { qmin, qmax } = target.grid;
    let mut scale = if target.symmetric {
        (-lo).max(hi) / f64::from(target.grid.reach())
    } else {
        (hi - lo) / f64::from(target.grid.steps())
    };
    // The comparison is written so that a NaN range counts as constant as well.
    if !(scale >= MIN_SCALE && scale.is_finite()) {
        return Params { scale: 1.0, zero_point: 0, constant: true };
    }
    if target.power_of_two {
        scale = next_power_of_two(scale);
    }
    let zero_point = if target.symmetric {
        target.grid.middle()
    } else {
        (f64::from(qmin) - lo / scale).round_ties_even().clamp(f64::from(qmin), f64::from(qmax)) as i32
    };
    Params { scale: (scale as f32).min(f32::MAX), zero_point, constant: false }
}

/// The smallest power of two that is at least `scale`, for normal positive values.
fn next_power_of_two(scale: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = scale.to_bits();
    if bits & FRACTION == 0 { scale } else { f64::from_bits((bits & !FRACTION) + (FRACTION + 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(lo: f64, hi: f64) -> Range {
        Range { lo, hi }
    }

    #[test]
    fn asymmetric_ranges_use_the_whole_grid() {
        let p = params_for(range(-1.0, 1.55), Target::asymmetric(Grid::U8));
        assert_eq!((p.scale, p.zero_point), (0.01, 100));
        let p = params_for(range(0.0, 255.0), Target::asymmetric(Grid::S8));
        assert_eq!((p.scale, p.zero_point), (1.0, -128));
        let p = params_for(range(-32768.0, 32767.0), Target::asymmetric(Grid::S16));
        assert_eq!((p.scale, p.zero_point), (1.0, 0));
    }

    #[test]
    fn a_range_that_misses_zero_is_widened() {
        let p = params_for(range(2.0, 5.1), Target::asymmetric(Grid::U8));
        assert_eq!((p.scale, p.zero_point), (0.02, 0));
        let p = params_for(range(-5.1, -2.0), Target::asymmetric(Grid::U8));
        assert_eq!((p.scale, p.zero_point), (0.02, 255));
    }

    #[test]
    fn symmetric_zero_points_are_0_128_and_32768() {
        for (grid, zero, scale) in [
            (Grid::S8, 0, 1.0),
            (Grid::U8, 128, 1.0),
            (Grid::S8_WEIGHTS, 0, 1.0),
            (Grid::U8_WEIGHTS, 128, 1.0),
            (Grid::S4_WEIGHTS, 0, 127.0 / 7.0),
            (Grid::U16, 32768, 127.0 / 32767.0),
        ] {
            let p = params_for(range(-127.0, 3.0), Target::symmetric(grid));
            assert_eq!((p.scale, p.zero_point), (scale, zero), "{grid:?}");
        }
    }

    #[test]
    fn tiny_and_broken_ranges_are_constant() {
        for r in [range(0.0, 0.0), range(-1e-42, 1e-41), range(f64::NAN, f64::NAN)] {
            let p = params_for(r, Target::asymmetric(Grid::S8));
            assert_eq!(p, Params { scale: 1.0, zero_point: 0, constant: true });
        }
    }

    #[test]
    fn power_of_two_scales_round_up() {
        let target = Target { grid: Grid::S8, symmetric: true, power_of_two: true };
        assert_eq!(params_for(range(-127.0, 0.0), target).scale, 1.0);
        assert_eq!(params_for(range(-128.0, 0.0), target).scale, 2.0);
        assert_eq!(params_for(range(0.0, 0.3), target).scale, 1.0 / 256.0);
    }

    proptest! {
        #[test]
        fn zero_is_exact_and_the_ends_are_within_a_step(lo in -1e6f64..1e6, width in 1e-6f64..1e6, symmetric: bool) {
            for grid in [Grid::S8, Grid::U8, Grid::S16, Grid::U16] {
                let r = range(lo, lo + width);
                let p = params_for(r, Target { grid, symmetric, power_of_two: false });
                prop_assert_eq!(p.round_trip(0.0, grid), 0.0);
                for x in [r.lo, r.hi] {
                    prop_assert!((p.round_trip(x, grid) - x).abs() <= 1.001 * f64::from(p.scale));
                }
            }
        }
    }
}
