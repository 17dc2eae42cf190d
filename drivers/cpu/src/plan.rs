//! The memory plan: which bytes of the arena each buffer has, so that buffers alive at the same step never overlap.
//!
//! Largest first, each at the lowest offset that is free for its whole life. The result depends on the list alone.

use crate::arena::ALIGN;
use ottava_hal::{Error, Reason, Result};
use std::ops::Range;

/// A buffer and the steps during which it is alive, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// Size.
    pub(crate) bytes: usize,
    /// The step that writes it first.
    pub(crate) first: usize,
    /// The last step that reads or writes it.
    pub(crate) last: usize,
}

impl Life {
    fn meets(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Ranges of the buffers and the size of the arena.
pub(crate) fn plan(lives: &[Life]) -> Result<(Vec<Range<usize>>, usize)> {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(lives[i].bytes), lives[i].first, i));
    let mut ranges = vec![0..0; lives.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(lives.len());
    let mut total = 0;
    for i in order {
        let taken = placed.iter().filter(|&&j| lives[i].meets(&lives[j])).map(|&j| ranges[j].clone());
        ranges[i] = lowest_gap(taken.collect(), lives[i].bytes)?;
        total = total.max(ranges[i].end);
        placed.push(i);
    }
    Ok((ranges, total))
}

/// The lowest aligned range of `bytes` bytes between the taken ones.
fn lowest_gap(mut taken: Vec<Range<usize>>, bytes: usize) -> Result<Range<usize>> {
    taken.sort_by_key(|r| r.start);
    let too_large = || Error::unsupported(Reason::Memory, "the working memory of the program exceeds this machine");
    let mut at = 0usize;
    for range in taken {
        if at.checked_add(bytes).is_some_and(|end| end <= range.start) {
            break;
        }
        at = at.max(range.end.checked_next_multiple_of(ALIGN).ok_or_else(too_large)?);
    }
    let end = at.checked_add(bytes).filter(|&e| e <= isize::MAX as usize - 2 * ALIGN).ok_or_else(too_large)?;
    Ok(at..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(bytes: usize, first: usize, last: usize) -> Life {
        Life { bytes, first, last }
    }

    #[test]
    fn a_chain_needs_two_buffers() {
        let lives: Vec<Life> = (0..10).map(|i| life(100, i, i + 1)).collect();
        assert_eq!(plan(&lives).unwrap().1, 228);
    }

    #[test]
    fn living_buffers_never_overlap() {
        let mut x = 1u64;
        let mut next = move |n: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((x >> 33) % n) as usize
        };
        for _ in 0..50 {
            let lives: Vec<Life> = (0..40)
                .map(|_| {
                    let first = next(30);
                    life(next(1000), first, first + next(8))
                })
                .collect();
            let (ranges, total) = plan(&lives).unwrap();
            for (i, a) in ranges.iter().enumerate() {
                assert!(a.len() == lives[i].bytes && a.start % ALIGN == 0 && a.end <= total);
                for (j, b) in ranges.iter().enumerate().skip(i + 1) {
                    assert!(!lives[i].meets(&lives[j]) || a.end <= b.start || b.end <= a.start);
                }
            }
        }
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let huge = life(usize::MAX / 2, 0, 1);
        assert!(plan(&[huge.clone(), huge]).unwrap_err().to_string().contains("MEMORY"));
    }
}
