//! Packed depthwise filters: per block of sixteen channels, vertically neighbouring taps two by two as 16-bit weights.
//!
//! Two taps' channels are interleaved and widened to 16 bits, so that `vpmaddwd` adds both taps' products per channel in 32 bits:
//! exact for every u8 activation and every weight in -255..=255, for any window. The taps of a pair lie in one kernel column, so that
//! neighbouring pixels can share the interleaved activations of an image column.

use alloc::vec::Vec;

use crate::error::{KernelError, Result, product};
use crate::gemm::{Block, COLS};
use crate::stored::{Stored, put_blocks};

/// A window over activations whose rows and columns of taps are `row` and `column` bytes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DepthwiseWindow {
    pub(crate) kernel: [usize; 2],
    pub(crate) row: usize,
    pub(crate) column: usize,
}

/// Kernel row and column of each step's first tap, and the offsets of both taps.
type Steps = (Vec<(usize, usize)>, Vec<[u32; 2]>);

impl DepthwiseWindow {
    /// Offset of the last tap.
    pub(crate) fn max_offset(&self) -> usize {
        let [kh, kw] = self.kernel;
        (kh - 1) * self.row + (kw - 1) * self.column
    }

    /// Steps over pairs of kernel rows, then kernel columns.
    fn steps(&self) -> Result<Steps> {
        if u32::try_from(self.max_offset()).is_err() {
            return Err(KernelError::Overflow { what: "the extent of a depthwise window in bytes" });
        }
        let [kh, kw] = self.kernel;
        let steps: Vec<(usize, usize)> = (0..kh).step_by(2).flat_map(|y| (0..kw).map(move |x| (y, x))).collect();
        let offset = |y: usize, x: usize| (y.min(kh - 1) * self.row + x * self.column) as u32;
        let offsets = steps.iter().map(|(y, x)| [offset(*y, *x), offset(y + 1, *x)]).collect();
        Ok((steps, offsets))
    }
}

/// Filters of all channels.
pub(crate) struct DepthwiseB {
    window: DepthwiseWindow,
    /// Two blocks per step and block of channels: `[channel][tap of the pair]` as i16.
    weights: Vec<[Block; 2]>,
    /// Two offsets per step. Steps run over pairs of kernel rows, then kernel columns; an odd last row is paired with itself at weight 0.
    offsets: Vec<[u32; 2]>,
    max_offset: usize,
}

/// Filters of sixteen channels.
#[derive(Clone, Copy)]
pub(crate) struct DepthwisePanel<'a> {
    pub(crate) window: DepthwiseWindow,
    pub(crate) weights: &'a [[Block; 2]],
    pub(crate) offsets: &'a [[u32; 2]],
    pub(crate) max_offset: usize,
}

impl DepthwiseB {
    /// Packs `weight(tap, channel)`, taps row by row.
    pub(crate) fn pack(window: DepthwiseWindow, channels: usize, weight: &dyn Fn(usize, usize) -> i16) -> Result<Self> {
        let [kh, kw] = window.kernel;
        let (steps, offsets) = window.steps()?;
        let get = |y: usize, x: usize, c: usize| if y < kh && c < channels { weight(y * kw + x, c) } else { 0 };
        let mut weights = Vec::with_capacity(steps.len() * channels.div_ceil(COLS));
        for first in (0..channels).step_by(COLS) {
            let blocks =
                |(y, x): &(usize, usize)| [0, 8].map(|half| pair_block(|i| get(y + i % 2, *x, first + half + i / 2)));
            weights.extend(steps.iter().map(blocks));
        }
        Ok(Self { window, weights, offsets, max_offset: window.max_offset() })
    }

    /// Appends the packed weights.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        self.weights.iter().for_each(|pair| put_blocks(out, pair));
    }

    /// Reads the weights of `channels` channels back; offsets follow from the window.
    pub(crate) fn restore(window: DepthwiseWindow, channels: usize, from: &mut Stored<'_>) -> Result<Self> {
        let (steps, offsets) = window.steps()?;
        let n = product("the packed weights", &[steps.len(), channels.div_ceil(COLS), 2])?;
        let weights = from.blocks(n)?.as_chunks().0.to_vec();
        Ok(Self { window, weights, offsets, max_offset: window.max_offset() })
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.weights.as_slice()) + size_of_val(self.offsets.as_slice())
    }

    /// Channels `16 * index ..`.
    pub(crate) fn block(&self, index: usize) -> DepthwisePanel<'_> {
        let n = self.offsets.len();
        DepthwisePanel {
            window: self.window,
            weights: &self.weights[index * n..][..n],
            offsets: &self.offsets,
            max_offset: self.max_offset,
        }
    }
}

fn pair_block(weight: impl Fn(usize) -> i16) -> Block {
    let mut block = Block([0; 32]);
    for (i, bytes) in block.0.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *bytes = weight(i).to_le_bytes();
    }
    block
}
