//! The packed format: panels of sixteen output columns, each a list of steps sorted into runs by [`Form`]; a step is some 32-byte
//! blocks of weights and the byte offset at which it reads the activation row.
//!
//! | form | weights of one step | reads |
//! |---|---|---|
//! | `Dot` | `[16 columns][4 k]` s8 | 4 neighbouring bytes |
//! | `Dot8` | `[16 columns][8 k]` s8 | 8 neighbouring bytes |
//! | `Wide` | `[16 columns][k 0, k 2]`, then `[16 columns][k 1, k 3]` in 16 bits | 4 neighbouring bytes |
//!
//! The sum of a panel is that of its steps in any order. Every kernel reads every form that its instruction set meets; the portable
//! kernel reads them all.

/// Output columns of a panel.
use alloc::vec::Vec;

pub(crate) const COLS: usize = 16;

/// 32 bytes on a 32-byte boundary, so that no load of weights crosses a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Block(pub(crate) [u8; 32]);

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
}

/// All forms in the order in which a panel stores its runs.
pub(crate) const FORMS: [Form; 3] = [Form::Dot, Form::Dot8, Form::Wide];

impl Form {
    /// Blocks per step.
    pub(crate) const fn blocks(self) -> usize {
        match self {
            Self::Dot => 2,
            Self::Dot8 | Self::Wide => 4,
        }
    }

    /// Bytes of the activation row that a step reads.
    pub(crate) const fn width(self) -> usize {
        match self {
            Self::Dot | Self::Wide => 4,
            Self::Dot8 => 8,
        }
    }
}

/// Sixteen output columns.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    /// Blocks of all steps, run after run.
    pub(crate) blocks: &'a [Block],
    /// One byte offset into the activation row per step, in the same order.
    pub(crate) offsets: &'a [u32],
    /// Steps per run, in the order of [`FORMS`].
    pub(crate) steps: &'a [u32; FORMS.len()],
    /// Bytes from the start of an activation row that steps may read.
    pub(crate) reach: usize,
}

/// The steps of one run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// `form.blocks()` per step.
    pub(crate) blocks: &'a [Block],
    /// One per step.
    pub(crate) offsets: &'a [u32],
}

impl<'a> Panel<'a> {
    /// The steps of one form.
    pub(crate) fn run(&self, form: Form) -> Run<'a> {
        let n = |form: Form| self.steps[form as usize] as usize;
        let before = || FORMS[..form as usize].iter().copied();
        let (block, offset): (usize, usize) = (before().map(|f| n(f) * f.blocks()).sum(), before().map(n).sum());
        Run { blocks: &self.blocks[block..][..n(form) * form.blocks()], offsets: &self.offsets[offset..][..n(form)] }
    }
}

/// All panels of a weight matrix.
///
/// Invariant: for every panel, `blocks` and `offsets` hold exactly what `steps` asks for, and every step reads within `reach` bytes.
pub(crate) struct PackedB {
    pub(super) blocks: Vec<Block>,
    pub(super) offsets: Vec<u32>,
    pub(super) panels: Vec<PanelIndex>,
    pub(super) reach: usize,
}

/// Where a panel's parts begin.
#[derive(Clone, Copy)]
pub(super) struct PanelIndex {
    pub(super) block: usize,
    pub(super) offset: usize,
    pub(super) steps: [u32; FORMS.len()],
}

impl PackedB {
    /// Bytes of packed weights.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<Block>() + self.offsets.len() * size_of::<u32>()
    }

    /// Panel `index`.
    pub(crate) fn panel(&self, index: usize) -> Panel<'_> {
        let at = &self.panels[index];
        let n = |form: Form| at.steps[form as usize] as usize;
        let (blocks, offsets): (usize, usize) =
            (FORMS.iter().map(|f| n(*f) * f.blocks()).sum(), FORMS.iter().map(|f| n(*f)).sum());
        Panel {
            blocks: &self.blocks[at.block..][..blocks],
            offsets: &self.offsets[at.offset..][..offsets],
            steps: &at.steps,
            reach: self.reach,
        }
    }
}
