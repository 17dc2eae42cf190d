//! Bias and activation of f32 outputs, and storing a tile.

use alloc::vec::Vec;

use crate::arith::clip;
use crate::float::TileF32;
use crate::gemm::COLS;
use crate::shared_out::SharedOut;
use crate::vectorize::Vectorize;

/// Bias and activation.
pub(crate) struct FinishF32 {
    /// One value per channel and a panel of zeros.
    bias: Option<Vec<f32>>,
    lo: f32,
    hi: f32,
}

impl FinishF32 {
    pub(crate) fn new(bias: Option<&[f32]>, lo: f32, hi: f32) -> Self {
        let padded = |bias: &[f32]| bias.iter().copied().chain([0.0; COLS]).collect();
        Self { bias: bias.map(padded), lo, hi }
    }

    /// Turns the accumulators of channels `first ..` into outputs.
    #[inline(always)]
    pub(crate) fn apply<const N: usize>(&self, acc: &mut [f32; N], first: usize) {
        if let Some(bias) = &self.bias {
            let bias: &[f32; N] = bias[first..].first_chunk().expect("the bias is padded by a panel");
            for (acc, bias) in acc.iter_mut().zip(bias) {
                *acc += bias;
            }
        }
        for acc in acc {
            *acc = clip(*acc, self.lo, self.hi);
        }
    }
}

/// Stores a tile. Built by a task that owns the given channels of the given pixels alone.
pub(crate) struct StoreTile<'a> {
    pub(crate) finish: &'a FinishF32,
    pub(crate) tile: &'a TileF32,
    /// Output pixels of the tile's rows.
    pub(crate) pixels: &'a [usize],
    /// Output channels in all.
    pub(crate) stride: usize,
    pub(crate) channel: usize,
    pub(crate) cols: usize,
    pub(crate) out: &'a SharedOut<'a, f32>,
}

impl Vectorize for StoreTile<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (sums, pixel) in self.tile.0.iter().zip(self.pixels) {
            let mut values = *sums;
            self.finish.apply(&mut values, self.channel);
            // SAFETY: the task owns these channels of this pixel alone (contract of the type), one pixel at a time.
            let to = unsafe { self.out.part(pixel * self.stride + self.channel, self.cols) };
            if let Some(whole) = to.first_chunk_mut::<COLS>() {
                *whole = values;
            } else {
                store_some(to, &values);
            }
        }
    }
}

/// The columns of a last, partial panel. Out of line: merged with the constant-width copy, both would become a call to `memcpy`.
#[cold]
#[inline(never)]
fn store_some(to: &mut [f32], values: &[f32; COLS]) {
    let n = to.len();
    to.copy_from_slice(&values[..n]);
}
