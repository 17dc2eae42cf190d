//! Times in 1/256 of a cycle and bandwidths, both integers (`npu.md` section 4).

use super::{Error, Result};

/// Parts of a cycle that a [`Time`] counts.
const PER_CYCLE: u64 = 256;
/// Parts of a byte per cycle that a [`Bandwidth`] counts.
const PER_BYTE: u64 = 1 << 16;

/// A point in time or a duration, in 1/256 of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Time(u64);

impl Time {
    /// The start.
    pub const ZERO: Self = Self(0);

    /// A whole number of cycles.
    pub fn from_cycles(cycles: u64) -> Result<Self> {
        cycles.checked_mul(PER_CYCLE).map(Self).ok_or(OVERFLOW)
    }

    /// A number of 1/256 cycles.
    pub const fn from_parts(parts: u64) -> Self {
        Self(parts)
    }

    /// In 1/256 of a cycle.
    pub const fn parts(self) -> u64 {
        self.0
    }

    /// Whole cycles that have begun: rounded up.
    pub const fn ceil(self) -> u64 {
        self.0.div_ceil(PER_CYCLE)
    }

    /// Whole cycles that have ended: rounded down.
    pub const fn floor(self) -> u64 {
        self.0 / PER_CYCLE
    }

    /// The nearest whole cycle, a half to the even one.
    pub const fn round(self) -> u64 {
        let (whole, part) = (self.0 / PER_CYCLE, self.0 % PER_CYCLE);
        let up = part > PER_CYCLE / 2 || (part == PER_CYCLE / 2 && whole % 2 == 1);
        whole + up as u64
    }

    /// Sum.
    pub fn plus(self, other: Self) -> Result<Self> {
        self.0.checked_add(other.0).map(Self).ok_or(OVERFLOW)
    }

    /// The time from `earlier` to here; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// `n` times this duration.
    pub fn times(self, n: u64) -> Result<Self> {
        self.0.checked_mul(n).map(Self).ok_or(OVERFLOW)
    }
}

const OVERFLOW: Error = Error::Overflow { what: "time in 1/256 of a cycle" };

/// Bytes per cycle of a memory, in 1/65536 of a byte; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// A whole number of bytes per cycle; zero is an error.
    pub fn from_bytes_per_cycle(bytes: u64) -> Result<Self> {
        let max = u64::MAX / PER_BYTE;
        super::in_range(bytes, max, "number of bytes per cycle").map(|bytes| Self(bytes * PER_BYTE))
    }

    /// The nearest bandwidth to a number of bytes per cycle; `None` if it is not finite or rounds to nothing.
    pub fn from_f64(bytes_per_cycle: f64) -> Option<Self> {
        let parts = (bytes_per_cycle * PER_BYTE as f64).round();
        // The upper limit keeps the conversion exact; no memory comes near it.
        (parts >= 1.0 && parts < (1u64 << 52) as f64).then_some(Self(parts as u64))
    }

    /// How long `bytes` take, rounded up to 1/256 of a cycle.
    pub fn transfer(self, bytes: u64) -> Result<Time> {
        if let Some(scaled) = bytes.checked_mul(PER_CYCLE * PER_BYTE) {
            return Ok(Time(scaled.div_ceil(self.0)));
        }
        let scaled = u128::from(bytes) * u128::from(PER_CYCLE * PER_BYTE);
        super::narrow(scaled.div_ceil(self.0.into()), "time of a transfer").map(Time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_to_even() {
        let round = |parts| Time::from_parts(parts).round();
        assert_eq!([round(128), round(384), round(127), round(129), round(512)], [0, 2, 0, 1, 2]);
        assert_eq!((Time::from_parts(257).ceil(), Time::from_parts(511).floor()), (2, 1));
    }

    #[test]
    fn transfers_keep_fractions_and_round_up() {
        let sixteen = Bandwidth::from_bytes_per_cycle(16).unwrap();
        assert_eq!(sixteen.transfer(1).unwrap().parts(), 16);
        assert_eq!(sixteen.transfer(0).unwrap(), Time::ZERO);
        let three = Bandwidth::from_f64(3.0).unwrap();
        assert_eq!(three.transfer(1).unwrap().parts(), 86);
        assert_eq!(three, Bandwidth::from_bytes_per_cycle(3).unwrap());
        // Far beyond 64 bits in between, and still right.
        assert_eq!(sixteen.transfer(1 << 50).unwrap(), Time::from_cycles(1 << 46).unwrap());
        assert!(Bandwidth::from_bytes_per_cycle(1).unwrap().transfer(u64::MAX).is_err());
    }

    #[test]
    fn no_bandwidth_is_refused() {
        assert!(Bandwidth::from_bytes_per_cycle(0).is_err());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
            assert_eq!(Bandwidth::from_f64(bad), None);
        }
    }
}
