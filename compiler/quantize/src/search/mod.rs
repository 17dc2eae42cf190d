//! Automatic mixed precision: which tensors to keep in float or 16 bits so that the output of the network reaches a wanted
//! signal-to-noise ratio, for the fewest multiply-accumulates outside 8 bits.
//!
//! This module plans and never runs anything. Whoever drives it measures, on calibration data alone:
//!
//! 1. [`units`] lists the tensors that are quantized, each with the nodes that read it: keeping these in float keeps the
//!    tensor in float, because a product may hand its sum on unrounded.
//! 2. The driver measures the output's noise with all of them quantized, and what each one does: exchanged for float or,
//!    where a chosen device runs it, for 16 bits, or [`alone`] in integers. In a quantized network small changes reshuffle
//!    the roundings of everything behind them, which drowns what one tensor adds; alone it is plain.
//!    [`Precision::choose`] takes the cheaper of two forms that are as good.
//! 3. [`ranking`] orders the units by noise removed per cost, up to the allowed share of multiply-accumulates.
//! 4. [`Bisection`] says how many of them to try next until the shortest prefix that reaches the target is found. What
//!    counts is the measured ratio of the whole network, so errors that add up or cancel cannot mislead it.
//!
//! Noise is relative throughout: squared error over squared signal. Equal measurements give equal choices: ties go to
//! the earlier tensor.

mod bisection;
mod precision;
mod ranking;
mod units;

pub use bisection::{Bisection, Trial};
pub use precision::Precision;
pub use ranking::{Candidate, MIN_GAIN, ranking};
pub use units::{Unit, alone, node_macs, units};

/// Relative noise of a signal-to-noise ratio in decibel.
pub fn noise_of(db: f64) -> f64 {
    libm::pow(10.0, -db / 10.0)
}

/// Signal-to-noise ratio of a relative noise, in decibel.
pub fn db_of(noise: f64) -> f64 {
    -10.0 * libm::log10(noise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_and_decibel_are_inverse() {
        assert_eq!(noise_of(20.0), 0.01);
        assert!((db_of(noise_of(33.3)) - 33.3).abs() < 1e-9);
        assert_eq!(db_of(0.0), f64::INFINITY);
    }
}
