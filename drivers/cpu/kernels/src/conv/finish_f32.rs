//! What becomes of f32 sums: bias, residual, activation, and where they go.

use alloc::vec::Vec;

use crate::arith::clip;
use crate::gemm::COLS;
use crate::shared_out::SharedOut;

/// Bias and activation of a plan.
pub(crate) struct FinishPlan {
    /// One value per channel and a panel of zeros.
    bias: Option<Vec<f32>>,
    lo: f32,
    hi: f32,
}

impl FinishPlan {
    pub(crate) fn new(bias: Option<&[f32]>, lo: f32, hi: f32) -> Self {
        let padded = |bias: &[f32]| bias.iter().copied().chain([0.0; COLS]).collect();
        Self { bias: bias.map(padded), lo, hi }
    }

    /// The bias, if there is one, and zeros for a panel behind it.
    pub(crate) fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// Lower and upper bound.
    pub(crate) fn bounds(&self) -> [f32; 2] {
        [self.lo, self.hi]
    }

    /// For sixteen channels from `channel` on; `residual` lies as the output does.
    #[inline]
    pub(crate) fn panel<'a>(&'a self, channel: usize, residual: Option<&'a [f32]>) -> FinishF32<'a> {
        let bias = self.bias.as_ref().map(|b| b[channel..].first_chunk().expect("the bias is padded by a panel"));
        FinishF32 { bias, residual, lo: self.lo, hi: self.hi }
    }
}

/// Bias, residual and activation of sixteen channels.
#[derive(Clone, Copy)]
pub(crate) struct FinishF32<'a> {
    pub(crate) bias: Option<&'a [f32; COLS]>,
    /// Added after the bias; laid out as the output.
    pub(crate) residual: Option<&'a [f32]>,
    pub(crate) lo: f32,
    pub(crate) hi: f32,
}

impl FinishF32<'_> {
    /// Turns a pixel's sums into its outputs, of which there are `cols`, the first one at `at` in the output.
    #[inline(always)]
    pub(crate) fn apply(&self, sums: &mut [f32; COLS], at: usize, cols: usize) {
        if let Some(bias) = self.bias {
            sums.iter_mut().zip(bias).for_each(|(sum, bias)| *sum += bias);
        }
        if let Some(residual) = self.residual {
            sums.iter_mut().zip(&residual[at..at + cols]).for_each(|(sum, other)| *sum += other);
        }
        sums.iter_mut().for_each(|sum| *sum = clip(*sum, self.lo, self.hi));
    }
}

/// Channels of a panel in the output. Built by a task that owns them alone in the pixels it works on.
#[derive(Clone, Copy)]
pub(crate) struct OutF32<'a> {
    pub(crate) out: &'a SharedOut<'a, f32>,
    /// First channel of pixel 0.
    pub(crate) base: usize,
    /// Elements from one pixel to the next.
    pub(crate) stride: usize,
    /// Channels, 1 to 16.
    pub(crate) cols: usize,
}

impl OutF32<'_> {
    /// Index in the output of the panel's first channel in `pixel`.
    #[inline(always)]
    pub(crate) fn at(&self, pixel: u32) -> usize {
        self.base + pixel as usize * self.stride
    }

    /// The channels of one pixel.
    #[inline(always)]
    pub(crate) fn part(&mut self, at: usize) -> &mut [f32] {
        // SAFETY: the task owns these channels alone (contract of the type), and the borrow of `self` keeps it to one pixel at a time.
        unsafe { self.out.part(at, self.cols) }
    }

    /// The channels of one pixel as a panel row; zeros behind the last.
    #[inline(always)]
    pub(crate) fn load(&mut self, at: usize) -> [f32; COLS] {
        let from = self.part(at);
        if let Some(whole) = from.first_chunk() {
            return *whole;
        }
        let mut sums = [0.0; COLS];
        sums.iter_mut().zip(from).for_each(|(sum, from)| *sum = *from);
        sums
    }

    /// Stores a pixel.
    #[inline(always)]
    pub(crate) fn store(&mut self, at: usize, values: &[f32; COLS]) {
        let to = self.part(at);
        if let Some(whole) = to.first_chunk_mut() {
            *whole = *values;
        } else {
            store_some(to, values);
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
