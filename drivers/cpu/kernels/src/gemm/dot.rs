//! Packing without a search: groups of neighbouring k in s8, or in 16 bits where a weight needs them.

use alloc::vec::Vec;

use super::format::{Block, COLS, Form};
use super::pack::{Steps, Weights};
use super::span::{Group, Span};

/// Largest group of these forms.
const MAX: usize = 8;

/// The weights of one group: `[column][k]`.
type GroupWeights = [[i16; MAX]; COLS];

/// Adds the steps of one panel: groups of `form`, which is `Dot` or `Dot8`, or `Wide` ones where a weight does not fit s8.
pub(super) fn push_groups(steps: &mut Steps, form: Form, spans: &[Span], weights: &Weights) {
    for group in spans.iter().flat_map(|s| s.groups(form.width())) {
        let w = gather(&group, weights);
        push_bytes(steps, form, group.offset, &w, 0);
    }
}

/// Adds the steps of one panel: groups in s4, or as `Dot` and `Wide` where a weight does not fit.
pub(super) fn push_nibbles(steps: &mut Steps, spans: &[Span], weights: &Weights) {
    for group in spans.iter().flat_map(|s| s.groups(Form::Nibbles.width())) {
        let w = gather(&group, weights);
        if w.iter().flatten().all(|w| (-8..8).contains(w)) {
            let half = |w: i16| w as u8 & 15;
            let bytes = w.iter().flat_map(|c| (0..4).map(|i| half(c[i]) | half(c[i + 4]) << 4));
            steps.push(Form::Nibbles.run(), group.offset, &blocks(bytes));
        } else {
            for part in (0..MAX).step_by(Form::Dot.width()) {
                push_bytes(steps, Form::Dot, group.offset + part, &w, part);
            }
        }
    }
}

/// Adds k `part ..` of a group in `form`, or as `Wide` steps where a weight does not fit s8.
fn push_bytes(steps: &mut Steps, form: Form, offset: usize, w: &GroupWeights, part: usize) {
    let mine = part..part + form.width();
    if w.iter().flat_map(|c| &c[mine.clone()]).all(|w| i8::try_from(*w).is_ok()) {
        let bytes = w.iter().flat_map(|c| &c[mine.clone()]).map(|w| *w as i8 as u8);
        return steps.push(form.run(), offset, &blocks(bytes));
    }
    for at in mine.clone().step_by(Form::Wide.width()) {
        steps.push(Form::Wide.run(), offset + at - part, &wide(w, at));
    }
}

fn gather(group: &Group, weights: &Weights) -> GroupWeights {
    let mut out = [[0; MAX]; COLS];
    for i in 0..group.n {
        for (column, w) in out.iter_mut().zip(&weights[group.k + i]) {
            column[group.first + i] = *w;
        }
    }
    out
}

/// (w0, w2) of each column, then (w1, w3): they meet the even and the odd bytes of a broadcast.
fn wide(w: &GroupWeights, part: usize) -> Vec<Block> {
    let halves = (part..part + 2).flat_map(|first| w.iter().flat_map(move |c| [c[first], c[first + 2]]));
    blocks(halves.flat_map(i16::to_le_bytes))
}

fn blocks(bytes: impl Iterator<Item = u8>) -> Vec<Block> {
    let bytes: Vec<u8> = bytes.collect();
    bytes.as_chunks().0.iter().map(|b| Block(*b)).collect()
}
