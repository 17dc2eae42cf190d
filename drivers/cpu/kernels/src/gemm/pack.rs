//! From weights to [`PackedB`].

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::dot::{push_groups, push_nibbles};
use super::format::{Block, COLS, Form, N_RUNS, PackedB, PanelIndex, RUNS, WINDOW, WINDOW_FORMS};
use super::span::Span;
use super::window::Search;
use crate::elements::Elements;
use crate::error::{KernelError, Result};

/// How weights are laid out. The result of a product does not depend on it, and every instruction set reads every layout; which one is
/// fast depends on the machine and on the number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Windows of sixteen bytes in which each column places its weights so that 16-bit sums stay exact: for many rows on machines
    /// without dot product instructions.
    Windows,
    /// Four neighbouring k per column: for four-way dot product instructions, for few rows, and for operands known only at run time.
    Dot,
    /// Eight neighbouring k per column: for matrix instructions that multiply 2 x 8 by 8 x 2.
    Dot8,
    /// Eight neighbouring k per column in four bits, where they fit: half the bytes, for few rows, whose time is that of reading them.
    Nibbles,
}

impl Packing {
    /// All layouts.
    pub const ALL: [Self; 4] = [Self::Windows, Self::Dot, Self::Dot8, Self::Nibbles];

    /// Bytes of a group.
    fn width(self) -> usize {
        match self {
            Self::Windows => WINDOW,
            Self::Dot => Form::Dot.width(),
            Self::Dot8 => Form::Dot8.width(),
            Self::Nibbles => Form::Nibbles.width(),
        }
    }

    /// The number that stands for it in stored plans.
    pub(crate) fn tag(self) -> u32 {
        self as u32
    }

    /// The layout of a stored plan.
    pub(crate) fn from_tag(tag: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.tag() == tag)
    }

    /// Bytes from the start of an activation row that a filter over `spans` reads.
    pub(crate) fn reach(self, spans: &[Span]) -> usize {
        spans.iter().map(|s| s.reach(self.width())).max().unwrap_or(0)
    }
}

/// The weights of a panel, zero point subtracted (-255..=255): `[k][column]`, zero where there is no column.
pub(crate) type Weights = [[i16; COLS]];

/// Writes the weights of some columns, at most sixteen; rows come zeroed.
pub(crate) type Fill<'a> = &'a dyn Fn(Range<usize>, &mut [[i16; COLS]]);

/// Packs `n` columns of `k` weights each.
pub(crate) fn pack(spans: &[Span], k: usize, n: usize, packing: Packing, fill: Fill<'_>) -> Result<PackedB> {
    let reach = packing.reach(spans);
    if u32::try_from(reach).is_err() {
        return Err(KernelError::Overflow { what: "the extent of an activation row in bytes" });
    }
    let mut packed = PackedB { blocks: Elements::default(), offsets: Vec::new(), panels: Vec::new(), reach };
    let search = Search::new();
    let mut weights = vec![[0; COLS]; k];
    for first in (0..n).step_by(COLS) {
        weights.fill([0; COLS]);
        fill(first..n.min(first + COLS), &mut weights);
        let mut steps = Steps::default();
        match packing {
            Packing::Windows => search.push_windows(&mut steps, spans, &weights),
            Packing::Dot => push_groups(&mut steps, Form::Dot, spans, &weights),
            Packing::Dot8 => push_groups(&mut steps, Form::Dot8, spans, &weights),
            Packing::Nibbles => push_nibbles(&mut steps, spans, &weights),
        }
        steps.merge_short_runs();
        packed.push(&steps);
    }
    Ok(packed)
}

/// The steps of a panel under construction, by run.
#[derive(Default)]
pub(super) struct Steps([(Vec<Block>, Vec<u32>); N_RUNS]);

impl Steps {
    /// Adds a step; `offset` has been checked to fit, as part of the row's extent.
    pub(super) fn push(&mut self, run: usize, offset: usize, blocks: &[Block]) {
        debug_assert_eq!(blocks.len(), RUNS[run].blocks());
        let (all, offsets) = &mut self.0[run];
        all.extend_from_slice(blocks);
        offsets.push(offset as u32);
    }
}

/// A run of so few steps costs more to enter than its steps save.
const SHORT: usize = 2;

impl Steps {
    /// Moves the steps of short runs of four units to the next form of four units, if the half panel has such a run: a quad is also two
    /// pairs, and the blocks are the same.
    fn merge_short_runs(&mut self) {
        for half in [0, WINDOW_FORMS.len()] {
            let [quads, mixed, pairs] = [Form::QuadQuad, Form::QuadPairs, Form::Pairs].map(|form| form.run() + half);
            self.merge(mixed, pairs);
            self.merge(quads, if self.0[mixed].1.is_empty() { pairs } else { mixed });
        }
    }

    fn merge(&mut self, from: usize, to: usize) {
        if self.0[from].1.len() <= SHORT && !self.0[to].1.is_empty() {
            let (mut blocks, mut offsets) = core::mem::take(&mut self.0[from]);
            self.0[to].0.append(&mut blocks);
            self.0[to].1.append(&mut offsets);
        }
    }
}

impl PackedB {
    fn push(&mut self, steps: &Steps) {
        let n = core::array::from_fn(|i| steps.0[i].1.len() as u32);
        self.panels.push(PanelIndex { block: self.blocks.len(), offset: self.offsets.len(), steps: n });
        for (blocks, offsets) in &steps.0 {
            self.blocks.extend_from_slice(blocks);
            self.offsets.extend_from_slice(offsets);
        }
    }
}
