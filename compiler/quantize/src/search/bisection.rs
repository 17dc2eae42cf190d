//! How many tensors of a ranking the target takes: the shortest prefix that was measured to reach it.

/// A prefix of the ranking and the relative noise that was measured with it in float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Number of tensors in float.
    pub len: usize,
    /// Relative noise of the output.
    pub noise: f64,
}

/// A search over prefix lengths that takes about log2(n) measurements.
///
/// The first guess is where the single gains would add up to the target. Noise falls with the prefix except for small
/// interactions; the result is always a prefix that was measured.
#[derive(Debug, Clone)]
pub struct Bisection {
    target: f64,
    /// The longest prefix known to miss the target, and the shortest known to reach it.
    misses: usize,
    reaches: Option<usize>,
    longest: usize,
    guess: usize,
    best: Trial,
}

impl Bisection {
    /// A search for relative noise `target`. `base` was measured without exceptions; `gains` are those of the ranking,
    /// in its order.
    pub fn new(target: f64, base: f64, gains: &[f64]) -> Self {
        let mut left = base;
        let reached = gains.iter().position(|gain| {
            left -= gain;
            left <= target
        });
        let guess = reached.map_or(gains.len(), |i| i + 1);
        let best = Trial { len: 0, noise: base };
        let reaches = (base <= target).then_some(0);
        Self { target, misses: 0, reaches, longest: gains.len(), guess, best }
    }

    /// The next prefix to measure; `None` when the search is over.
    pub fn next(&self) -> Option<usize> {
        let end = match self.reaches {
            Some(reaches) => reaches.checked_sub(1)?,
            None => self.longest,
        };
        (self.misses < end).then(|| self.guess.clamp(self.misses + 1, end))
    }

    /// Takes a measurement of the prefix that [`Self::next`] named.
    pub fn measured(&mut self, trial: Trial) {
        if trial.noise <= self.target {
            self.reaches = Some(trial.len);
            self.best = trial;
        } else {
            self.misses = self.misses.max(trial.len);
            if self.reaches.is_none() && trial.noise < self.best.noise {
                self.best = trial;
            }
        }
        let end = self.reaches.unwrap_or(self.longest);
        self.guess = self.misses.midpoint(end).max(self.misses + 1);
        if self.reaches.is_none() && trial.len < self.longest {
            // A guess that fell short is followed by a bolder one.
            self.guess = (2 * trial.len).clamp(self.misses + 1, self.longest);
        }
    }

    /// The shortest prefix that reached the target, else the one with the least noise, and whether it reached it.
    pub fn best(&self) -> (Trial, bool) {
        (self.best, self.reaches.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search over noises by prefix length; returns the result and how many were measured.
    fn search(target: f64, noises: &[f64], gains: &[f64]) -> (Trial, bool, usize) {
        let mut search = Bisection::new(target, noises[0], gains);
        let mut n = 0;
        while let Some(len) = search.next() {
            search.measured(Trial { len, noise: noises[len] });
            n += 1;
            assert!(n <= noises.len(), "it measures each prefix at most once");
        }
        (search.best().0, search.best().1, n)
    }

    #[test]
    fn the_shortest_prefix_that_reaches_the_target_is_found() {
        let noises: Vec<f64> = (0..=20).map(|i| 1.0 - 0.05 * f64::from(i)).collect();
        for target in [0.949, 0.72, 0.31, 0.01] {
            let (trial, reached, n) = search(target, &noises, &[0.05; 20]);
            let expected = noises.iter().position(|n| *n <= target).unwrap();
            assert_eq!((trial.len, reached), (expected, true), "{target}");
            assert!(n <= 6, "{n} measurements for {target}");
        }
    }

    #[test]
    fn gains_that_promise_too_much_are_corrected() {
        let noises = [1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.1];
        let (trial, reached, _) = search(0.5, &noises, &[0.3; 7]);
        assert_eq!((trial.len, reached), (7, true));
    }

    #[test]
    fn a_target_out_of_reach_gives_the_least_noise() {
        let (trial, reached, _) = search(0.1, &[1.0, 0.6, 0.4, 0.5], &[0.4, 0.2, 0.1]);
        assert!(!reached);
        assert_eq!(trial.noise, 0.5_f64.min(trial.noise));
        let (trial, reached, n) = search(2.0, &[1.0, 0.6], &[0.4]);
        assert_eq!((trial.len, reached, n), (0, true, 0));
    }
}
