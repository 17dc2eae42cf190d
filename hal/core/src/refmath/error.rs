//! Why a set of constants has no integer form.

use core::fmt;

/// A constant or a size outside the contract of an integer definition.
///
/// All are found while a model is compiled; the arithmetic itself never fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RefmathError {
    /// The real multiplier is negative, NaN or infinite.
    Multiplier {
        /// The offending multiplier.
        found: f64,
    },
    /// A scale is not finite and positive.
    Scale {
        /// The offending scale.
        found: f64,
    },
    /// An accumulator cannot be shifted left as `q31_double` asks.
    LeftShift {
        /// The shift of the Q31 multiplier.
        shift: i32,
        /// The least accumulator.
        acc_min: i64,
        /// The greatest accumulator.
        acc_max: i64,
    },
    /// A value that the compiler must bound exceeds its limit.
    Bound {
        /// What exceeds.
        what: &'static str,
        /// Its value, or the nearest f64.
        found: f64,
        /// The first value that is not allowed.
        limit: f64,
    },
    /// Two slices that belong together differ in length.
    Length {
        /// What the second slice is.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length it should have.
        expected: usize,
    },
}

impl fmt::Display for RefmathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Multiplier { found } => {
                write!(f, "requantization multiplier is {found}, expected a finite value >= 0; check the scales")
            }
            Self::Scale { found } => {
                write!(f, "scale is {found}, expected a finite value > 0; correct the quantization parameters")
            }
            Self::LeftShift { shift, acc_min, acc_max } => write!(
                f,
                "q31_double shifts accumulators in {acc_min}..={acc_max} left by {shift}, which leaves 32 bits; \
                 use q31_single or fp32_rne"
            ),
            Self::Bound { what, found, limit } => {
                write!(f, "{what} is {found}, expected a value below {limit}; keep this operator in float")
            }
            Self::Length { what, found, expected } => {
                write!(f, "{what} has {found} elements, expected {expected}")
            }
        }
    }
}

impl core::error::Error for RefmathError {}

/// Checks that `scale` is finite and > 0 (numerics.md section 1).
pub fn check_scale(scale: f32) -> Result<(), RefmathError> {
    let ok = scale.is_finite() && scale > 0.0;
    if ok { Ok(()) } else { Err(RefmathError::Scale { found: f64::from(scale) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_finite_and_positive() {
        for bad in [0.0, -0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(check_scale(bad).is_err(), "{bad}");
        }
        assert_eq!(check_scale(f32::from_bits(1)), Ok(()));
        let text = format!("{}", check_scale(-1.0).unwrap_err());
        assert!(text.contains("-1") && text.contains("> 0"), "{text}");
    }
}
