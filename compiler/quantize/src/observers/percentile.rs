//! Percentile: the central mass of all finite values, zeros included. A tensor without negative values keeps 0 as its
//! lower end and spends the whole share at the upper one.

use super::{Choice, Method, Observer, minmax};
use crate::calibration::TensorStats;
use crate::params::{Range, Target};

pub(super) const METHOD: Method = Method {
    name: "percentile",
    default: Observer::Percentile(99.999),
    about: "the central share of all values, in percent",
    choose,
};

fn choose(stats: &TensorStats, observer: Observer, _: Target) -> Option<Choice> {
    let Observer::Percentile(percent) = observer else { return minmax::extremes(stats).map(Choice::exact) };
    let histogram = &stats.histogram;
    let (min, _) = histogram.extremes()?;
    let range = if min >= 0.0 {
        Range { lo: 0.0, hi: histogram.quantile(percent / 100.0)? }
    } else {
        let upper = (100.0 + percent) / 200.0;
        Range { lo: histogram.quantile(1.0 - upper)?, hi: histogram.quantile(upper)? }
    };
    Some(Choice { range, uncertainty: histogram.bin_width(), note: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observers::stats_of;
    use crate::params::Grid;
    use proptest::prelude::*;

    const U8: Target = Target::asymmetric(Grid::U8);

    fn range(values: &[f32], percent: f64) -> Range {
        Observer::Percentile(percent).choose(&stats_of(values), U8).unwrap().range
    }

    #[test]
    fn hundred_percent_is_min_max() {
        assert_eq!(range(&[-3.0, 0.0, 5.0], 100.0), Range { lo: -3.0, hi: 5.0 });
    }

    #[test]
    fn zeros_count_as_values() {
        let mut values = vec![0.0f32; 98];
        values.extend([1.0, 2.0]);
        assert_eq!(range(&values, 98.0).hi, 0.0);
        assert!((range(&values, 99.0).hi - 1.0).abs() < 0.01);
    }

    #[test]
    fn few_values_keep_their_extremes_nearly() {
        let values: Vec<f32> = (0..1000).map(|i| i as f32 / 1000.0).collect();
        assert!(range(&values, 99.999).hi > 0.998);
    }

    fn exact(sorted: &[f32], p: f64) -> f64 {
        let rank = (p * sorted.len() as f64).ceil() as usize;
        f64::from(sorted[rank.clamp(1, sorted.len()) - 1])
    }

    proptest! {
        #[test]
        fn both_ends_are_within_a_bin_of_an_exact_sort(
            values in prop::collection::vec(-8.0f32..30.0, 1..600),
            percent in 60.0f64..=100.0,
        ) {
            let stats = stats_of(&values);
            let choice = Observer::Percentile(percent).choose(&stats, U8).unwrap();
            let mut sorted = values;
            sorted.sort_by(f32::total_cmp);
            let upper = (100.0 + percent) / 200.0;
            let (lo, hi) = if sorted[0] >= 0.0 {
                (0.0, exact(&sorted, percent / 100.0))
            } else {
                (exact(&sorted, 1.0 - upper), exact(&sorted, upper))
            };
            prop_assert!((choice.range.lo - lo).abs() <= choice.uncertainty);
            prop_assert!((choice.range.hi - hi).abs() <= choice.uncertainty);
        }
    }
}
