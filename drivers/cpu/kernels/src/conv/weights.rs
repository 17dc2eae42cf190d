//! Weights as the caller holds them: element type, layout, zero points.

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

    /// Index of the weight at kernel row `y`, column `x`, input channel `ci` of the group, output channel `co`.
    pub(crate) fn index(self, s: &ConvShape, [y, x]: [usize; 2], ci: usize, co: usize) -> usize {
        let ([kh, kw], n_in) = (s.kernel, s.in_c / s.groups);
        match self {
            Self::Oihw => ((co * n_in + ci) * kh + y) * kw + x,
            Self::Ohwi => ((co * kh + y) * kw + x) * n_in + ci,
            Self::Hwio => ((y * kw + x) * n_in + ci) * s.out_c + co,
        }
    }
}

/// 8-bit weights.
#[derive(Clone, Copy, Debug)]
pub enum WeightData<'a> {
    /// Signed.
    S8(&'a [i8]),
    /// Unsigned.
    U8(&'a [u8]),
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
        let (len, range) = match self.data {
            WeightData::S8(w) => (w.len(), -128..=127),
            WeightData::U8(w) => (w.len(), 0..=255),
        };
        check_len("the weights", len, geometry.n_weights)?;
        if self.zero_points.len() > 1 {
            check_len("the weight zero points", self.zero_points.len(), shape.out_c)?;
        }
        match self.zero_points.iter().find(|z| !range.contains(*z)) {
            Some(z) => Err(KernelError::Parameter { what: format!("weight zero point {z}, expected {range:?}") }),
            None => Ok(()),
        }
    }

    /// Weight minus zero point, -255..=255. Indices as in [`WeightLayout::index`]; `check` must have passed.
    pub(crate) fn get(&self, s: &ConvShape, yx: [usize; 2], ci: usize, co: usize) -> i16 {
        let at = self.layout.index(s, yx, ci, co);
        let zero = match self.zero_points {
            [] => 0,
            [one] => *one,
            many => many[co],
        };
        let value = match self.data {
            WeightData::S8(w) => i32::from(w[at]),
            WeightData::U8(w) => i32::from(w[at]),
        };
        (value - zero) as i16
    }
}
