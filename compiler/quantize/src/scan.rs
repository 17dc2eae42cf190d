//! One pass over values: smallest, largest, and whether all are finite.
//!
//! Written for the vector unit of any processor: independent lanes, no branch on the data, no operation that traps on
//! overflow. What is found is a function of the multiset of values.

/// Lanes that are kept apart; two vectors of the smallest vector unit.
const LANES: usize = 8;

/// What [`extremes`] finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Extremes {
    /// The smallest value that is no NaN; +0 stands for both zeros; +infinity where there is none.
    pub min: f32,
    /// The largest value that is no NaN; +0 stands for both zeros; -infinity where there is none.
    pub max: f32,
    /// No value is infinite or NaN.
    pub all_finite: bool,
}

impl Extremes {
    /// Of no values.
    pub(crate) const NONE: Self = Self { min: f32::INFINITY, max: f32::NEG_INFINITY, all_finite: true };

    /// Of these and those values.
    pub(crate) fn with(self, other: Self) -> Self {
        let (min, max) = (lesser(other.min, self.min), greater(other.max, self.max));
        Self { min, max, all_finite: self.all_finite && other.all_finite }
    }
}

#[derive(Clone, Copy)]
struct Lanes {
    min: [f32; LANES],
    max: [f32; LANES],
    /// A sum of products with zero: NaN as soon as a value was not finite.
    poison: [f32; LANES],
}

impl Lanes {
    const EMPTY: Self =
        Self { min: [f32::INFINITY; LANES], max: [f32::NEG_INFINITY; LANES], poison: [0.0; LANES] };

    #[inline(always)]
    fn add(&mut self, values: &[f32; LANES]) {
        for (i, &x) in values.iter().enumerate() {
            self.min[i] = lesser(x, self.min[i]);
            self.max[i] = greater(x, self.max[i]);
            self.poison[i] += x * 0.0;
        }
    }
}

/// `x` if it is less than `y`, which a NaN is not: one instruction, unlike `f32::min`.
pub(crate) fn lesser(x: f32, y: f32) -> f32 {
    if x < y { x } else { y }
}

/// `x` if it is greater than `y`, which a NaN is not.
pub(crate) fn greater(x: f32, y: f32) -> f32 {
    if x > y { x } else { y }
}

/// Looks through values.
pub(crate) fn extremes(values: &[f32]) -> Extremes {
    let (blocks, rest) = values.as_chunks::<LANES>();
    let mut lanes = Lanes::EMPTY;
    blocks.iter().for_each(|block| lanes.add(block));
    let mut found = Extremes::NONE;
    for i in 0..LANES {
        found.min = lesser(lanes.min[i], found.min);
        found.max = greater(lanes.max[i], found.max);
        found.all_finite &= lanes.poison[i] == 0.0;
    }
    for &x in rest {
        found.min = lesser(x, found.min);
        found.max = greater(x, found.max);
        found.all_finite &= x.is_finite();
    }
    // Adding +0 turns -0 into +0: which zero came first leaves no trace.
    (found.min, found.max) = (found.min + 0.0, found.max + 0.0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_one_by_one(values in prop::collection::vec(any::<f32>(), 0..100), finite: bool) {
            let values: Vec<f32> = values.into_iter().filter(|x| !finite || x.is_finite()).collect();
            let found = extremes(&values);
            let numbers = || values.iter().copied().filter(|x| !x.is_nan());
            prop_assert_eq!(found.min, numbers().fold(f32::INFINITY, f32::min));
            prop_assert_eq!(found.max, numbers().fold(f32::NEG_INFINITY, f32::max));
            prop_assert_eq!(found.all_finite, values.iter().all(|x| x.is_finite()));
        }
    }

    #[test]
    fn both_zeros_are_one() {
        for zeros in [[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0]] {
            let found = extremes(&zeros);
            assert_eq!((found.min.to_bits(), found.max.to_bits()), (0, 0));
        }
    }
}
