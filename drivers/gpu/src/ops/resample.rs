//! Which input elements an output element of a resampled axis reads, and with what weights. Coordinates and weights are
//! computed in f64, weights then rounded to f32 once; elements outside the axis repeat the edge.

use super::types::refuse;
use ottava_hal::{Attrs, Reason, Result};

/// How a coordinate becomes elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mode {
    /// The nearest element, by this rule.
    Nearest(fn(f64) -> f64),
    /// Between two elements.
    Linear,
    /// Between four, with this coefficient.
    Cubic(f64),
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

impl Mode {
    /// The mode of a node.
    pub fn parse(attrs: &Attrs) -> Result<Self> {
        let nearest = attrs.str("nearest_mode", "round_prefer_floor")?;
        Ok(match (attrs.str("mode", "nearest")?, nearest) {
            ("linear" | "bilinear", _) => Self::Linear,
            ("cubic", _) => Self::Cubic(attrs.float("cubic_coeff_a", -0.75)?.into()),
            ("nearest", "round_prefer_floor" | "") => Self::Nearest(|x| (x - 0.5).ceil()),
            ("nearest", "round_prefer_ceil") => Self::Nearest(|x| (x + 0.5).floor()),
            ("nearest", "floor") => Self::Nearest(f64::floor),
            ("nearest", "ceil") => Self::Nearest(f64::ceil),
            (mode, _) => return refuse(Reason::AttrValue, format!("mode `{mode}`, nearest `{nearest}`")),
        })
    }
}

impl Transform {
    /// The coordinates of a node.
    pub fn parse(attrs: &Attrs) -> Result<Self> {
        Ok(match attrs.str("coordinate_transformation_mode", "half_pixel")? {
            "half_pixel" | "" => Self::HalfPixel,
            "half_pixel_symmetric" => Self::HalfPixelSymmetric,
            "pytorch_half_pixel" => Self::PytorchHalfPixel,
            "align_corners" => Self::AlignCorners,
            "asymmetric" => Self::Asymmetric,
            other => return refuse(Reason::AttrValue, format!("coordinates `{other}`")),
        })
    }
}

/// One resampled axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resampled {
    /// Extent of the input, above 0.
    pub input: usize,
    /// Extent of the output.
    pub output: usize,
    /// Output extent per input extent, as given.
    pub scale: f64,
    /// The coordinates.
    pub transform: Transform,
}

impl Resampled {
    /// Whether the output equals the input.
    pub fn is_identity(&self) -> bool {
        self.input == self.output && self.scale == 1.0
    }

    /// The input element that each output element repeats.
    pub fn nearest(&self, rule: fn(f64) -> f64) -> Result<Vec<usize>> {
        (0..self.output).map(|i| Ok(self.inside(rule(self.coordinate(i)?)))).collect()
    }

    /// Position and weight of the taps of every output, equally many each.
    pub fn taps(&self, mode: Mode) -> Result<(usize, Vec<(usize, f32)>)> {
        let mut taps = Vec::new();
        for i in 0..self.output {
            let x = self.coordinate(i)?;
            let (base, ratio) = (x.floor(), x - x.floor());
            let tap = |k: i32, w: f64| (self.inside(base + f64::from(k)), w as f32);
            match mode {
                Mode::Cubic(a) => {
                    taps.extend((-1..3).map(|k| tap(k, cubic((f64::from(k) - ratio).abs(), a))));
                }
                _ => taps.extend([tap(0, 1.0 - ratio), tap(1, ratio)]),
            }
        }
        Ok((if let Mode::Cubic(_) = mode { 4 } else { 2 }, taps))
    }

    fn inside(&self, x: f64) -> usize {
        x.clamp(0.0, self.input.saturating_sub(1) as f64) as usize
    }

    fn coordinate(&self, i: usize) -> Result<f64> {
        let (i, input) = (i as f64, self.input as f64);
        let length = self.scale * input;
        let half_pixel = (i + 0.5) / self.scale - 0.5;
        let x = match self.transform {
            Transform::PytorchHalfPixel if length == 1.0 => -0.5,
            Transform::HalfPixel | Transform::PytorchHalfPixel => half_pixel,
            Transform::HalfPixelSymmetric => input / 2.0 * (1.0 - self.output as f64 / length) + half_pixel,
            Transform::AlignCorners if length == 1.0 => 0.0,
            Transform::AlignCorners => i * (input - 1.0) / (length - 1.0),
            Transform::Asymmetric => i / self.scale,
        };
        if x.is_finite() { Ok(x) } else { refuse(Reason::AttrValue, format!("scale {}", self.scale)) }
    }
}

/// The cubic convolution kernel at distance `d`.
fn cubic(d: f64, a: f64) -> f64 {
    if d <= 1.0 {
        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_repeats_the_edge() {
        let axis = Resampled { input: 2, output: 4, scale: 2.0, transform: Transform::HalfPixel };
        let (n, taps) = axis.taps(Mode::Linear).unwrap();
        assert_eq!((n, &taps[..4]), (2, &[(0, 0.25), (0, 0.75), (0, 0.75), (1, 0.25)][..]));
    }

    #[test]
    fn coordinates_that_are_no_numbers_are_refused() {
        let axis = Resampled { input: 2, output: 2, scale: 0.0, transform: Transform::Asymmetric };
        assert!(axis.taps(Mode::Linear).is_err() && !axis.is_identity());
    }
}
