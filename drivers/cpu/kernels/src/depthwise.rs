//! Packed depthwise filters: per block of sixteen channels, taps two by two as 16-bit weights.
//!
//! Two taps' channels are interleaved and widened to 16 bits, so that `vpmaddwd` adds both taps' products per channel in 32 bits:
//! exact for every u8 activation and every weight in -255..=255, for any window.

use crate::error::{KernelError, Result};
use crate::gemm::{Block, COLS};

/// Filters of all channels.
pub(crate) struct DepthwiseB {
    /// Two blocks per pair of taps and block of channels: `[channel][tap of the pair]` as i16.
    weights: Vec<[Block; 2]>,
    /// Two offsets per pair; an odd last tap is paired with itself at weight 0.
    offsets: Vec<[u32; 2]>,
    max_offset: usize,
}

/// Filters of sixteen channels.
#[derive(Clone, Copy)]
pub(crate) struct DepthwisePanel<'a> {
    pub(crate) weights: &'a [[Block; 2]],
    pub(crate) offsets: &'a [[u32; 2]],
    pub(crate) max_offset: usize,
}

impl DepthwiseB {
    /// Packs `weight(tap, channel)` of taps that read at `taps[tap]` bytes from the pixel's first one; channels beyond `channels` get 0.
    pub(crate) fn pack(taps: &[usize], channels: usize, weight: &dyn Fn(usize, usize) -> i16) -> Result<Self> {
        let max_offset = taps.iter().copied().fold(0, usize::max);
        if u32::try_from(max_offset).is_err() {
            return Err(KernelError::Overflow { what: "the extent of a depthwise window in bytes" });
        }
        let second = |pair: usize| if pair * 2 + 1 < taps.len() { pair * 2 + 1 } else { pair * 2 };
        let n_pairs = taps.len().div_ceil(2);
        let offsets = (0..n_pairs).map(|p| [p * 2, second(p)].map(|t| taps[t] as u32)).collect();
        let get = |tap: usize, c: usize| if tap < taps.len() && c < channels { weight(tap, c) } else { 0 };
        let mut weights = Vec::with_capacity(n_pairs * channels.div_ceil(COLS));
        for first in (0..channels).step_by(COLS) {
            for p in 0..n_pairs {
                weights.push([0, 8].map(|half| pair_block(|i| get(p * 2 + i % 2, first + half + i / 2))));
            }
        }
        Ok(Self { weights, offsets, max_offset })
    }

    pub(crate) fn max_offset(&self) -> usize {
        self.max_offset
    }

    pub(crate) fn bytes(&self) -> usize {
        self.weights.len() * 64 + self.offsets.len() * 8
    }

    /// Channels `16 * index ..`.
    pub(crate) fn block(&self, index: usize) -> DepthwisePanel<'_> {
        let n = self.offsets.len();
        DepthwisePanel { weights: &self.weights[index * n..][..n], offsets: &self.offsets, max_offset: self.max_offset }
    }
}

fn pair_block(weight: impl Fn(usize) -> i16) -> Block {
    let mut block = Block([0; 32]);
    for (i, bytes) in block.0.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *bytes = weight(i).to_le_bytes();
    }
    block
}
