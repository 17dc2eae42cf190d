//! Observers: ways to choose a range from a tensor's statistics (numerics, section 8).
//!
//! Each file holds one method and ends in one line of [`METHODS`]; the command line, the recipe and the documentation
//! find it there.

mod entropy;
mod minmax;
mod moving_average;
mod mse;
mod percentile;

pub(crate) use moving_average::Ema;
pub(crate) use mse::{factors as mse_factors, smallest};

use crate::calibration::TensorStats;
use crate::params::{Range, Target};

/// The choice of an observer with its parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Observer {
    /// The exact extremes.
    MinMax,
    /// An exponential average of the samples' extremes, with this constant.
    MovingAverage(f64),
    /// The central mass, in percent.
    Percentile(f64),
    /// The range with the smallest Kullback-Leibler divergence.
    Entropy,
    /// The range with the smallest squared error.
    Mse,
}

impl Default for Observer {
    fn default() -> Self {
        Self::Percentile(99.999)
    }
}

/// A chosen range and what there is to say about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The range; it need not contain 0.
    pub range: Range,
    /// How far the ends may be from the exact definition: one bin width, or 0 for exact methods.
    pub uncertainty: f64,
    /// Why the method fell back to another one.
    pub note: Option<&'static str>,
}

impl Choice {
    fn exact(range: Range) -> Self {
        Self { range, uncertainty: 0.0, note: None }
    }
}

/// One line of the table of observers.
pub struct Method {
    /// Name on the command line.
    pub name: &'static str,
    /// The observer with its default parameter.
    pub default: Observer,
    /// One sentence of help.
    pub about: &'static str,
    /// Chooses the range; `None` for a tensor without finite values. The observer carries the parameter.
    choose: fn(&TensorStats, Observer, Target) -> Option<Choice>,
}

/// Every observer.
pub const METHODS: &[Method] =
    &[minmax::METHOD, moving_average::METHOD, percentile::METHOD, entropy::METHOD, mse::METHOD];

/// The method called `name` on the command line.
pub fn method(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|m| m.name == name)
}

impl Observer {
    /// The table line of this observer.
    pub fn method(self) -> &'static Method {
        let same = |m: &&Method| std::mem::discriminant(&m.default) == std::mem::discriminant(&self);
        METHODS.iter().find(same).expect("every observer has a line in METHODS")
    }

    /// Chooses a range for the target grid; `None` for a tensor without finite values, or without the statistics that
    /// the method needs.
    pub fn choose(self, stats: &TensorStats, target: Target) -> Option<Choice> {
        (self.method().choose)(stats, self, target)
    }
}

#[cfg(test)]
pub(crate) fn stats_of(values: &[f32]) -> TensorStats {
    let mut stats = TensorStats::default();
    stats.histogram.observe(values);
    stats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Grid;

    #[test]
    fn every_observer_finds_its_own_line() {
        for m in METHODS {
            assert_eq!(m.default.method().name, m.name);
            assert_eq!(method(m.name).map(|m| m.default), Some(m.default));
        }
        assert!(method("best").is_none());
    }

    #[test]
    fn no_observer_invents_a_range_for_a_tensor_without_values() {
        for m in METHODS {
            assert_eq!(m.default.choose(&stats_of(&[f32::NAN]), Target::asymmetric(Grid::U8)), None, "{}", m.name);
        }
    }
}
