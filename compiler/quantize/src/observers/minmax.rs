//! MinMax: the exact smallest and largest finite value.

use super::{Choice, Method, Observer};
use crate::calibration::TensorStats;
use crate::params::{Range, Target};

pub(super) const METHOD: Method = Method {
    name: "minmax",
    default: Observer::MinMax,
    about: "the exact extremes; safe, and sensitive to outliers",
    choose,
};

fn choose(stats: &TensorStats, _: Observer, _: Target) -> Option<Choice> {
    extremes(stats).map(Choice::exact)
}

/// The exact range, which the other methods fall back to.
pub(super) fn extremes(stats: &TensorStats) -> Option<Range> {
    let (lo, hi) = stats.histogram.extremes()?;
    Some(Range { lo: f64::from(lo), hi: f64::from(hi) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observers::stats_of;
    use crate::params::Grid;

    #[test]
    fn the_extremes_are_exact() {
        let choice = choose(&stats_of(&[0.1, -7.25, 3.5]), Observer::MinMax, Target::asymmetric(Grid::U8));
        assert_eq!(choice, Some(Choice::exact(Range { lo: -7.25, hi: 3.5 })));
    }
}
