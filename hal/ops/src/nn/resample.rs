//! One-dimensional resampling: which input elements an output element reads, and with what weights.
//!
//! * (C1) Coordinates and weights are computed in f64; weights are then rounded to the arithmetic of the operator.
//! * (C2) Elements outside the axis repeat the edge, or have weight 0 with `exclude_outside`, weights renormalized.
//! * (C3) `antialias` stretches the filter by the scale when the axis shrinks.
//! * (C4) `tf_crop_and_resize` coordinates outside the axis take the extrapolation value.

use ottava_hal::{Error, Result};

/// The interpolation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// The nearest element.
    Nearest(Nearest),
    /// Between two elements.
    Linear,
    /// Between four elements, with this coefficient.
    Cubic(f64),
}

/// How a coordinate between two elements is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names are those of the attribute `nearest_mode`.
pub enum Nearest {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
}

/// How an output index becomes an input coordinate.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)] // The names are those of the attribute `coordinate_transformation_mode`.
pub enum Transform {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    /// With the region's start and end, relative to the axis.
    TfCropAndResize {
        start: f64,
        end: f64,
    },
}

/// The resampling of one axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AxisResample {
    /// Extent of the input.
    pub input: usize,
    /// Extent of the output.
    pub output: usize,
    /// Output extent per input extent, as given.
    pub scale: f64,
    /// The interpolation.
    pub mode: Mode,
    /// The coordinates.
    pub transform: Transform,
    /// (C3)
    pub antialias: bool,
    /// (C2)
    pub exclude_outside: bool,
}

/// What one output element reads.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Input index and weight of each tap, ascending.
    Taps(Vec<(usize, f64)>),
    /// The extrapolation value.
    Outside,
}

impl AxisResample {
    /// Whether the output equals the input.
    pub fn is_identity(&self) -> bool {
        let whole = !matches!(self.transform, Transform::TfCropAndResize { start, end } if start != 0.0 || end != 1.0);
        self.input == self.output && self.scale == 1.0 && whole
    }

    /// What every output element reads. The input must not be empty.
    pub fn sources(&self) -> Result<Vec<Source>> {
        if self.input == 0 {
            return Err(Error::invalid("an empty axis cannot be resized"));
        }
        (0..self.output).map(|i| self.source(self.coordinate(i as f64))).collect()
    }

    fn coordinate(&self, i: f64) -> f64 {
        let input = self.input as f64;
        let length = self.scale * input;
        let half_pixel = (i + 0.5) / self.scale - 0.5;
        match self.transform {
            Transform::HalfPixel => half_pixel,
            Transform::PytorchHalfPixel => {
                if length == 1.0 {
                    -0.5
                } else {
                    half_pixel
                }
            }
            Transform::HalfPixelSymmetric => input / 2.0 * (1.0 - self.output as f64 / length) + half_pixel,
            Transform::AlignCorners => {
                if length == 1.0 {
                    0.0
                } else {
                    i * (input - 1.0) / (length - 1.0)
                }
            }
            Transform::Asymmetric => i / self.scale,
            Transform::TfCropAndResize { start, end } => {
                let along = if length == 1.0 { 0.5 } else { i / (length - 1.0) };
                (start + along * (end - start)) * (input - 1.0)
            }
        }
    }

    fn source(&self, x: f64) -> Result<Source> {
        let last = (self.input - 1) as f64;
        if matches!(self.transform, Transform::TfCropAndResize { .. }) && !(0.0..=last).contains(&x) {
            return Ok(Source::Outside);
        }
        if !x.is_finite() {
            return Err(Error::invalid(format!("a resize scale of {} has no coordinates", self.scale)));
        }
        let base = x.floor();
        let ratio = x - base;
        let (first, mut weights) = match self.mode {
            Mode::Nearest(nearest) => (nearest.round(x) - base, vec![1.0]),
            Mode::Linear if self.antialias => self.stretched(1.0, ratio, |d| (1.0 - d).max(0.0))?,
            Mode::Cubic(a) if self.antialias => self.stretched(2.0, ratio, |d| cubic(d, a))?,
            Mode::Linear => (0.0, vec![1.0 - ratio, ratio]),
            Mode::Cubic(a) => (-1.0, (-1..3).map(|k| cubic((f64::from(k) - ratio).abs(), a)).collect()),
        };
        let at = |k: usize| base + first + k as f64;
        if self.exclude_outside {
            for (k, w) in weights.iter_mut().enumerate() {
                if !(0.0..=last).contains(&at(k)) {
                    *w = 0.0;
                }
            }
            normalize(&mut weights);
        }
        Ok(Source::Taps(weights.iter().enumerate().map(|(k, &w)| (at(k).clamp(0.0, last) as usize, w)).collect()))
    }

    /// (C3) A filter of `radius` elements, stretched where the axis shrinks.
    fn stretched(&self, radius: f64, ratio: f64, filter: impl Fn(f64) -> f64) -> Result<(f64, Vec<f64>)> {
        let scale = self.scale.min(1.0);
        let first = (-radius / scale).floor() + 1.0;
        let n = 2.0 * (radius / scale).ceil() + 1.0;
        if n > 2.0 * self.input as f64 + 64.0 * radius {
            return Err(Error::invalid(format!("a resize scale of {scale} needs a filter of {n} elements")));
        }
        let mut weights: Vec<f64> =
            (0..n as usize).map(|k| filter(((first + k as f64 - ratio) * scale).abs())).collect();
        normalize(&mut weights);
        Ok((first, weights))
    }
}

fn normalize(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    if sum != 0.0 {
        weights.iter_mut().for_each(|w| *w /= sum);
    }
}

/// The cubic convolution kernel at distance `d`.
pub(super) fn cubic(d: f64, a: f64) -> f64 {
    if d <= 1.0 {
        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    } else {
        0.0
    }
}

impl Nearest {
    fn round(self, x: f64) -> f64 {
        match self {
            Self::RoundPreferFloor => (x - 0.5).ceil(),
            Self::RoundPreferCeil => (x + 0.5).floor(),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(mode: Mode, transform: Transform, input: usize, output: usize) -> AxisResample {
        let scale = output as f64 / input as f64;
        AxisResample { input, output, scale, mode, transform, antialias: false, exclude_outside: false }
    }

    #[test]
    fn c2_linear_repeats_the_edge() {
        let sources = axis(Mode::Linear, Transform::HalfPixel, 2, 4).sources().unwrap();
        assert_eq!(sources[0], Source::Taps(vec![(0, 0.25), (0, 0.75)]));
        assert_eq!(sources[1], Source::Taps(vec![(0, 0.75), (1, 0.25)]));
    }

    #[test]
    fn nearest_ties_go_by_name() {
        for (nearest, expect) in
            [(Nearest::RoundPreferFloor, 1), (Nearest::RoundPreferCeil, 2), (Nearest::Floor, 1), (Nearest::Ceil, 2)]
        {
            let sources = axis(Mode::Nearest(nearest), Transform::Asymmetric, 4, 8).sources().unwrap();
            assert_eq!(sources[3], Source::Taps(vec![(expect, 1.0)]), "{nearest:?}");
        }
    }

    #[test]
    fn c3_a_filter_larger_than_the_axis_allows_is_refused() {
        let mut a = axis(Mode::Linear, Transform::HalfPixel, 4, 1);
        (a.antialias, a.scale) = (true, 1e-12);
        assert!(a.sources().is_err());
    }
}
