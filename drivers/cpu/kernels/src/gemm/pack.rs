//! From weights to [`PackedB`].

use core::ops::Range;

use super::format::{Block, COLS, FORMS, Form, GROUP, PAIRINGS, PackedB, PanelIndex};
use super::pairing::{GroupWeights, Proof, Step};
use crate::error::{KernelError, Result};

/// How much work packing may do. The result of a product does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Search for the fastest exact form of each group: for weights that are packed once.
    Search,
    /// Take the first exact form: for operands known only at run time.
    Quick,
}

/// In [`Group::k`]: this lane multiplies whatever lies there by zero.
pub(crate) const NO_K: usize = usize::MAX;

/// Four neighbouring activation bytes: where they lie in the row, and which k each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) offset: usize,
    pub(crate) k: [usize; GROUP],
}

/// Packs `n` columns whose weights are `weight(k, column)`, zero point subtracted (-255..=255).
pub(crate) fn pack(
    groups: &[Group],
    n: usize,
    packing: Packing,
    weight: &dyn Fn(usize, usize) -> i16,
) -> Result<PackedB> {
    let max_offset = groups.iter().map(|g| g.offset).max().unwrap_or(0);
    if u32::try_from(max_offset).is_err() || u32::try_from(groups.len()).is_err() {
        return Err(KernelError::Overflow { what: "the extent of an activation row in bytes" });
    }
    let (mut blocks, mut offsets, mut panels) = (Vec::new(), Vec::new(), Vec::new());
    let mut weights = vec![GroupWeights::default(); groups.len()];
    for first in (0..n).step_by(COLS) {
        for (group, to) in groups.iter().zip(&mut weights) {
            gather(group, first..n.min(first + COLS), weight, to);
        }
        panels.push(push_panel(&mut blocks, &mut offsets, groups, &weights, packing));
    }
    Ok(PackedB { blocks: blocks.into(), offsets, panels, max_offset })
}

/// The weights of one group and panel; zero where there is no column or no k.
fn gather(group: &Group, columns: Range<usize>, weight: &dyn Fn(usize, usize) -> i16, to: &mut GroupWeights) {
    *to = GroupWeights::default();
    for (column, to) in columns.zip(to) {
        for (k, to) in group.k.iter().zip(to) {
            if *k != NO_K {
                *to = weight(*k, column);
            }
        }
    }
}

fn push_panel(
    blocks: &mut Vec<Block>,
    offsets: &mut Vec<u32>,
    groups: &[Group],
    weights: &[GroupWeights],
    packing: Packing,
) -> PanelIndex {
    let proof = Proof::new(weights);
    let runs = proof.runs(packing == Packing::Search);
    let mut index = PanelIndex { block: blocks.len(), offset: offsets.len(), steps: [0; FORMS.len()] };
    for form in FORMS {
        let run = &runs[form as usize];
        index.steps[form as usize] = run.len() as u32;
        for step in run {
            push_step(blocks, form, *step, weights, &proof);
            offsets.push(groups[step.first].offset as u32);
            if form.groups() == 2 {
                offsets.push(groups[step.second].offset as u32);
            }
        }
    }
    index
}

fn push_step(out: &mut Vec<Block>, form: Form, step: Step, weights: &[GroupWeights], proof: &Proof) {
    let (x, y) = (&weights[step.first], &weights[step.second]);
    let mut bytes: Vec<u8> = Vec::with_capacity(form.blocks() * size_of::<Block>());
    match form {
        Form::Quad => put_pair(&mut bytes, x, y, 0),
        Form::Quad02 => put_pair(&mut bytes, x, y, 1),
        Form::Quad03 => put_pair(&mut bytes, x, y, 2),
        Form::QuadCol => {
            let pairings = proof.column_pairings(step.first, Some(step.second));
            put_control(&mut bytes, &pairings);
            put(&mut bytes, x, &pairings);
            put(&mut bytes, y, &[0; COLS]);
        }
        Form::Pair => put(&mut bytes, x, &[0; COLS]),
        Form::Pair02 => put(&mut bytes, x, &[1; COLS]),
        Form::Pair03 => put(&mut bytes, x, &[2; COLS]),
        Form::PairCol => {
            let pairings = proof.column_pairings(step.first, None);
            put_control(&mut bytes, &pairings);
            put(&mut bytes, x, &pairings);
        }
        Form::Wide => put_wide(&mut bytes, x),
    }
    let (blocks, rest) = bytes.as_chunks::<32>();
    debug_assert!(rest.is_empty() && blocks.len() == form.blocks());
    out.extend(blocks.iter().map(|b| Block(*b)));
}

fn put_pair(out: &mut Vec<u8>, x: &GroupWeights, y: &GroupWeights, pairing: usize) {
    put(out, x, &[0; COLS]);
    put(out, y, &[pairing; COLS]);
}

/// Two blocks: `[column][position]`, each column in its pairing. The form's proof says that all weights fit s8.
fn put(out: &mut Vec<u8>, weights: &GroupWeights, pairings: &[usize; COLS]) {
    for (column, pairing) in weights.iter().zip(pairings) {
        out.extend(PAIRINGS[*pairing].map(|r| column[usize::from(r)] as i8 as u8));
    }
}

/// One block of shuffle controls: columns 0..8 in the low nibbles, 8..16 in the high ones.
fn put_control(out: &mut Vec<u8>, pairings: &[usize; COLS]) {
    let (low, high) = pairings.split_at(COLS / 2);
    for (l, h) in low.iter().zip(high) {
        out.extend(PAIRINGS[*l].iter().zip(PAIRINGS[*h]).map(|(l, h)| l | h << 4));
    }
}

/// Four blocks of i16: `[column]` of (w0, w2), then of (w1, w3), which meet the even and the odd bytes of the broadcast.
fn put_wide(out: &mut Vec<u8>, weights: &GroupWeights) {
    for first in 0..2 {
        for column in weights {
            out.extend([column[first], column[first + 2]].iter().flat_map(|w| w.to_le_bytes()));
        }
    }
}
