//! MSE: the range with the smallest squared quantization error over the histogram, at bin centres, in f64 and in bin
//! order. Both ends shrink together first, then each end alone; of equal errors the larger range wins.

use super::{Choice, Method, Observer, minmax};
use crate::calibration::TensorStats;
use crate::params::{Range, Target, params_for};

pub(super) const METHOD: Method = Method {
    name: "mse",
    default: Observer::Mse,
    about: "the range with the smallest squared quantization error",
    choose,
};

/// The factors to try: 1.00, 0.99, ... 0.20.
pub(crate) fn factors() -> impl Iterator<Item = f64> {
    (20..=100).rev().map(|percent| f64::from(percent) / 100.0)
}

/// The first candidate with the smallest error.
pub(crate) fn smallest<T: Copy>(candidates: impl Iterator<Item = T>, error: impl Fn(T) -> f64) -> Option<T> {
    let mut best: Option<(f64, T)> = None;
    for candidate in candidates {
        let error = error(candidate);
        if best.is_none_or(|(smallest, _)| error < smallest) {
            best = Some((error, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn choose(stats: &TensorStats, _: Observer, target: Target) -> Option<Choice> {
    let full = minmax::extremes(stats)?;
    let error = |range: Range| squared_error(stats, range, target);
    let scaled = |lo: f64, hi: f64| Range { lo: lo * full.lo, hi: hi * full.hi };
    let both = smallest(factors(), |a| error(scaled(a, a)))?;
    let lo = smallest(factors(), |a| error(scaled(a, both)))?;
    let hi = smallest(factors(), |a| error(scaled(lo, a)))?;
    Some(Choice { range: scaled(lo, hi), uncertainty: stats.histogram.bin_width(), note: None })
}

fn squared_error(stats: &TensorStats, range: Range, target: Target) -> f64 {
    let params = params_for(range, target);
    let width = stats.histogram.bin_width();
    let mut error = 0.0;
    for (bin, count) in stats.histogram.bins() {
        let centre = (f64::from(bin) + 0.5) * width;
        let off = centre - params.round_trip(centre, target.grid);
        error += count as f64 * off * off;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observers::stats_of;
    use crate::params::Grid;
    use proptest::prelude::*;

    fn brute_force(values: &[f32], range: Range, target: Target) -> f64 {
        let p = params_for(range, target);
        values.iter().map(|&x| (f64::from(x) - p.round_trip(f64::from(x), target.grid)).powi(2)).sum()
    }

    #[test]
    fn a_lone_outlier_is_clipped_on_its_own_side() {
        let mut values: Vec<f32> = (-400_000..400_000).map(|i| i as f32 / 400_000.0).collect();
        values.push(3.0);
        let range = Observer::Mse.choose(&stats_of(&values), Target::asymmetric(Grid::U8)).unwrap().range;
        assert!(range.hi < 1.5 && range.lo < -0.95, "{range:?}");
    }

    #[test]
    fn equal_errors_keep_the_larger_range() {
        let range = Observer::Mse.choose(&stats_of(&[0.0, 0.0]), Target::asymmetric(Grid::U8)).unwrap().range;
        assert_eq!(range, Range { lo: 0.0, hi: 0.0 });
        assert_eq!(smallest(factors(), |_| 1.0), Some(1.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_choice_equals_brute_force_on_values_at_bin_centres(
            bins in prop::collection::vec(prop_oneof![9 => -300i32..300, 1 => -2048i32..2048], 20..400),
            symmetric: bool,
        ) {
            // The first value fixes the bin width at 1/512, the others lie at centres: nothing is lost in the bins.
            let values: Vec<f32> = std::iter::once(1500).chain(bins).map(|b| (b as f32 + 0.5) / 512.0).collect();
            let target = Target { grid: Grid::S8, symmetric, power_of_two: false };
            let stats = stats_of(&values);
            let full = minmax::extremes(&stats).unwrap();
            let error = |a: f64, b: f64| brute_force(&values, Range { lo: a * full.lo, hi: b * full.hi }, target);
            let best = |of: &dyn Fn(f64) -> f64| factors().map(of).fold(f64::INFINITY, f64::min);
            let chosen = Observer::Mse.choose(&stats, target).unwrap().range;
            let (a, b) = (chosen.lo / full.lo, chosen.hi / full.hi);
            let near = |x: f64, limit: f64| x <= limit * (1.0 + 1e-9) + 1e-12;
            prop_assert!(near(error(a, b), best(&|f| error(f, f))));
            prop_assert!(near(error(a, b), best(&|f| error(a, f))));
        }
    }
}
