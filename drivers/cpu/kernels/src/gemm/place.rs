//! Kits of units, and how the weights that have found their places become steps.

use super::format::{Block, Form, WINDOW, WINDOW_FORMS};
use super::pack::Steps;
use super::window::{Columns, HALF};

/// Units of a window: quads of two units, pair units, picks. Each quad, pair unit and pick has two lanes, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kit {
    pub(super) quads: usize,
    pub(super) pairs: usize,
    pub(super) picks: usize,
}

/// The lane of each entry of [`Columns`].
pub(super) type Places = [[i16; HALF]; WINDOW];

impl Kit {
    /// Vector instructions per activation row: per quad seven, per pair unit four, per pick three, and one per step to broadcast the
    /// window. The forms of four units are one step.
    pub(super) fn cost(self) -> usize {
        let steps = match (self.quads, self.pairs) {
            (2, pairs) => 1 + pairs,
            (1, pairs @ 2..) => pairs - 1,
            (0, pairs @ 4..) => pairs - 3,
            (quads, pairs) => quads + pairs,
        };
        7 * self.quads + 4 * self.pairs + 3 * self.picks + steps + self.picks
    }

    /// Weights per column that it holds at most.
    pub(super) fn slots(self) -> usize {
        8 * self.quads + 4 * self.pairs + 2 * self.picks
    }

    /// Lanes that add in 16 bits.
    pub(super) fn sum_lanes(self) -> usize {
        2 * (self.quads + self.pairs)
    }

    /// Slots of a lane that adds in 16 bits.
    pub(super) fn slots_of(self, lane: usize) -> i16 {
        if lane < 2 * self.quads { 4 } else { 2 }
    }
}

/// Controls and weights of a unit or pick.
type Unit = [Block; 2];

/// Adds the steps of a kit.
pub(super) fn push_kit(steps: &mut Steps, half: usize, offset: usize, kit: Kit, columns: &Columns, places: &Places) {
    let (units, picks) = fill(kit, columns, places);
    let mut step = |form: Form, units: &[Unit]| {
        let mut blocks = [Block([0; 32]); 8];
        for (i, [control, weight]) in units.iter().enumerate() {
            (blocks[i], blocks[units.len() + i]) = (*control, *weight);
        }
        steps.push(form.run() + half * WINDOW_FORMS.len(), offset, &blocks[..2 * units.len()]);
    };
    let (quads, pairs) = units[..2 * kit.quads + kit.pairs].split_at(2 * kit.quads);
    let (quads, pairs) = match (kit.quads, kit.pairs) {
        (2, _) => {
            step(Form::QuadQuad, quads);
            (&[] as &[Unit], pairs)
        }
        (1, 2..) => {
            step(Form::QuadPairs, &units[..4]);
            (&[] as &[Unit], &pairs[2..])
        }
        (0, 4..) => {
            step(Form::Pairs, &pairs[..4]);
            (quads, &pairs[4..])
        }
        _ => (quads, pairs),
    };
    quads.chunks_exact(2).for_each(|quad| step(Form::Quad, quad));
    pairs.chunks_exact(1).for_each(|pair| step(Form::Pair, pair));
    picks[..kit.picks].chunks_exact(1).for_each(|pick| step(Form::Pick, pick));
}

/// Units, quads first, and picks. A slot that no weight takes multiplies byte 0 of the window by zero.
fn fill(kit: Kit, columns: &Columns, places: &Places) -> ([Unit; 8], [Unit; 8]) {
    let mut units = [[Block([0; 32]); 2]; 8];
    let nothing = core::array::from_fn(|i| if i % 2 == 0 { 0 } else { 0x80 });
    let mut picks = [[Block(nothing), Block([0; 32])]; 8];
    let mut used = [[0; HALF]; 2 * (8 + 8)];
    for (keys, lanes) in columns.0.iter().zip(places) {
        for (c, (key, lane)) in keys.iter().zip(lanes).enumerate().filter(|(_, (key, _))| **key != 0) {
            let ((weight, byte), lane) = (Columns::entry(*key), *lane as usize);
            let (group, at) = (lane / 2, c * 4 + lane % 2 * 2);
            let slot = used[lane][c];
            used[lane][c] += 1;
            if group < kit.quads + kit.pairs {
                // A quad lane spans two units: its slots 0 and 1 lie in the first, 2 and 3 in the second.
                let unit = if group < kit.quads { group * 2 + slot / 2 } else { group + kit.quads };
                units[unit][0].0[at + slot % 2] = byte;
                units[unit][1].0[at + slot % 2] = weight as i8 as u8;
            } else {
                let [control, weights] = &mut picks[group - kit.quads - kit.pairs];
                control.0[at] = byte;
                weights.0[at..at + 2].copy_from_slice(&weight.to_le_bytes());
            }
        }
    }
    (units, picks)
}
