//! The search for exact 16-bit lanes: which weight of a window goes where.
//!
//! For each window of sixteen activation bytes and each half panel of eight columns, the search tries the sets of steps that could hold
//! the weights, cheapest first, until every column finds a place for each of its weights: a slot of a 16-bit lane whose positive and
//! negative weights stay within 128 each. [`Kit`] is such a set; a set with as many `Pick` slots as there are weights always fits.
//!
//! The eight columns are sorted and placed side by side: every loop below runs over `[i16; 8]` without branches.

use alloc::vec::Vec;

use super::format::{COLS, WINDOW};
use super::pack::{Steps, Weights};
use super::place::{Kit, Places, push_kit};
use super::span::{Group, Span};
use crate::isa::Isa;
use crate::vectorize::Vectorize;

/// Largest sum of weights of one sign in a 16-bit lane: 255 * 128 fits s16, 255 * 129 does not.
const LIMIT: i16 = 128;
/// Columns of a half panel.
pub(super) const HALF: usize = COLS / 2;
/// One value per column.
type Row = [i16; HALF];
/// Most quad and pair lanes of a kit.
const LANES: usize = 12;

/// The weights of eight columns in one window, in each column largest magnitude first.
///
/// An entry is `magnitude << 5 | byte << 1 | sign`, or 0 where there is no weight.
pub(super) struct Columns(pub(super) [Row; WINDOW]);

impl Columns {
    #[inline(always)]
    fn new(group: &Group, weights: &Weights, half: usize) -> Self {
        let mut keys = [[0; HALF]; WINDOW];
        for (i, row) in weights[group.k..][..group.n].iter().enumerate() {
            let byte = (group.first + i) as i16;
            let half: &Row = row[half * HALF..].first_chunk().expect("a panel has two halves");
            for (key, w) in keys[i].iter_mut().zip(half) {
                *key = (w.abs() << 5 | byte << 1 | (*w >> 15 & 1)) & when(*w != 0);
            }
        }
        sort(&mut keys);
        Self(keys)
    }

    /// Weights of the fullest column.
    fn most(&self) -> usize {
        self.0.iter().filter(|row| row.iter().any(|key| *key != 0)).count()
    }

    /// Weight and byte of an entry.
    pub(super) fn entry(key: i16) -> (i16, u8) {
        let (size, byte) = (key >> 5, (key >> 1 & 15) as u8);
        (if key & 1 == 0 { size } else { -size }, byte)
    }

    /// A lane for each weight, if the kit has room in all columns. Each weight takes the lane with the most room for its sign per free
    /// slot (or, with `even`, the most room), so that large ones spread out; what finds none takes a pick.
    #[inline(always)]
    fn place(&self, kit: Kit, most: usize, even: bool) -> Option<Places> {
        let n_lanes = kit.sum_lanes();
        let mut lanes = [Lane::default(); LANES];
        for (i, lane) in lanes.iter_mut().enumerate().take(n_lanes) {
            lane.free = [kit.slots_of(i); HALF];
        }
        let (mut picked, mut out) = ([0i16; HALF], [[0; HALF]; WINDOW]);
        for (keys, to) in self.0.iter().zip(&mut out).take(most) {
            let lane = best_lane(keys, &lanes[..n_lanes], even);
            for c in 0..HALF {
                let none = when(lane[c] < 0) & when(keys[c] != 0);
                to[c] = select(none, n_lanes as i16 + picked[c], lane[c]);
                picked[c] -= none;
            }
            for (i, state) in lanes.iter_mut().enumerate().take(n_lanes) {
                state.take(keys, &lane, i as i16);
            }
        }
        let room = 2 * kit.picks as i16;
        picked.iter().all(|n| *n <= room).then_some(out)
    }
}

/// What is left of one 16-bit lane in each column.
#[derive(Clone, Copy)]
struct Lane {
    positive: Row,
    negative: Row,
    free: Row,
}

impl Default for Lane {
    fn default() -> Self {
        Self { positive: [LIMIT; HALF], negative: [LIMIT; HALF], free: [0; HALF] }
    }
}

impl Lane {
    /// Puts the weights whose lane is `index` into this one.
    #[inline(always)]
    fn take(&mut self, keys: &Row, lane: &Row, index: i16) {
        for c in 0..HALF {
            let (mine, negative) = (when(lane[c] == index), -(keys[c] & 1));
            let size = keys[c] >> 5 & mine;
            self.positive[c] -= size & !negative;
            self.negative[c] -= size & negative;
            self.free[c] += mine;
        }
    }
}

/// All ones where the condition holds. Masks keep the loops free of branches, which is what lets them become vector code.
#[inline(always)]
fn when(condition: bool) -> i16 {
    -i16::from(condition)
}

/// `a` where the mask is set, otherwise `b`.
#[inline(always)]
fn select(mask: i16, a: i16, b: i16) -> i16 {
    (a & mask) | (b & !mask)
}

/// Per column the best lane for its weight; -1 where none takes it or there is no weight.
#[inline(always)]
fn best_lane(keys: &Row, lanes: &[Lane], even: bool) -> Row {
    let (mut best, mut out) = ([-1i16; HALF], [-1i16; HALF]);
    for (i, lane) in lanes.iter().enumerate() {
        for c in 0..HALF {
            let (size, negative, free) = (keys[c] >> 5, -(keys[c] & 1), lane.free[c]);
            let room = select(negative, lane.negative[c], lane.positive[c]);
            // Proportional to one over the number of free slots.
            let few = select(when(free == 1), 12, 6);
            let share = select(when(free > 2), select(when(free == 3), 4, 3), few);
            let share = if even { 1 } else { share };
            let fits = when(free > 0) & when(room >= size) & when(size > 0) & when(size < LIMIT - negative);
            let score = select(fits, room.wrapping_mul(share), -1);
            let better = when(score > best[c]);
            best[c] = select(better, score, best[c]);
            out[c] = select(better, i as i16, out[c]);
        }
    }
    out
}

/// Comparators of Batcher's odd-even merge sort of sixteen.
const COMPARATORS: [(usize, usize); 63] = {
    let (mut out, mut n, mut size) = ([(0, 0); 63], 0, 1);
    while size < WINDOW {
        let mut step = size;
        while step > 0 {
            let mut low = step % size;
            while low + step < WINDOW {
                let (first, merged) = (low - step % size, low / (2 * size) == (low + step) / (2 * size));
                if first % (2 * step) < step && merged {
                    out[n] = (low, low + step);
                    n += 1;
                }
                low += 1;
            }
            step /= 2;
        }
        size *= 2;
    }
    assert!(n == out.len());
    out
};

/// Sorts each column, descending.
#[inline(always)]
fn sort(keys: &mut [Row; WINDOW]) {
    for (low, high) in COMPARATORS {
        let (a, b) = (keys[low], keys[high]);
        for (c, (a, b)) in a.into_iter().zip(b).enumerate() {
            (keys[low][c], keys[high][c]) = (a.max(b), a.min(b));
        }
    }
}

/// Kits by cost.
pub(super) struct Search(Vec<Kit>);

impl Search {
    pub(super) fn new() -> Self {
        let mut kits = Vec::new();
        for (quads, pairs) in (0..=2).flat_map(|q| (0..=4).map(move |p| (q, p))) {
            kits.extend((0..=WINDOW / 2).map(|picks| Kit { quads, pairs, picks }));
        }
        kits.sort_by_key(|kit| (kit.cost(), kit.sum_lanes()));
        Self(kits)
    }

    /// Adds the steps of one panel.
    pub(super) fn push_windows(&self, steps: &mut Steps, spans: &[Span], weights: &Weights) {
        for group in spans.iter().flat_map(|s| s.groups(WINDOW)) {
            for half in 0..2 {
                let (columns, kit, places) = Isa::detect().run(Find { kits: &self.0, group: &group, weights, half });
                push_kit(steps, half, group.offset, kit, &columns, &places);
            }
        }
    }
}

/// The search in one half window.
struct Find<'a> {
    kits: &'a [Kit],
    group: &'a Group,
    weights: &'a Weights,
    half: usize,
}

impl Vectorize for Find<'_> {
    type Output = (Columns, Kit, Places);

    #[inline(always)]
    fn run(self) -> Self::Output {
        let columns = Columns::new(self.group, self.weights, self.half);
        let most = columns.most();
        for kit in self.kits.iter().filter(|kit| kit.slots() >= most) {
            for even in [false, true] {
                if let Some(places) = columns.place(*kit, most, even) {
                    return (columns, *kit, places);
                }
            }
        }
        unreachable!("a kit of eight picks holds any sixteen weights")
    }
}
