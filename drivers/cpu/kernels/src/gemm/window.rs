//! The search for exact 16-bit lanes: which weight of a window goes where.
//!
//! For each window of sixteen activation bytes and each half panel of eight columns, the search tries the sets of steps that could hold
//! the weights, cheapest first, until every column finds a place for each of its weights: a slot of a 16-bit lane whose positive and
//! negative weights stay within 128 each. [`Kit`] is such a set; a set with as many `Pick` units as there are weights always fits.

use alloc::vec;
use alloc::vec::Vec;

use super::format::{Block, COLS, Form, WINDOW, WINDOW_FORMS};
use super::pack::{Steps, Weights};
use super::span::{Group, Span};

/// Largest sum of weights of one sign in a 16-bit lane: 255 * 128 fits s16, 255 * 129 does not.
const LIMIT: i16 = 128;
/// Columns of a half panel.
const HALF: usize = COLS / 2;
/// Most lanes of a kit.
const LANES: usize = 32;
/// Slots of a quad lane, a pair lane, a pick lane.
const SLOTS: [u8; 3] = [4, 2, 1];

/// Units of a window: quads of two units, pair units, picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kit {
    quads: usize,
    pairs: usize,
    picks: usize,
}

impl Kit {
    /// Vector instructions per activation row: one to broadcast the window for each step, then per quad seven, per pair unit four, per
    /// pick three. The three forms of four units broadcast once.
    fn cost(self) -> usize {
        let steps = match (self.quads, self.pairs) {
            (2, pairs) => 1 + pairs,
            (1, pairs @ 2..) => pairs - 1,
            (0, pairs @ 4..) => pairs - 3,
            (quads, pairs) => quads + pairs,
        };
        7 * self.quads + 4 * self.pairs + 3 * self.picks + steps + self.picks
    }

    fn slots(self) -> usize {
        8 * self.quads + 4 * self.pairs + 2 * self.picks
    }

    fn lanes(self) -> usize {
        2 * (self.quads + self.pairs + self.picks)
    }

    /// Which entry of [`SLOTS`] describes a lane. Each quad, pair unit and pick has two.
    fn kind(self, lane: usize) -> usize {
        usize::from(lane >= 2 * self.quads) + usize::from(lane >= 2 * (self.quads + self.pairs))
    }
}

/// The weights of one column in one window, largest first.
#[derive(Clone, Copy)]
struct Column {
    n: usize,
    weight: [i16; WINDOW],
    /// Which byte of the window each meets.
    byte: [u8; WINDOW],
}

impl Column {
    fn new(group: &Group, weights: &Weights, column: usize) -> Self {
        let mut out = Self { n: 0, weight: [0; WINDOW], byte: [0; WINDOW] };
        for (i, row) in weights[group.k..][..group.n].iter().enumerate() {
            let w = row[column];
            if w == 0 {
                continue;
            }
            let mut at = out.n;
            while at > 0 && out.weight[at - 1].abs() < w.abs() {
                (out.weight[at], out.byte[at]) = (out.weight[at - 1], out.byte[at - 1]);
                at -= 1;
            }
            (out.weight[at], out.byte[at]) = (w, (group.first + i) as u8);
            out.n += 1;
        }
        out
    }

    /// A lane for each weight, if the kit has room. Each weight takes the lane with the most room for its sign per free slot (or, with
    /// `even`, the most room), so that large ones spread out.
    fn place(&self, kit: Kit, even: bool) -> Option<[u8; WINDOW]> {
        let (mut room, mut free) = ([[LIMIT; 2]; LANES], [0u8; LANES]);
        let n_lanes = kit.lanes();
        for (lane, free) in free.iter_mut().enumerate().take(n_lanes) {
            *free = SLOTS[kit.kind(lane)];
        }
        let first_pick = 2 * (kit.quads + kit.pairs);
        let mut out = [0; WINDOW];
        for (w, to) in self.weight[..self.n].iter().zip(&mut out) {
            let (sign, size) = (usize::from(*w < 0), w.abs());
            let mut best = (-1, n_lanes);
            for lane in 0..first_pick {
                let score = if even { room[lane][sign] } else { room[lane][sign] * SHARE[usize::from(free[lane])] };
                if free[lane] > 0 && room[lane][sign] >= size && score > best.0 {
                    best = (score, lane);
                }
            }
            if best.1 == n_lanes || i8::try_from(*w).is_err() {
                best.1 = (first_pick..n_lanes).find(|lane| free[*lane] > 0)?;
            }
            room[best.1][sign] -= size;
            free[best.1] -= 1;
            *to = best.1 as u8;
        }
        Some(out)
    }
}

/// Proportional to one over the number of free slots.
const SHARE: [i16; 5] = [0, 12, 6, 4, 3];

/// Kits by cost.
pub(super) struct Search(Vec<Kit>);

impl Search {
    pub(super) fn new() -> Self {
        let mut kits = Vec::new();
        for (quads, pairs, picks) in
            (0..=2).flat_map(|q| (0..=4).flat_map(move |p| (0..=WINDOW / 2).map(move |w| (q, p, w))))
        {
            kits.push(Kit { quads, pairs, picks });
        }
        kits.sort_by_key(|kit| (kit.cost(), kit.lanes()));
        Self(kits)
    }

    /// Adds the steps of one panel.
    pub(super) fn push_windows(&self, steps: &mut Steps, spans: &[Span], weights: &Weights) {
        for group in spans.iter().flat_map(|s| s.groups(WINDOW)) {
            for half in 0..2 {
                let columns: [Column; HALF] = core::array::from_fn(|c| Column::new(&group, weights, half * HALF + c));
                let (kit, places) = self.kit(&columns);
                push_kit(steps, half, group.offset, kit, &columns, &places);
            }
        }
    }

    /// The cheapest kit in which all columns find their places.
    fn kit(&self, columns: &[Column; HALF]) -> (Kit, [[u8; WINDOW]; HALF]) {
        let most = columns.iter().map(|c| c.n).max().unwrap_or(0);
        let mut places = [[0; WINDOW]; HALF];
        let mut hardest = 0;
        for kit in self.0.iter().filter(|kit| kit.slots() >= most) {
            let mut place = |c: usize| {
                let found = columns[c].place(*kit, false).or_else(|| columns[c].place(*kit, true));
                found.map(|found| places[c] = found).is_some()
            };
            if !place(hardest) {
                continue;
            }
            match (0..HALF).find(|c| !place(*c)) {
                None => return (*kit, places),
                Some(c) => hardest = c,
            }
        }
        unreachable!("a kit of eight picks holds any sixteen weights")
    }
}

/// Turns places into blocks and adds the steps of a kit.
fn push_kit(
    steps: &mut Steps,
    half: usize,
    offset: usize,
    kit: Kit,
    columns: &[Column; HALF],
    places: &[[u8; WINDOW]; HALF],
) {
    let (units, picks) = fill(kit, columns, places);
    let run = |form: Form| form.run() + half * WINDOW_FORMS.len();
    let mut step = |form: Form, units: &[[Block; 2]]| {
        let blocks: Vec<Block> = (0..2).flat_map(|part| units.iter().map(move |u| u[part])).collect();
        steps.push(run(form), offset, &blocks);
    };
    let (mut quads, mut pairs) = units.split_at(2 * kit.quads);
    match (kit.quads, kit.pairs) {
        (2, _) => step(Form::QuadQuad, core::mem::take(&mut quads)),
        (1, 2..) => {
            step(Form::QuadPairs, &units[..4]);
            (quads, pairs) = (&[], &pairs[2..]);
        }
        (0, 4..) => {
            step(Form::Pairs, &pairs[..4]);
            pairs = &pairs[4..];
        }
        _ => {}
    }
    quads.chunks_exact(2).for_each(|quad| step(Form::Quad, quad));
    pairs.chunks_exact(1).for_each(|pair| step(Form::Pair, pair));
    picks.chunks_exact(1).for_each(|pick| step(Form::Pick, pick));
}

/// Controls and weights of all units, quads first, and of all picks.
fn fill(kit: Kit, columns: &[Column; HALF], places: &[[u8; WINDOW]; HALF]) -> (Vec<[Block; 2]>, Vec<[Block; 2]>) {
    let n_units = 2 * kit.quads + kit.pairs;
    let mut units = vec![[Block([0; 32]); 2]; n_units];
    let nothing = core::array::from_fn(|i| if i % 2 == 0 { 0 } else { 0x80 });
    let mut picks = vec![[Block(nothing), Block([0; 32])]; kit.picks];
    for (c, (column, places)) in columns.iter().zip(places).enumerate() {
        let mut used = [0; LANES];
        for i in 0..column.n {
            let lane = usize::from(places[i]);
            let (group, side, slot) = (lane / 2, lane % 2, used[lane]);
            used[lane] += 1;
            let at = c * 4 + side * 2;
            if group < kit.quads + kit.pairs {
                // A quad lane spans two units: its slots 0 and 1 lie in the first, 2 and 3 in the second.
                let unit = if group < kit.quads { group * 2 + slot / 2 } else { group + kit.quads };
                units[unit][0].0[at + slot % 2] = column.byte[i];
                units[unit][1].0[at + slot % 2] = column.weight[i] as i8 as u8;
            } else {
                let [control, weight] = &mut picks[group - kit.quads - kit.pairs];
                control.0[at] = column.byte[i];
                weight.0[at..at + 2].copy_from_slice(&column.weight[i].to_le_bytes());
            }
        }
    }
    (units, picks)
}
