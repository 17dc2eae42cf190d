//! One pass over values: smallest, largest, and whether all are finite.
//!
//! Written for the vector unit of any processor: independent lanes in a loop of its own, no branch on the data, no operation
//! that traps on overflow. What is found is a function of the multiset of values.

/// Lanes that are kept apart.
const LANES: usize = 16;
/// Values that go into the lanes at once: four for each, so that lanes are read and written less often.
const BLOCK: usize = 4 * LANES;

/// What [`extremes`] finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Extremes {
    /// The smallest value; +0 stands for both zeros; +infinity where there is none. Undefined if there is a NaN.
    pub min: f32,
    /// The largest value; +0 stands for both zeros; -infinity where there is none. Undefined if there is a NaN.
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

struct Lanes {
    min: [f32; LANES],
    max: [f32; LANES],
    /// A sum of products with zero: NaN as soon as a value was not finite.
    poison: [f32; LANES],
}

/// A loop of its own: only so is it compiled for the vector unit.
#[inline(never)]
fn add_block(lanes: &mut Lanes, block: &[f32; BLOCK]) {
    for i in 0..LANES {
        let (a, b, c, d) = (block[i], block[i + LANES], block[i + 2 * LANES], block[i + 3 * LANES]);
        lanes.min[i] = lesser(lesser(a, b), lesser(lesser(c, d), lanes.min[i]));
        lanes.max[i] = greater(greater(a, b), greater(greater(c, d), lanes.max[i]));
        lanes.poison[i] += (a * 0.0 + b * 0.0) + (c * 0.0 + d * 0.0);
    }
}

/// `x` if it is less than `y`, which a NaN is not: one instruction, unlike `f32::min`.
#[inline(always)]
pub(crate) fn lesser(x: f32, y: f32) -> f32 {
    if x < y { x } else { y }
}

/// `x` if it is greater than `y`, which a NaN is not.
#[inline(always)]
pub(crate) fn greater(x: f32, y: f32) -> f32 {
    if x > y { x } else { y }
}

/// Looks through values.
pub(crate) fn extremes(values: &[f32]) -> Extremes {
    let (blocks, rest) = values.as_chunks::<BLOCK>();
    let mut lanes = Lanes { min: [f32::INFINITY; LANES], max: [f32::NEG_INFINITY; LANES], poison: [0.0; LANES] };
    blocks.iter().for_each(|block| add_block(&mut lanes, block));
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
        fn as_one_by_one(values in prop::collection::vec(any::<f32>(), 0..300), finite: bool) {
            let values: Vec<f32> = values.into_iter().filter(|x| !finite || x.is_finite()).collect();
            let found = extremes(&values);
            if !values.iter().any(|x| x.is_nan()) {
                prop_assert_eq!(found.min, values.iter().copied().fold(f32::INFINITY, f32::min));
                prop_assert_eq!(found.max, values.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            }
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
