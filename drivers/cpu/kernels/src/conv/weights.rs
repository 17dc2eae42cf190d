//! Weights as the caller holds them: element type, layout, zero points.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::shape::{ConvShape, Geometry};
use crate::error::{KernelError, Result, check_len};

/// Order of the weight tensor. `I` counts the input channels of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightLayout {
    /// ONNX convolution: `[out][in][h][w]`.
    Oihw,
    /// TFLite convolution, and a matrix `[N][K]`: `[out][h][w][in]`.
    Ohwi,
    /// TFLite depthwise, and a matrix `[K][N]`: `[h][w][in][out]`.
    Hwio,
}

impl WeightLayout {
    /// A matrix `[K][N]`.
    pub const KN: Self = Self::Hwio;
    /// A matrix `[N][K]`.
    pub const NK: Self = Self::Ohwi;

    /// Where each weight of an output channel lies, in k order.
    pub(crate) fn index(self, s: &ConvShape) -> WeightIndex {
        let ([kh, kw], n_in) = (s.kernel, s.in_c / s.groups);
        let at = |y: usize, x: usize, ci: usize| match self {
            Self::Oihw => (ci * kh + y) * kw + x,
            Self::Ohwi => (y * kw + x) * n_in + ci,
            Self::Hwio => ((y * kw + x) * n_in + ci) * s.out_c,
        };
        let taps = (0..kh).flat_map(|y| (0..kw).map(move |x| (y, x)));
        let at = taps.flat_map(|(y, x)| (0..n_in).map(move |ci| (y, x, ci))).map(|(y, x, ci)| at(y, x, ci)).collect();
        let channel = if self == Self::Hwio { 1 } else { kh * kw * n_in };
        WeightIndex { at, channel }
    }
}

/// Index of a weight: k runs over (kernel row, kernel column, input channel of the group).
pub(crate) struct WeightIndex {
    at: Vec<usize>,
    channel: usize,
}

impl WeightIndex {
    /// Index of weight `k` of output channel `co`.
    pub(crate) fn of(&self, k: usize, co: usize) -> usize {
        self.at[k] + co * self.channel
    }
}

/// Weights of eight or four bits.
#[derive(Clone, Copy, Debug)]
pub enum WeightData<'a> {
    /// Signed.
    S8(&'a [i8]),
    /// Unsigned.
    U8(&'a [u8]),
    /// Signed in four bits, -8..=7, two per byte, the first in the low half.
    S4(&'a [u8]),
}

/// A weight tensor.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// The elements.
    pub data: WeightData<'a>,
    /// Their order.
    pub layout: WeightLayout,
    /// Zero points in the elements' own range: none (0), one, or one per output channel.
    pub zero_points: &'a [i32],
}

impl Weights<'_> {
    pub(crate) fn check(&self, shape: &ConvShape, geometry: &Geometry) -> Result<()> {
        let (len, expected, range) = match self.data {
            WeightData::S8(w) => (w.len(), geometry.n_weights, -128..=127),
            WeightData::U8(w) => (w.len(), geometry.n_weights, 0..=255),
            WeightData::S4(w) => (w.len(), geometry.n_weights.div_ceil(2), -8..=7),
        };
        check_len("the weights", len, expected)?;
        if self.zero_points.len() > 1 {
            check_len("the weight zero points", self.zero_points.len(), shape.out_c)?;
        }
        match self.zero_points.iter().find(|z| !range.contains(*z)) {
            Some(z) => Err(KernelError::Parameter { what: format!("weight zero point {z}, expected {range:?}") }),
            None => Ok(()),
        }
    }

    /// Weight at `index` of output channel `co` minus its zero point, -255..=255; `check` must have passed.
    pub(crate) fn get(&self, index: usize, co: usize) -> i16 {
        let zero = match self.zero_points {
            [] => 0,
            [one] => *one,
            many => many[co],
        };
        let value = match self.data {
            WeightData::S8(w) => i32::from(w[index]),
            WeightData::U8(w) => i32::from(w[index]),
            WeightData::S4(w) => i32::from(((w[index / 2] >> (index % 2 * 4)) << 4) as i8 >> 4),
        };
        (value - zero) as i16
    }

    /// Writes the weights of some output channels as `[k][channel]`.
    pub(crate) fn read<const N: usize>(&self, index: &WeightIndex, channels: Range<usize>, to: &mut [[i16; N]]) {
        for (k, row) in to.iter_mut().enumerate() {
            for (co, to) in channels.clone().zip(row) {
                *to = self.get(index.of(k, co), co);
            }
        }
    }

    /// Sum of each output channel's weights: the coefficient of the input zero point.
    pub(crate) fn channel_sums(&self, s: &ConvShape, g: &Geometry) -> Vec<i32> {
        let index = self.layout.index(s);
        let sum = |co| (0..g.k).fold(0i32, |sum, k| sum.wrapping_add(i32::from(self.get(index.of(k, co), co))));
        (0..s.out_c).map(sum).collect()
    }
}
