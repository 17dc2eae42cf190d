//! Offsets for blocks of which some may not overlap.
//!
//! Finding the smallest arena is NP-hard. Here blocks are placed one after the other, each at the lowest gap that its
//! neighbours leave; several orders are tried, then blocks that stick out at the top are moved to the front of the best
//! order again and again. The result depends on the arguments alone.

use super::{ALIGN, too_large};
use ottava_hal::Result;
use std::cmp::Reverse;

/// How often the blocks at the top are moved to the front.
const ROUNDS: usize = 48;

/// Places of all blocks.
pub(super) struct Placed {
    /// First byte of each block, a multiple of [`ALIGN`].
    pub(super) starts: Vec<usize>,
    /// End of the last one.
    pub(super) bytes: usize,
}

/// Bytes of all blocks one after the other.
pub(super) fn side_by_side(sizes: &[usize]) -> Result<usize> {
    sizes.iter().try_fold(0usize, |end, bytes| after(end)?.checked_add(*bytes)).filter(fits).ok_or_else(too_large)
}

/// The next place behind a byte.
fn after(end: usize) -> Option<usize> {
    end.checked_next_multiple_of(ALIGN)
}

fn fits(bytes: &usize) -> bool {
    *bytes <= isize::MAX as usize - 2 * ALIGN
}

/// The best placement that is found; `enough` bytes cannot be beaten.
pub(super) fn best(sizes: &[usize], neighbours: &[Vec<usize>], enough: usize) -> Result<Placed> {
    // With this order no placement needs more than all blocks side by side.
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    side_by_side(sizes)?;
    let mut best = in_order(&order, sizes, neighbours);
    for candidate in orders(sizes, neighbours) {
        let placed = in_order(&candidate, sizes, neighbours);
        if placed.bytes < best.bytes {
            (best, order) = (placed, candidate);
        }
    }
    let mut top: Vec<usize> = at_top(&best, sizes);
    for _ in 0..ROUNDS {
        if best.bytes <= enough {
            break;
        }
        order.sort_by_key(|i| !top.contains(i));
        let placed = in_order(&order, sizes, neighbours);
        top = at_top(&placed, sizes);
        if placed.bytes < best.bytes {
            best = placed;
        }
    }
    Ok(best)
}

/// Orders that do well: large ones first, crowded ones first, both.
fn orders(sizes: &[usize], neighbours: &[Vec<usize>]) -> [Vec<usize>; 3] {
    let crowd = |i: usize| neighbours[i].iter().fold(sizes[i], |sum, j| sum.saturating_add(sizes[*j]));
    let sorted = |key: &dyn Fn(usize) -> (usize, usize)| {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|i| Reverse(key(*i)));
        order
    };
    [
        sorted(&|i| (sizes[i], neighbours[i].len())),
        sorted(&|i| (crowd(i), sizes[i])),
        sorted(&|i| (sizes[i].saturating_mul(neighbours[i].len()), sizes[i])),
    ]
}

/// Blocks that end where the arena ends.
fn at_top(placed: &Placed, sizes: &[usize]) -> Vec<usize> {
    (0..sizes.len()).filter(|i| sizes[*i] > 0 && placed.starts[*i] + sizes[*i] == placed.bytes).collect()
}

/// Each block at the lowest gap that those before it in the order leave. All ends fit `usize`, because they fit side by
/// side, and no block is placed higher than that.
fn in_order(order: &[usize], sizes: &[usize], neighbours: &[Vec<usize>]) -> Placed {
    let mut starts: Vec<Option<usize>> = vec![None; sizes.len()];
    let mut bytes = 0;
    for &i in order {
        let mut taken: Vec<(usize, usize)> =
            neighbours[i].iter().filter_map(|j| starts[*j].map(|start| (start, start + sizes[*j]))).collect();
        taken.sort_unstable();
        let mut at = 0;
        for (start, end) in taken {
            if at + sizes[i] <= start {
                break;
            }
            at = at.max(end.next_multiple_of(ALIGN));
        }
        starts[i] = Some(at);
        bytes = bytes.max(at + sizes[i]);
    }
    Placed { starts: starts.into_iter().map(|s| s.unwrap_or(0)).collect(), bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_at_the_top_are_moved_until_nothing_is_wasted() {
        // Lives on a line: largest first leaves a gap that only another order closes.
        let lives = [(0, 3, 64), (2, 5, 128), (4, 7, 64), (6, 9, 128), (0, 1, 128), (8, 9, 64), (3, 4, 64)];
        let sizes: Vec<usize> = lives.iter().map(|l| l.2).collect();
        let meets = |a: usize, b: usize| a != b && lives[a].0 <= lives[b].1 && lives[b].0 <= lives[a].1;
        let near: Vec<Vec<usize>> = (0..7).map(|a| (0..7).filter(|b| meets(a, *b)).collect()).collect();
        let placed = best(&sizes, &near, 256).unwrap();
        assert_eq!(placed.bytes, 256);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(side_by_side(&[usize::MAX / 2, usize::MAX / 2]).is_err());
        assert!(best(&[usize::MAX - 8], &[vec![]], 0).is_err());
        assert_eq!(best(&[], &[], 0).unwrap().bytes, 0);
    }
}
