//! The packed format: 32-byte blocks of weights per step, byte offsets into the activations per group, steps sorted into runs by form.

use crate::elements::{Elements, Plain};

/// Output columns of a panel.
pub(crate) const COLS: usize = 16;
/// Consecutive k of a group: what one 32-bit broadcast reads.
pub(crate) const GROUP: usize = 4;

/// The three ways to pair four activations; entry `p` lists which activation byte lands in which position.
pub(crate) const PAIRINGS: [[u8; GROUP]; 3] = [[0, 1, 2, 3], [0, 2, 1, 3], [0, 3, 1, 2]];

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

/// Instruction sequence of a step. `Quad*` add two groups in 16 bits, `Pair*` take one, `Wide` works on 16-bit operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Form {
    /// Two groups, both in natural order.
    Quad,
    /// Two groups, the second shuffled to pairing 1 in all columns.
    Quad02,
    /// Two groups, the second shuffled to pairing 2 in all columns.
    Quad03,
    /// Two groups, the first with one pairing per column.
    QuadCol,
    /// One group in natural order.
    Pair,
    /// One group in pairing 1.
    Pair02,
    /// One group in pairing 2.
    Pair03,
    /// One group with one pairing per column.
    PairCol,
    /// One group on 16-bit operands.
    Wide,
}

/// All forms in the order in which a panel stores its runs.
pub(crate) const FORMS: [Form; 9] = [
    Form::Quad,
    Form::Quad02,
    Form::Quad03,
    Form::QuadCol,
    Form::Pair,
    Form::Pair02,
    Form::Pair03,
    Form::PairCol,
    Form::Wide,
];

impl Form {
    /// Blocks of weights (and shuffle controls) per step.
    pub(crate) fn blocks(self) -> usize {
        match self {
            Self::Pair | Self::Pair02 | Self::Pair03 => 2,
            Self::PairCol => 3,
            Self::Quad | Self::Quad02 | Self::Quad03 | Self::Wide => 4,
            Self::QuadCol => 5,
        }
    }

    /// Groups, and so offsets, per step.
    pub(crate) fn groups(self) -> usize {
        if (self as usize) < Form::Pair as usize { 2 } else { 1 }
    }
}

/// Byte order of a pairing: position `r` of a column holds activation `pairing_bytes(p)[r]`.
pub(crate) fn pairing_bytes(pairing: usize) -> [u8; GROUP] {
    PAIRINGS[pairing]
}

/// Pairing bytes of column `c` in a shuffle-control block: columns 0..8 in the low nibbles, 8..16 in the high nibbles.
pub(crate) fn control(block: &Block, c: usize) -> [u8; GROUP] {
    let at = c % 8 * GROUP;
    core::array::from_fn(|r| if c < 8 { block.0[at + r] & 15 } else { block.0[at + r] >> 4 })
}

/// Sixteen output columns.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    /// Weights and controls of all steps, run after run.
    pub(crate) blocks: &'a [Block],
    /// One byte offset into the activation row per group, in step order.
    pub(crate) offsets: &'a [u32],
    /// Steps per run, in the order of [`FORMS`].
    pub(crate) steps: &'a [u32; FORMS.len()],
    /// Largest entry of `offsets`.
    pub(crate) max_offset: usize,
}

/// All panels of a weight matrix.
///
/// Invariant: for every panel, `blocks` and `offsets` hold exactly what `steps` asks for, and no offset exceeds `max_offset`.
pub(crate) struct PackedB {
    pub(super) blocks: Elements<Block>,
    pub(super) offsets: Vec<u32>,
    pub(super) panels: Vec<PanelIndex>,
    pub(super) max_offset: usize,
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
        let count =
            |per: fn(Form) -> usize| FORMS.iter().map(|f| at.steps[*f as usize] as usize * per(*f)).sum::<usize>();
        Panel {
            blocks: &self.blocks[at.block..at.block + count(Form::blocks)],
            offsets: &self.offsets[at.offset..at.offset + count(Form::groups)],
            steps: &at.steps,
            max_offset: self.max_offset,
        }
    }
}
