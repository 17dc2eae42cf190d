//! The counts behind a histogram, and the loop that fills them.
//!
//! Counts take 32 bits as long as the histogram holds no more values than that, so that they and the values being counted
//! fit the first-level cache together. How wide they are follows from the number of values alone: equal multisets have
//! equal counts.

/// Number of bins.
pub(crate) const BINS: usize = 4096;
/// Bin numbers are shifted by this much to index the counts.
pub(crate) const ORIGIN: i32 = 2048;
/// Elements whose bin numbers are computed together before they are counted.
const BLOCK: usize = 64;
/// A count per bin.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Counts {
    /// Of at most `u32::MAX` values.
    Narrow(Box<[u32; BINS]>),
    /// Of more.
    Wide(Box<[u64; BINS]>),
}

impl Counts {
    /// Empty counts for so many values.
    pub(crate) fn for_values(values: u64) -> Self {
        match u32::try_from(values) {
            Ok(_) => Self::Narrow(Box::new([0; BINS])),
            Err(_) => Self::Wide(Box::new([0; BINS])),
        }
    }

    /// Widens the counts if so many values need it.
    pub(crate) fn make_room(&mut self, values: u64) {
        if let Self::Narrow(counts) = self
            && u32::try_from(values).is_err()
        {
            *self = Self::Wide(Box::new(counts.map(u64::from)));
        }
    }

    /// The count of a slot; 0 outside.
    pub(crate) fn get(&self, idx: usize) -> u64 {
        match self {
            Self::Narrow(counts) => counts.get(idx).map_or(0, |count| u64::from(*count)),
            Self::Wide(counts) => counts.get(idx).copied().unwrap_or(0),
        }
    }

    /// Adds to a slot. There must be room.
    pub(crate) fn add(&mut self, idx: usize, count: u64) {
        match self {
            Self::Narrow(counts) => {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                counts.get_mut(idx).into_iter().for_each(|to| *to = to.saturating_add(count));
            }
            Self::Wide(counts) => counts.get_mut(idx).into_iter().for_each(|to| *to = to.saturating_add(count)),
        }
    }

    /// Every slot that is not empty, in ascending order, with its count.
    pub(crate) fn each(&self, mut f: impl FnMut(usize, u64)) {
        (0..BINS)
            .map(|idx| (idx, self.get(idx)))
            .filter(|(_, count)| *count > 0)
            .for_each(|(idx, count)| f(idx, count));
    }
}

/// The slot in which a slot's values are when bins are `2^by` times as wide.
pub(crate) fn coarser(idx: usize, by: i32) -> usize {
    (((idx as i32 - ORIGIN) >> by.min(31)) + ORIGIN) as usize
}

/// An integer that counts.
pub(crate) trait Counter: Copy + Default {
    /// One more; there is room.
    fn bump(&mut self);
    /// So many fewer.
    fn less(self, n: u64) -> Self;
    /// As a number.
    fn number(self) -> u64;
}

impl Counter for u32 {
    #[inline(always)]
    fn bump(&mut self) {
        *self = self.wrapping_add(1);
    }

    fn less(self, n: u64) -> Self {
        self.saturating_sub(u32::try_from(n).unwrap_or(u32::MAX))
    }

    fn number(self) -> u64 {
        self.into()
    }
}

impl Counter for u64 {
    #[inline(always)]
    fn bump(&mut self) {
        *self = self.wrapping_add(1);
    }

    fn less(self, n: u64) -> Self {
        self.saturating_sub(n)
    }

    fn number(self) -> u64 {
        self
    }
}

/// The largest exponent of a bin width for [`bin_fast`].
pub(crate) const MAX_FAST_EXPONENT: i32 = 100;

/// What [`bin_fast`] adds for bins of width `2^k`, `k` from -149 to [`MAX_FAST_EXPONENT`]: `1.5 * 2^(23 + k)`, a float whose
/// last place is `2^k`.
pub(crate) fn rounder(k: i32) -> f32 {
    (1.5 * crate::histogram::pow2(23 + k)) as f32
}

/// `floor(x / 2^k)`, exact, for `|x| < 2^(k + 11)`. The sum rounds `x` to the nearest multiple of `2^k`, and its lowest bits
/// hold which one that is; rounding went up where `x` is less than that multiple.
#[inline(always)]
pub(crate) fn bin_fast(x: f32, rounder: f32) -> i32 {
    let sum = x + rounder;
    let nearest = sum - rounder;
    let bin = (sum.to_bits() as i32).wrapping_sub(rounder.to_bits() as i32);
    bin.wrapping_sub(i32::from(x < nearest))
}

/// The slots of a block: of its bin, or for a zero the spare slot of its position. A function and a loop of its own, over
/// indices that are known to be small: only so is it compiled for the vector unit, with overflow checks as without.
#[inline(never)]
fn slots_of(block: &[f32; BLOCK], rounder: f32, spare: &[i32; BLOCK], slots: &mut [i32; BLOCK]) {
    for i in 0..BLOCK {
        let x = block[i];
        let is_zero = i32::from(x == 0.0).wrapping_neg();
        let bin = bin_fast(x, rounder).wrapping_add(ORIGIN);
        slots[i] = (bin & !is_zero) | (spare[i] & is_zero);
    }
}

/// Half of what follows a ReLU is zero. Zeros are not binned: each is counted in the slot of its own position, since
/// incrementing one slot over and over would wait for the previous store every time. These slots lie where a chunk has no
/// bins; what they held is put back.
fn spare_slots(low: i32, high: i32) -> Option<usize> {
    let n = BLOCK as i32;
    match (low >= n, high < BINS as i32 - n) {
        (true, _) => Some(0),
        (_, true) => Some(BINS - BLOCK),
        _ => None,
    }
}

/// Counts the bins of finite values, which lie from slot `low` to slot `high`; the number of zeros, which are not counted.
pub(crate) fn count_chunk<T: Counter>(
    counts: &mut [T; BINS],
    chunk: &[f32],
    rounder: f32,
    (low, high): (i32, i32),
) -> u64 {
    let Some(first) = spare_slots(low, high) else {
        let zeros = chunk.iter().filter(|x| **x == 0.0).count() as u64;
        count_blocks(counts, chunk, rounder, &[ORIGIN; BLOCK]);
        counts[ORIGIN as usize] = counts[ORIGIN as usize].less(zeros);
        return zeros;
    };
    let mut own = [T::default(); BLOCK];
    own.swap_with_slice(&mut counts[first..first + BLOCK]);
    count_blocks(counts, chunk, rounder, &std::array::from_fn(|i| (first + i) as i32));
    own.swap_with_slice(&mut counts[first..first + BLOCK]);
    own.iter().map(|count| count.number()).sum()
}

fn count_blocks<T: Counter>(counts: &mut [T; BINS], chunk: &[f32], rounder: f32, spare: &[i32; BLOCK]) {
    let (blocks, rest) = chunk.as_chunks::<BLOCK>();
    let mut slots = [0; BLOCK];
    for block in blocks {
        slots_of(block, rounder, spare, &mut slots);
        slots.iter().for_each(|slot| counts[*slot as usize % BINS].bump());
    }
    if !rest.is_empty() {
        let mut block = [0.0; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        slots_of(&block, rounder, spare, &mut slots);
        slots[..rest.len()].iter().for_each(|slot| counts[*slot as usize % BINS].bump());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_slots_lie_beside_the_bins() {
        assert_eq!(spare_slots(64, 4095), Some(0));
        assert_eq!(spare_slots(63, 4031), Some(BINS - BLOCK));
        assert_eq!(spare_slots(63, 4032), None);
    }

    #[test]
    fn zeros_are_told_apart_wherever_the_bins_lie() {
        for others in [[5.0, 2047.0], [-2048.0, 7.0], [-2048.0, 2047.0]] {
            let chunk: Vec<f32> = (0..300).map(|i| if i % 3 == 0 { others[i % 2] } else { 0.0 }).collect();
            let mut counts = [7u32; BINS];
            let slots = (others[0] as i32 + ORIGIN, others[1] as i32 + ORIGIN);
            assert_eq!(count_chunk(&mut counts, &chunk, rounder(0), slots), 200);
            let grown: Vec<usize> = (0..BINS).filter(|i| counts[*i] != 7).collect();
            assert_eq!(grown, [slots.0 as usize, slots.1 as usize]);
            assert_eq!(grown.iter().map(|i| counts[*i] - 7).sum::<u32>(), 100);
        }
    }

    #[test]
    fn counts_widen_by_the_number_of_values() {
        let mut counts = Counts::for_values(u64::from(u32::MAX));
        counts.add(9, u64::from(u32::MAX));
        counts.make_room(u64::from(u32::MAX));
        assert!(matches!(counts, Counts::Narrow(_)));
        counts.make_room(u64::from(u32::MAX) + 1);
        counts.add(9, 1);
        assert_eq!(counts.get(9), u64::from(u32::MAX) + 1);
        assert!(matches!(Counts::for_values(1 << 32), Counts::Wide(_)));
    }
}
