//! Moving average: the extremes of each sample, averaged exponentially. It depends on the order of the samples, so a
//! calibration that collects it refuses to merge with another one.

use super::{Choice, Method, Observer};
use crate::calibration::TensorStats;
use crate::params::{Range, Target};

pub(super) const METHOD: Method = Method {
    name: "moving-average",
    default: Observer::MovingAverage(0.01),
    about: "exponential average of each sample's extremes; depends on the order, cannot be merged",
    choose,
};

/// The running averages of one tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ema {
    pub(crate) lo: f64,
    pub(crate) hi: f64,
}

impl Ema {
    /// The state after one more sample; the first sample is the state.
    pub(crate) fn update(state: Option<Self>, constant: f64, lo: f32, hi: f32) -> Self {
        let (lo, hi) = (f64::from(lo), f64::from(hi));
        match state {
            None => Self { lo, hi },
            Some(old) => Self { lo: old.lo + constant * (lo - old.lo), hi: old.hi + constant * (hi - old.hi) },
        }
    }
}

fn choose(stats: &TensorStats, _: Observer, _: Target) -> Option<Choice> {
    let ema = stats.ema?;
    Some(Choice::exact(Range { lo: ema.lo, hi: ema.hi }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_moves_the_average_by_its_constant() {
        let first = Ema::update(None, 0.01, -1.0, 2.0);
        assert_eq!((first.lo, first.hi), (-1.0, 2.0));
        let second = Ema::update(Some(first), 0.5, -3.0, 4.0);
        assert_eq!((second.lo, second.hi), (-2.0, 3.0));
    }
}
