//! Which input elements an output element of a resampled axis reads, and with what weights: nearest and linear.
//!
//! Coordinates are computed in f64 and weights rounded to f32 once, as the operator's definition says; elements outside the
//! axis repeat the edge.

use ottava_hal::{Attrs, Error, Result};

/// How a coordinate becomes an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The nearest element.
    Nearest(Nearest),
    /// Between the two elements around it.
    Linear,
}

/// How a coordinate between two elements is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearest {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
}

/// How an output index becomes an input coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transform {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
}

/// Two input elements and their weights.
pub(super) type Taps = [(usize, f32); 2];

/// One resampled axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resampled {
    /// Extent of the input, above 0.
    pub(super) input: usize,
    /// Extent of the output.
    pub(super) output: usize,
    /// Output extent per input extent, as given.
    pub(super) scale: f64,
    /// The coordinates.
    pub(super) transform: Transform,
}

impl Mode {
    /// The mode of a node.
    pub(super) fn parse(attrs: &Attrs) -> Result<Self> {
        Ok(match (attrs.str("mode", "nearest")?, attrs.str("nearest_mode", "round_prefer_floor")?) {
            ("linear" | "bilinear", _) => Self::Linear,
            ("nearest", "round_prefer_floor" | "") => Self::Nearest(Nearest::PreferFloor),
            ("nearest", "round_prefer_ceil") => Self::Nearest(Nearest::PreferCeil),
            ("nearest", "floor") => Self::Nearest(Nearest::Floor),
            ("nearest", "ceil") => Self::Nearest(Nearest::Ceil),
            (mode, nearest) => return Err(Error::invalid(format!("no kernel resizes by `{mode}`, `{nearest}`"))),
        })
    }
}

impl Transform {
    /// The coordinates of a node.
    pub(super) fn parse(attrs: &Attrs) -> Result<Self> {
        Ok(match attrs.str("coordinate_transformation_mode", "half_pixel")? {
            "half_pixel" | "" => Self::HalfPixel,
            "half_pixel_symmetric" => Self::HalfPixelSymmetric,
            "pytorch_half_pixel" => Self::PytorchHalfPixel,
            "align_corners" => Self::AlignCorners,
            "asymmetric" => Self::Asymmetric,
            other => return Err(Error::invalid(format!("no kernel resizes in coordinates `{other}`"))),
        })
    }
}

impl Nearest {
    fn round(self, x: f64) -> f64 {
        match self {
            Self::PreferFloor => (x - 0.5).ceil(),
            Self::PreferCeil => (x + 0.5).floor(),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
        }
    }
}

impl Resampled {
    /// Whether the output equals the input.
    pub(super) fn is_identity(&self) -> bool {
        self.input == self.output && self.scale == 1.0
    }

    /// Whether every coordinate is a number.
    pub(super) fn is_finite(&self) -> bool {
        self.input > 0 && (0..self.output).all(|i| self.coordinate(i as f64).is_finite())
    }

    /// The input element that each output element repeats.
    pub(super) fn nearest(&self, nearest: Nearest) -> Vec<usize> {
        (0..self.output).map(|i| self.inside(nearest.round(self.coordinate(i as f64)))).collect()
    }

    /// What each output element lies between.
    pub(super) fn linear(&self) -> Vec<Taps> {
        let taps = |i: usize| {
            let x = self.coordinate(i as f64);
            let (base, ratio) = (x.floor(), x - x.floor());
            [(self.inside(base), (1.0 - ratio) as f32), (self.inside(base + 1.0), ratio as f32)]
        };
        (0..self.output).map(taps).collect()
    }

    fn inside(&self, x: f64) -> usize {
        x.clamp(0.0, self.input.saturating_sub(1) as f64) as usize
    }

    fn coordinate(&self, i: f64) -> f64 {
        let input = self.input as f64;
        let length = self.scale * input;
        let half_pixel = (i + 0.5) / self.scale - 0.5;
        match self.transform {
            Transform::HalfPixel => half_pixel,
            Transform::PytorchHalfPixel if length == 1.0 => -0.5,
            Transform::PytorchHalfPixel => half_pixel,
            Transform::HalfPixelSymmetric => input / 2.0 * (1.0 - self.output as f64 / length) + half_pixel,
            Transform::AlignCorners if length == 1.0 => 0.0,
            Transform::AlignCorners => i * (input - 1.0) / (length - 1.0),
            Transform::Asymmetric => i / self.scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_repeats_the_edge() {
        let axis = Resampled { input: 2, output: 4, scale: 2.0, transform: Transform::HalfPixel };
        assert_eq!(axis.linear()[..2], [[(0, 0.25), (0, 0.75)], [(0, 0.75), (1, 0.25)]]);
    }

    #[test]
    fn ties_go_by_name() {
        let axis = Resampled { input: 4, output: 8, scale: 2.0, transform: Transform::Asymmetric };
        let third = |n: Nearest| axis.nearest(n)[3];
        assert_eq!([Nearest::PreferFloor, Nearest::PreferCeil, Nearest::Floor, Nearest::Ceil].map(third), [1, 2, 1, 2]);
    }

    #[test]
    fn coordinates_that_are_no_numbers_are_seen() {
        let axis = Resampled { input: 2, output: 2, scale: 0.5, transform: Transform::AlignCorners };
        assert!(axis.is_finite() && !Resampled { scale: 0.0, ..axis }.is_identity());
        assert!(!Resampled { scale: 0.0, transform: Transform::Asymmetric, ..axis }.is_finite());
    }
}
