//! Which groups of a panel run in which form: the proof of exactness and the search for pairs of groups.
//!
//! A [`Sums`] holds, per 16-bit lane of a panel, the sum of the positive and of the negative weights. Two of them fit one 16-bit
//! addition when each lane's totals stay within 128.

use super::format::{COLS, FORMS, Form, GROUP, PAIRINGS};
use crate::isa::Isa;
use crate::vectorize::Vectorize;

/// Largest weight sum per lane: 255 * 128 fits s16, 255 * 129 does not.
const LIMIT: u8 = 128;
/// Of the partners that fit a group, how many are compared for the one that needs the fewest shuffles.
const PARTNERS: usize = 16;
/// How many candidates are looked at for one group; bounds packing time on weights where nothing fits.
const CANDIDATES: usize = 64;

/// Per column: lane 0 positive, lane 0 negative, lane 1 positive, lane 1 negative; saturated at 255, which is above the limit.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Sums([u8; COLS * GROUP]);

const ZERO: Sums = Sums([0; COLS * GROUP]);

/// A group's weights: `[column][k]`, the zero point already subtracted.
pub(super) type GroupWeights = [[i16; GROUP]; COLS];

/// One step of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    pub(super) first: usize,
    pub(super) second: usize,
}

/// The steps of each run, in the order of [`FORMS`].
pub(super) type Runs = [Vec<Step>; FORMS.len()];

/// The sums of a group in each pairing.
fn sums(weights: &GroupWeights) -> [Sums; 3] {
    let mut out = [ZERO; 3];
    for (c, column) in weights.iter().enumerate() {
        let (mut positive, mut negative) = ([0u8; GROUP], [0u8; GROUP]);
        for (i, w) in column.iter().enumerate() {
            (positive[i], negative[i]) = ((*w).clamp(0, 255) as u8, (-*w).clamp(0, 255) as u8);
        }
        for (sums, pairing) in out.iter_mut().zip(&PAIRINGS) {
            for lane in 0..2 {
                let [x, y] = [pairing[lane * 2], pairing[lane * 2 + 1]].map(usize::from);
                sums.0[c * GROUP + lane * 2] = positive[x].saturating_add(positive[y]);
                sums.0[c * GROUP + lane * 2 + 1] = negative[x].saturating_add(negative[y]);
            }
        }
    }
    out
}

/// Whether all lanes of `x` and `y` together stay within the limit.
#[inline(always)]
fn fit(x: &Sums, y: &Sums) -> bool {
    let mut worst = 0u8;
    for (a, b) in x.0.iter().zip(&y.0) {
        worst = worst.max(a.saturating_add(*b));
    }
    worst <= LIMIT
}

/// Whether every column of `y` fits some pairing of `x`.
#[inline(always)]
fn fit_by_column(x: &[Sums; 3], y: &Sums) -> bool {
    let mut fits = [0u32; COLS];
    for pairing in x {
        let mut lanes = [0u8; COLS * GROUP];
        for (lane, (a, b)) in lanes.iter_mut().zip(pairing.0.iter().zip(&y.0)) {
            *lane = if a.saturating_add(*b) <= LIMIT { 0xff } else { 0 };
        }
        for (fits, column) in fits.iter_mut().zip(lanes.as_chunks::<GROUP>().0) {
            *fits |= u32::from(u32::from_ne_bytes(*column) == u32::MAX);
        }
    }
    fits.iter().fold(1, |all, fits| all & fits) == 1
}

fn column_pairing(x: &[Sums; 3], y: &Sums, c: usize) -> Option<usize> {
    let lanes = c * GROUP..(c + 1) * GROUP;
    (0..3).find(|p| x[*p].0[lanes.clone()].iter().zip(&y.0[lanes.clone()]).all(|(a, b)| a.saturating_add(*b) <= LIMIT))
}

/// The proof data of one panel.
pub(super) struct Proof {
    sums: Vec<[Sums; 3]>,
    /// Worst column under its best pairing; above the limit (or outside s8) the group stays wide.
    hard: Vec<u8>,
}

impl Proof {
    pub(super) fn new(weights: &[GroupWeights]) -> Self {
        let sums: Vec<[Sums; 3]> = weights.iter().map(sums).collect();
        let hard = weights.iter().zip(&sums).map(|(w, s)| hardness(w, s)).collect();
        Self { sums, hard }
    }

    /// Pairing of each column of `x` that fits beside `y` in natural order (or alone).
    pub(super) fn column_pairings(&self, x: usize, y: Option<usize>) -> [usize; COLS] {
        let beside = y.map_or(&ZERO, |y| &self.sums[y][0]);
        core::array::from_fn(|c| {
            column_pairing(&self.sums[x], beside, c).expect("the form was chosen because every column fits")
        })
    }

    /// As [`Proof::assign`], compiled for this machine.
    pub(super) fn runs(&self, search: bool) -> Runs {
        Isa::detect().run(Assign { proof: self, search })
    }

    /// Assigns every group to one step of one run; deterministic. `search` looks for groups that can be added in 16 bits.
    #[inline(always)]
    fn assign(&self, search: bool) -> Runs {
        let mut runs = Runs::default();
        let mut used = vec![false; self.hard.len()];
        let mut order: Vec<usize> = (0..self.hard.len()).filter(|g| search && self.hard[*g] <= LIMIT).collect();
        order.sort_by_key(|g| core::cmp::Reverse(self.hard[*g]));
        for (at, &group) in order.iter().enumerate() {
            if used[group] {
                continue;
            }
            if let Some((form, step)) = self.partner(group, order[at + 1..].iter().copied().filter(|g| !used[*g])) {
                used[step.first] = true;
                used[step.second] = true;
                runs[form as usize].push(step);
            }
        }
        for group in (0..used.len()).filter(|g| !used[*g]) {
            runs[self.single(group) as usize].push(Step { first: group, second: group });
        }
        runs.iter_mut().for_each(|run| run.sort());
        runs
    }

    /// The cheapest exact sum of `group` with one of `others` (hardest first).
    #[inline(always)]
    fn partner(&self, group: usize, others: impl Iterator<Item = usize>) -> Option<(Form, Step)> {
        let mut best: Option<(Form, Step)> = None;
        let mut seen = 0;
        for other in others.take(CANDIDATES) {
            let limit = best.map_or(3, |(form, _)| cost(form));
            if let Some(found) = self.combine(group, other, limit) {
                best = Some(found);
            }
            seen += usize::from(best.is_some());
            if best.is_some_and(|(form, _)| cost(form) == 0) || seen >= PARTNERS {
                break;
            }
        }
        best
    }

    /// The cheapest exact sum of two groups that costs less than `limit`.
    #[inline(always)]
    fn combine(&self, x: usize, y: usize, limit: usize) -> Option<(Form, Step)> {
        let (sx, sy) = (&self.sums[x], &self.sums[y]);
        let [in_order, swapped] = [Step { first: x, second: y }, Step { first: y, second: x }];
        if fit(&sx[0], &sy[0]) {
            return Some((Form::Quad, in_order));
        }
        if limit <= 1 {
            return None;
        }
        for (p, form) in [(1, Form::Quad02), (2, Form::Quad03)] {
            if fit(&sx[0], &sy[p]) {
                return Some((form, in_order));
            }
            if fit(&sx[p], &sy[0]) {
                return Some((form, swapped));
            }
        }
        if limit <= 2 {
            return None;
        }
        if fit_by_column(sx, &sy[0]) {
            return Some((Form::QuadCol, in_order));
        }
        fit_by_column(sy, &sx[0]).then_some((Form::QuadCol, swapped))
    }

    fn single(&self, group: usize) -> Form {
        if self.hard[group] > LIMIT {
            return Form::Wide;
        }
        let alike = (0..3).find(|p| fit(&self.sums[group][*p], &ZERO));
        alike.map_or(Form::PairCol, |p| [Form::Pair, Form::Pair02, Form::Pair03][p])
    }
}

struct Assign<'a> {
    proof: &'a Proof,
    search: bool,
}

impl Vectorize for Assign<'_> {
    type Output = Runs;

    #[inline(always)]
    fn run(self) -> Runs {
        self.proof.assign(self.search)
    }
}

fn cost(form: Form) -> usize {
    match form {
        Form::Quad => 0,
        Form::Quad02 | Form::Quad03 => 1,
        _ => 2,
    }
}

fn hardness(weights: &GroupWeights, sums: &[Sums; 3]) -> u8 {
    if weights.iter().flatten().any(|w| i8::try_from(*w).is_err()) {
        return u8::MAX;
    }
    let column = |c: usize, p: usize| sums[p].0[c * GROUP..(c + 1) * GROUP].iter().copied().fold(0, u8::max);
    (0..COLS).map(|c| (0..3).map(|p| column(c, p)).fold(u8::MAX, u8::min)).fold(0, u8::max)
}
