//! Entropy: the clipping threshold whose quantized distribution diverges least from the clipped original
//! (Kullback-Leibler), as numerics section 8 defines it.
//!
//! The candidate `i` keeps the bins below `i`. `P` is the kept histogram with the clipped tail added to its last bin; `Q`
//! is the kept histogram *without* the tail, merged to L levels, each level's mass spread over its non-empty bins. With
//! `S` all mass, `S_i` the kept mass, `m_j` and `n_j` the mass and the non-empty bins of level j, the divergence is
//!
//! ```text
//! KL = (Σ_{b<i-1} h_b ln h_b + P_last ln P_last - Σ_j P(level j) ln(m_j/n_j)) / S - ln S + ln S_i
//! ```
//!
//! so running sums over the bins leave one logarithm per level and candidate. Exact zeros are in no bin, which keeps the
//! spike that ReLU makes out of the first level.

use super::{Choice, Method, Observer, minmax};
use crate::calibration::TensorStats;
use crate::histogram::Histogram;
use crate::params::{Range, Target};
use libm::log;

pub(super) const METHOD: Method = Method {
    name: "entropy",
    default: Observer::Entropy,
    about: "the threshold with the smallest Kullback-Leibler divergence",
    choose,
};

/// Levels on one side of zero, for tensors with one sign and with both.
const ONE_SIDED_LEVELS: usize = 256;
const TWO_SIDED_LEVELS: usize = 128;

fn choose(stats: &TensorStats, _: Observer, _: Target) -> Option<Choice> {
    let histogram = &stats.histogram;
    let range = minmax::extremes(stats)?;
    let (one_sided, negative) = (range.lo >= 0.0 || range.hi <= 0.0, range.hi <= 0.0);
    let levels = if one_sided { ONE_SIDED_LEVELS } else { TWO_SIDED_LEVELS };
    let counts = magnitudes(histogram);
    if counts.len() < levels {
        let note = Some("fewer used bins than levels: the exact extremes are taken");
        return Some(Choice { range, uncertainty: 0.0, note });
    }
    let Some(best) = best_candidate(&counts, levels) else {
        let note = Some("every threshold has infinite divergence: the exact extremes are taken");
        return Some(Choice { range, uncertainty: 0.0, note });
    };
    let threshold = best as f64 * histogram.bin_width();
    let clipped = match (one_sided, negative) {
        (true, false) => Range { lo: 0.0, hi: threshold },
        (true, true) => Range { lo: -threshold, hi: 0.0 },
        // The threshold is of |x|; on the side where no value lies so far out, it would leave codes unused.
        _ => Range { lo: range.lo.max(-threshold), hi: range.hi.min(threshold) },
    };
    Some(Choice { range: clipped, uncertainty: histogram.bin_width(), note: None })
}

/// The bins of |x|, up to the last used one.
fn magnitudes(histogram: &Histogram) -> Vec<u64> {
    let mut counts: Vec<u64> = (0..2048).map(|bin| histogram.bin(bin) + histogram.bin(-1 - bin)).collect();
    let used = counts.iter().rposition(|&c| c > 0).map_or(0, |last| last + 1);
    counts.truncate(used);
    counts
}

/// Running sums over the bins: element i covers the bins below i.
struct Sums {
    mass: Vec<f64>,
    non_empty: Vec<u32>,
    mass_log: Vec<f64>,
}

impl Sums {
    fn new(counts: &[u64]) -> Self {
        let mut sums = Self { mass: vec![0.0], non_empty: vec![0], mass_log: vec![0.0] };
        let (mut mass, mut non_empty, mut mass_log) = (0.0, 0, 0.0);
        for &count in counts {
            mass += count as f64;
            non_empty += u32::from(count > 0);
            mass_log += times_log(count as f64);
            sums.mass.push(mass);
            sums.non_empty.push(non_empty);
            sums.mass_log.push(mass_log);
        }
        sums
    }
}

fn times_log(x: f64) -> f64 {
    if x > 0.0 { x * log(x) } else { 0.0 }
}

/// The candidate with the smallest finite divergence, the larger one of equals.
fn best_candidate(counts: &[u64], levels: usize) -> Option<usize> {
    let sums = Sums::new(counts);
    let mut best: Option<(f64, usize)> = None;
    for i in levels..=counts.len() {
        let Some(divergence) = divergence(counts, &sums, levels, i) else { continue };
        if best.is_none_or(|(smallest, _)| divergence <= smallest) {
            best = Some((divergence, i));
        }
    }
    best.map(|(_, i)| i)
}

/// The divergence of candidate `i`; `None` when it is infinite, i.e. the tail lands on a bin that Q leaves empty.
fn divergence(counts: &[u64], sums: &Sums, levels: usize, i: usize) -> Option<f64> {
    let total = *sums.mass.last()?;
    let tail = total - sums.mass[i];
    let last = counts[i - 1] as f64;
    if last == 0.0 && tail > 0.0 {
        return None;
    }
    let mut cross = 0.0;
    for level in 0..levels {
        let (from, to) = (level * i / levels, (level + 1) * i / levels);
        let mass = sums.mass[to] - sums.mass[from];
        if mass > 0.0 {
            let spread = mass / f64::from(sums.non_empty[to] - sums.non_empty[from]);
            let p_mass = if to == i { mass + tail } else { mass };
            cross += p_mass * log(spread);
        }
    }
    let own = sums.mass_log[i - 1] + times_log(last + tail);
    Some((own - cross) / total - log(total) + log(sums.mass[i]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observers::stats_of;
    use crate::params::Grid;
    use proptest::prelude::*;

    /// The definition, bin by bin, with nothing shared and nothing rearranged.
    fn slow_divergence(counts: &[u64], levels: usize, i: usize) -> f64 {
        let mut p: Vec<f64> = counts[..i].iter().map(|&c| c as f64).collect();
        p[i - 1] += counts[i..].iter().map(|&c| c as f64).sum::<f64>();
        let mut q = vec![0.0; i];
        for level in 0..levels {
            let group = level * i / levels..(level + 1) * i / levels;
            let used: Vec<usize> = group.clone().filter(|&b| counts[b] > 0).collect();
            let mass: f64 = group.map(|b| counts[b] as f64).sum();
            for &b in &used {
                q[b] = mass / used.len() as f64;
            }
        }
        let (p_sum, q_sum) = (p.iter().sum::<f64>(), q.iter().sum::<f64>());
        (0..i).filter(|&b| p[b] > 0.0).map(|b| p[b] / p_sum * ((p[b] / p_sum) / (q[b] / q_sum)).ln()).sum()
    }

    fn normal(n: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut uniform = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32
        };
        (0..n).map(|_| (0..12).map(|_| uniform()).sum::<f32>() - 6.0).collect()
    }

    #[test]
    fn an_outlier_is_clipped_and_the_bulk_is_not() {
        let mut values = normal(200_000, 1);
        values.push(25.0);
        let choice = Observer::Entropy.choose(&stats_of(&values), Target::symmetric(Grid::S8)).unwrap();
        assert!(choice.range.hi > 2.0 && choice.range.hi < 8.0, "{choice:?}");
        let least = values.iter().copied().fold(0.0, f32::min);
        assert_eq!(choice.range.lo, f64::from(least).max(-choice.range.hi), "no further than the values");
    }

    #[test]
    fn one_sided_tensors_keep_their_side() {
        let positive: Vec<f32> = normal(50_000, 2).iter().map(|x| x.max(0.0)).collect();
        let negative: Vec<f32> = positive.iter().map(|x| -x).collect();
        let u8 = Target::asymmetric(Grid::U8);
        let up = Observer::Entropy.choose(&stats_of(&positive), u8).unwrap().range;
        let down = Observer::Entropy.choose(&stats_of(&negative), u8).unwrap().range;
        assert_eq!(up.lo, 0.0);
        assert_eq!(down.hi, 0.0);
        assert!(up.hi > 1.0 && down.lo < -1.0);
    }

    #[test]
    fn coarse_histograms_fall_back_with_a_note() {
        let mut stats = stats_of(&[0.1, 0.2, 0.3]);
        stats.histogram = Histogram::new();
        stats.histogram.observe(&[f32::from_bits(1), f32::from_bits(5)]);
        let choice = Observer::Entropy.choose(&stats, Target::asymmetric(Grid::U8)).unwrap();
        assert!(choice.note.is_some());
        assert_eq!(choice.range.hi, f64::from(f32::from_bits(5)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_choice_is_the_minimum_of_the_slow_definition(
            seed: u64,
            n in 50usize..4000,
            sparse in 1u64..4,
            levels in prop::sample::select(vec![4usize, 16, 128]),
        ) {
            let h = {
                let mut h = Histogram::new();
                h.observe(&normal(n, seed));
                h
            };
            let counts: Vec<u64> = magnitudes(&h).iter().enumerate().filter(|(b, _)| (*b as u64).is_multiple_of(sparse))
                .map(|(_, c)| *c).collect();
            prop_assume!(counts.len() >= levels && counts.last() != Some(&0));
            let slow: Vec<f64> = (levels..=counts.len()).map(|i| slow_divergence(&counts, levels, i)).collect();
            let smallest = slow.iter().copied().filter(|d| d.is_finite()).fold(f64::INFINITY, f64::min);
            match best_candidate(&counts, levels) {
                Some(best) => prop_assert!((slow[best - levels] - smallest).abs() < 1e-9),
                None => prop_assert!(smallest.is_infinite()),
            }
        }
    }
}
