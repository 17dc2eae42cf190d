//! The bias operand of a product: where it lies, as reals or as integers at the accumulator's scale.

use super::product::Channels;
use ottava_hal::{QuantParams, Tensor};

/// Where the bias of a flat output index lies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BiasIndex {
    /// One value per output channel.
    PerChannel,
    /// `row * strides.0 + column * strides.1` of a matrix with this many columns.
    Matrix {
        /// Columns of the output.
        columns: usize,
        /// Steps per row and per column, 0 where the bias repeats.
        strides: (usize, usize),
    },
}

impl BiasIndex {
    /// The bias index of flat output index `i`.
    pub fn of(self, i: usize, channels: Channels) -> usize {
        match self {
            Self::PerChannel => channels.of(i),
            Self::Matrix { columns, strides } => i / columns * strides.0 + i % columns * strides.1,
        }
    }

    /// The output channel of bias element `i`.
    pub(super) fn channel(self, i: usize, extent: usize) -> usize {
        match self {
            Self::PerChannel => i,
            Self::Matrix { strides: (_, 0), .. } => 0,
            Self::Matrix { .. } => i % extent.max(1),
        }
    }
}

/// A bias operand.
pub(crate) struct Bias<'a> {
    /// Data.
    pub tensor: &'a Tensor,
    /// Its quantization; integers without one are at the accumulator's scale.
    pub params: Option<&'a QuantParams>,
    /// Where it belongs.
    pub index: BiasIndex,
}

/// A bias that is added to the real result.
pub(super) struct FloatBias {
    /// Data.
    pub values: Vec<f32>,
    /// Where it belongs.
    pub index: BiasIndex,
}

/// A bias inside the accumulator.
pub(super) struct IntBias {
    /// Data.
    pub values: Vec<i64>,
    /// They came with 32 bits each; TFLite then accumulates in 32 bits.
    pub is_narrow: bool,
    /// Where it belongs.
    pub index: BiasIndex,
    /// The channels of the output.
    pub channels: Channels,
}

impl IntBias {
    /// Least and greatest bias of a channel.
    pub fn range(&self, c: usize) -> (i64, i64) {
        if let BiasIndex::PerChannel = self.index {
            let b = self.values.get(c).copied().unwrap_or(0);
            return (b, b);
        }
        let fold = |f: fn(i64, i64) -> i64| self.values.iter().copied().reduce(f).unwrap_or(0);
        (fold(i64::min), fold(i64::max))
    }
}

/// Adds the bias to every sum.
pub(super) fn add_bias<T: Copy>(out: &mut [T], bias: Option<&IntBias>, add: impl Fn(T, i64) -> T) {
    if let Some(b) = bias {
        for (i, acc) in out.iter_mut().enumerate() {
            *acc = add(*acc, b.values[b.index.of(i, b.channels)]);
        }
    }
}
