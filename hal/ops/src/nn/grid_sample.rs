//! `GridSample`: interpolation at given positions, over 1 to 3 spatial axes.
//!
//! * (C1) A coordinate in [-1, 1] spans the axis from centre to centre with `align_corners`, else from edge to edge.
//! * (C2) Positions outside are clamped (`border`), mirrored (`reflection`) or kept; elements outside are 0 (`zeros`).
//! * (C3) Nearest rounds ties to even before padding; cubic uses the coefficient -0.75 and pads each element.

use super::real::{Real, alloc, count, with_real};
use super::resample::cubic;
use crate::elementwise::sample::{case, f32s};
use crate::util::strides;
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, Attrs, Error, Node, Reason, Result, Tensor, TensorType};

/// Sampling at positions.
pub struct GridSample;

static SPEC: OpSpec = OpSpec {
    name: "GridSample",
    domain: "",
    since: 16,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("align_corners", AttrKind::Int),
        AttrSpec::optional("mode", AttrKind::Str),
        AttrSpec::optional("padding_mode", AttrKind::Str),
    ],
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// How coordinates are read.
struct Sampler {
    mode: Mode,
    padding: Padding,
    align: bool,
}

/// Index (`None` outside) and weight of the elements that one coordinate reads along one axis.
type AxisTaps = Vec<(Option<usize>, f64)>;

impl Sampler {
    fn parse(attrs: &Attrs) -> Result<Self> {
        let mode = match attrs.str("mode", "linear")? {
            "linear" | "bilinear" => Mode::Linear,
            "nearest" => Mode::Nearest,
            "cubic" | "bicubic" => Mode::Cubic,
            other => return Err(Error::invalid(format!("GridSample: mode `{other}` is not one of ONNX"))),
        };
        let padding = match attrs.str("padding_mode", "zeros")? {
            "zeros" => Padding::Zeros,
            "border" => Padding::Border,
            "reflection" => Padding::Reflection,
            other => return Err(Error::invalid(format!("GridSample: padding_mode `{other}` is not one of ONNX"))),
        };
        Ok(Self { mode, padding, align: attrs.int("align_corners", 0)? != 0 })
    }

    /// The range that positions are mirrored into.
    fn range(&self, n: f64) -> (f64, f64) {
        if self.align { (0.0, n - 1.0) } else { (-0.5, n - 0.5) }
    }

    /// (C2) A position after padding.
    fn pad(&self, x: f64, n: f64) -> f64 {
        let (lo, hi) = self.range(n);
        match self.padding {
            Padding::Border => x.clamp(0.0, n - 1.0),
            Padding::Reflection if !(lo..=hi).contains(&x) => reflect(x, lo, hi),
            _ => x,
        }
    }

    /// The elements that a grid value reads on an axis of `n > 0` elements. A value that is not finite reads nothing.
    fn taps(&self, value: f64, n: usize) -> AxisTaps {
        if !value.is_finite() {
            return vec![(None, 1.0)];
        }
        let extent = n as f64;
        let mut x =
            if self.align { (value + 1.0) / 2.0 * (extent - 1.0) } else { ((value + 1.0) * extent - 1.0) / 2.0 };
        if self.mode == Mode::Nearest {
            x = x.round_ties_even();
        }
        let outside = {
            let (lo, hi) = self.range(extent);
            x < lo || x > hi
        };
        if outside {
            x = self.pad(x, extent);
        }
        let inside = |p: f64| (0.0..=extent - 1.0).contains(&p).then_some(p as usize);
        let element = |p: f64| match self.padding {
            Padding::Zeros => inside(p),
            // A mirrored element is truncated towards the one that it falls into.
            _ => inside(self.pad(p, extent).trunc()),
        };
        let base = x.floor();
        let ratio = x - base;
        match self.mode {
            Mode::Nearest => vec![(element(x), 1.0)],
            Mode::Linear => vec![(element(base), 1.0 - ratio), (element(base + 1.0), ratio)],
            Mode::Cubic => {
                (-1..3).map(|k| (element(base + f64::from(k)), cubic((f64::from(k) - ratio).abs(), -0.75))).collect()
            }
        }
    }
}

/// Mirrors `x` into `[lo, hi]` as often as it takes.
fn reflect(x: f64, lo: f64, hi: f64) -> f64 {
    let range = hi - lo;
    if range <= 0.0 {
        return lo;
    }
    let below = x < lo;
    let distance = if below { lo - x } else { x - hi };
    let turns = (distance / range).floor();
    let rest = distance - turns * range;
    let from_near = turns % 2.0 == 0.0;
    if below == from_near { lo + rest } else { hi - rest }
}

/// Walks the product of the axes' taps: weight and flat index of each element inside.
fn blend(axes: &[AxisTaps], steps: &[usize], f: &mut impl FnMut(f64, usize), weight: f64, at: usize) {
    let Some((first, rest)) = axes.split_first() else { return f(weight, at) };
    for &(index, w) in first {
        if let Some(i) = index {
            blend(rest, &steps[1..], f, weight * w, at + i * steps[0]);
        }
    }
}

fn run<T: Real>(x: &Tensor, grid: &Tensor, sampler: &Sampler) -> Result<Tensor> {
    let (shape, positions) = (x.shape(), grid.shape());
    let wrong = || Error::invalid(format!("GridSample: grid {positions:?} on input {shape:?}"));
    let rank = shape.len().checked_sub(2).filter(|&r| r > 0).ok_or_else(wrong)?;
    if rank > 3 {
        return Err(Error::unsupported(Reason::Rank, format!("GridSample over {rank} axes; 1 to 3 are supported")));
    }
    let spatial = &shape[2..];
    let fits = positions.len() == rank + 2 && positions[0] == shape[0] && positions[rank + 1] == rank;
    if !fits || spatial.contains(&0) {
        return Err(wrong());
    }
    let mut out = shape[..2].to_vec();
    out.extend_from_slice(&positions[1..=rank]);
    let (plane, points) = (count(spatial)?, count(&positions[1..=rank])?);
    let (data, grid, steps) = (T::read(x)?, f64::read(grid)?, strides(spatial));
    let mut y = alloc::<T>(count(&out)?)?;
    for image in 0..shape[0] {
        for p in 0..points {
            let at = &grid[(image * points + p) * rank..][..rank];
            // The last axis comes first in a grid.
            let taps: Vec<AxisTaps> = (0..rank).map(|d| sampler.taps(at[rank - 1 - d], spatial[d])).collect();
            for c in 0..shape[1] {
                let source = &data[(image * shape[1] + c) * plane..][..plane];
                let mut sum = T::default();
                blend(&taps, &steps, &mut |w, i| sum += source[i] * T::of(w), 1.0, 0);
                y[(image * shape[1] + c) * points + p] = sum;
            }
        }
    }
    T::write(x.dtype(), &out, &y)
}

impl Op for GridSample {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (x, grid) = (cx.shape(0)?, cx.shape(1)?);
        if x.len() < 3 || grid.len() != x.len() {
            return Err(Error::invalid(format!("GridSample: grid of rank {} on rank {}", grid.len(), x.len())));
        }
        let mut dims = x[..2].to_vec();
        dims.extend_from_slice(&grid[1..grid.len() - 1]);
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let sampler = Sampler::parse(cx.attrs())?;
        let y = with_real!(x.dtype(), "GridSample", T => run::<T>(x, cx.input(1)?, &sampler))?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let node = |padding: &str| {
            let mut node = Node::new("grid", "GridSample", 22);
            node.attrs.set("padding_mode", Attr::Str(padding.into()));
            node
        };
        let x = f32s(&[1, 1, 2], &[2.0, 6.0]);
        // Edge to edge: -1 is half an element in front of the first.
        let grid = f32s(&[1, 3, 1], &[-1.0, 0.0, 0.5]);
        let y = |v: &[f32]| f32s(&[1, 1, 3], v);
        vec![
            case("c2_zeros", node("zeros"), &[x.clone(), grid.clone()], &[y(&[1.0, 4.0, 6.0])]),
            case("c2_border", node("border"), &[x, grid], &[y(&[2.0, 4.0, 6.0])]),
        ]
    }
}
