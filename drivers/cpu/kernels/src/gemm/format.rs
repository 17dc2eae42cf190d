//! The packed format: panels of sixteen output columns, each a list of steps sorted into runs by [`Form`]; a step is some 32-byte
//! blocks of weights and the byte offset at which it reads the activation row.
//!
//! | form | weights of one step | reads |
//! |---|---|---|
//! | `Dot` | `[16 columns][4 k]` s8 | 4 neighbouring bytes |
//! | `Dot8` | `[16 columns][8 k]` s8 | 8 neighbouring bytes |
//! | `Nibbles` | `[16 columns][4]` bytes: k 0..4 in the low halves, k 4..8 in the high ones, s4 | 8 neighbouring bytes |
//! | `Wide` | `[16 columns][k 0, k 2]`, then `[16 columns][k 1, k 3]` in 16 bits | 4 neighbouring bytes |
//! | `QuadQuad`, `QuadPairs`, `Pairs` | 4 units of eight columns | a window of 16 bytes |
//! | `Quad`, `Pair` | 2 units, 1 unit of eight columns | a window of 16 bytes |
//! | `Pick` | a control, then `[8 columns][2]` in 16 bits | a window of 16 bytes |
//!
//! A *unit* is a block of shuffle controls and a block of weights, both `[8 columns][4]`: a control names the byte of the window that
//! its weight meets, so each column places its weights as it likes. A step holds the controls of all its units, then their weights. In
//! a *quad* two units are added in 16 bits, lane by lane, before they are widened; a *pair* unit is widened alone. Packing keeps each
//! 16-bit sum within s16 for every activation. `Pick` multiplies in 32 bits; its controls are pairs (byte, 0x80), which widens to u16.
//!
//! The sum of a panel is that of its steps in any order. Every kernel reads every form that its instruction set meets; the portable
//! kernel reads them all.

use alloc::vec::Vec;

use crate::elements::{Elements, Plain};

/// Output columns of a panel.
pub(crate) const COLS: usize = 16;

/// Activation bytes that a shuffle reaches.
pub(crate) const WINDOW: usize = 16;

/// 32 bytes on a 32-byte boundary, so that no load of weights crosses a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Block(pub(crate) [u8; 32]);

// SAFETY: an array of bytes that fills the type.
unsafe impl Plain for Block {
    fn from_stored(bytes: &[u8]) -> Self {
        let mut block = Self([0; 32]);
        block.0.copy_from_slice(bytes);
        block
    }

    fn store(blocks: &[Self], out: &mut Vec<u8>) {
        blocks.iter().for_each(|b| out.extend_from_slice(&b.0));
    }
}

/// What the blocks of a step hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Form {
    /// Four k of sixteen columns in s8: one four-way dot product per column.
    Dot,
    /// Eight k of sixteen columns in s8: two columns' k side by side, as 2 x 8 by 8 x 2 products want them.
    Dot8,
    /// Four k of sixteen columns in 16 bits.
    Wide,
    /// Eight k of sixteen columns in s4: what `Dot` is after the halves of the bytes are taken apart.
    Nibbles,
    /// Two quads of one window.
    QuadQuad,
    /// A quad and two pair units of one window.
    QuadPairs,
    /// Four pair units of one window.
    Pairs,
    /// One quad.
    Quad,
    /// One pair unit.
    Pair,
    /// Two k per column in 16 bits.
    Pick,
}

/// Forms of a half panel, in the order of their runs.
pub(crate) const WINDOW_FORMS: [Form; 6] =
    [Form::QuadQuad, Form::QuadPairs, Form::Pairs, Form::Quad, Form::Pair, Form::Pick];

/// Number of runs of a panel.
pub(crate) const N_RUNS: usize = 4 + 2 * WINDOW_FORMS.len();

/// The form of each run, in the order in which a panel stores them: whole panels, then columns 0..8, then columns 8..16.
pub(crate) const RUNS: [Form; N_RUNS] = {
    let [a, b, c, d, e, f] = WINDOW_FORMS;
    [Form::Dot, Form::Dot8, Form::Wide, Form::Nibbles, a, b, c, d, e, f, a, b, c, d, e, f]
};

impl Form {
    /// Blocks per step.
    pub(crate) const fn blocks(self) -> usize {
        match self {
            Self::Dot | Self::Nibbles | Self::Pair | Self::Pick => 2,
            Self::Dot8 | Self::Wide | Self::Quad => 4,
            Self::QuadQuad | Self::QuadPairs | Self::Pairs => 8,
        }
    }

    /// Bytes of the activation row that a step reads.
    pub(crate) const fn width(self) -> usize {
        match self {
            Self::Dot | Self::Wide => 4,
            Self::Dot8 | Self::Nibbles => 8,
            _ => WINDOW,
        }
    }

    /// Index of its run; window forms of columns 8..16 come [`WINDOW_FORMS`] later.
    pub(crate) const fn run(self) -> usize {
        self as usize
    }
}

/// Sixteen output columns.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    /// Blocks of all steps, run after run.
    pub(crate) blocks: &'a [Block],
    /// One byte offset into the activation row per step, in the same order.
    pub(crate) offsets: &'a [u32],
    /// Steps per run, in the order of [`RUNS`].
    pub(crate) steps: &'a [u32; N_RUNS],
    /// Bytes from the start of an activation row that steps may read.
    pub(crate) reach: usize,
    /// Which forms occur.
    pub(crate) content: Content,
}

/// Which forms occur in a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Window forms only, or nothing.
    Windows,
    /// `Dot`, `Nibbles` and `Wide` only.
    Dot,
    /// `Dot8` and `Wide` only.
    Dot8,
    /// Something else, which no packing makes.
    Mixed,
}

/// The steps of one run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// `form.blocks()` per step.
    pub(crate) blocks: &'a [Block],
    /// One per step.
    pub(crate) offsets: &'a [u32],
}

impl Content {
    fn of(steps: &[u32; N_RUNS]) -> Self {
        let has = |form: Form| steps[form.run()] > 0;
        let (dot, dot8, wide) = (has(Form::Dot) || has(Form::Nibbles), has(Form::Dot8), has(Form::Wide));
        let windows = steps[Form::QuadQuad.run()..].iter().any(|n| *n > 0);
        match (windows, dot, dot8, wide) {
            (_, false, false, false) => Self::Windows,
            (false, _, false, _) => Self::Dot,
            (false, false, true, _) => Self::Dot8,
            _ => Self::Mixed,
        }
    }
}

impl<'a> Panel<'a> {
    /// The steps of a form; of a window form those of columns 0..8.
    pub(crate) fn run(&self, form: Form) -> Run<'a> {
        self.run_at(form.run())
    }

    /// The steps of run `index`.
    pub(crate) fn run_at(&self, index: usize) -> Run<'a> {
        let n = |run: usize| self.steps[run] as usize;
        let (block, offset) = (0..index).fold((0, 0), |(b, o), run| (b + n(run) * RUNS[run].blocks(), o + n(run)));
        let (n, form) = (n(index), RUNS[index]);
        Run { blocks: &self.blocks[block..][..n * form.blocks()], offsets: &self.offsets[offset..][..n] }
    }
}

/// All panels of a weight matrix.
///
/// Invariant: for every panel, `blocks` and `offsets` hold exactly what `steps` asks for, and every step reads within `reach` bytes.
pub(crate) struct PackedB {
    pub(super) blocks: Elements<Block>,
    pub(super) offsets: Vec<u32>,
    pub(super) panels: Vec<PanelIndex>,
    pub(super) reach: usize,
}

/// Where a panel's parts begin.
#[derive(Clone, Copy)]
pub(super) struct PanelIndex {
    pub(super) block: usize,
    pub(super) offset: usize,
    pub(super) steps: [u32; N_RUNS],
}

impl PackedB {
    /// Bytes of packed weights.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<Block>() + self.offsets.len() * size_of::<u32>()
    }

    /// Panel `index`.
    pub(crate) fn panel(&self, index: usize) -> Panel<'_> {
        let at = &self.panels[index];
        let counts = || RUNS.iter().zip(at.steps).map(|(form, n)| (n as usize, form.blocks()));
        let (blocks, offsets): (usize, usize) = (counts().map(|(n, b)| n * b).sum(), counts().map(|(n, _)| n).sum());
        Panel {
            blocks: &self.blocks[at.block..][..blocks],
            offsets: &self.offsets[at.offset..][..offsets],
            steps: &at.steps,
            reach: self.reach,
            content: Content::of(&at.steps),
        }
    }
}
