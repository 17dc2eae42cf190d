//! `RoiAlign`: regions of feature maps, sampled between the elements and pooled to one size.
//!
//! * (C1) A region is scaled, and moved by half an element with `half_pixel`; without, it is at least 1 wide and high.
//!   Each step is rounded to f32 (f64 for f64 tensors): an extent just above a whole number would get one sample more.
//! * (C2) Each bin has `sampling_ratio` samples per axis, or as many as its extent rounded up; bilinear in f64.
//! * (C3) `avg` is the mean of the samples; `max` the greatest product of an element and its weight.

use super::planar::taps;
use super::real::{Real, alloc, count, with_real};
use crate::elementwise::sample::{case, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Reason, Result, Tensor, TensorType};

/// The operator.
pub struct RoiAlign;

/// Samples per axis of a bin; a region of any size can ask for any number.
const MAX_SAMPLES: f64 = 1024.0;

static SPEC: OpSpec = OpSpec {
    name: "RoiAlign",
    domain: "",
    since: 10,
    inputs: (3, 3),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("coordinate_transformation_mode", AttrKind::Str),
        AttrSpec::optional("mode", AttrKind::Str),
        AttrSpec::optional("output_height", AttrKind::Int),
        AttrSpec::optional("output_width", AttrKind::Int),
        AttrSpec::optional("sampling_ratio", AttrKind::Int),
        AttrSpec::optional("spatial_scale", AttrKind::Float),
    ],
};

/// Attributes of a node.
struct Form {
    half_pixel: bool,
    max: bool,
    /// Bins along both axes.
    out: [usize; 2],
    ratio: f64,
    scale: f64,
    /// Rounds to the type of the tensors.
    round: fn(f64) -> f64,
}

impl Form {
    fn parse(attrs: &Attrs) -> Result<Self> {
        let wrong = |name: &str| Error::invalid(format!("RoiAlign: `{name}` is not what ONNX allows"));
        let flag = |name: &str, default: &str, yes: &str, no: &str| match attrs.str(name, default)? {
            found if found == yes => Ok(true),
            found if found == no => Ok(false),
            _ => Err(wrong(name)),
        };
        let extent = |name| usize::try_from(attrs.int(name, 1)?).map_err(|_| wrong(name));
        let ratio = attrs.int("sampling_ratio", 0)?;
        if ratio < 0 {
            return Err(wrong("sampling_ratio"));
        }
        let mode = "coordinate_transformation_mode";
        Ok(Self {
            half_pixel: flag(mode, "half_pixel", "half_pixel", "output_half_pixel")?,
            max: flag("mode", "avg", "max", "avg")?,
            out: [extent("output_height")?, extent("output_width")?],
            ratio: ratio as f64,
            scale: attrs.float("spatial_scale", 1.0)?.into(),
            round: |v| f64::from(v as f32),
        })
    }

    /// (C1) (C2) First position, extent of a bin and number of samples in it along one axis.
    fn axis(&self, from: f64, to: f64, bins: usize) -> Result<(f64, f64, usize)> {
        let offset = if self.half_pixel { 0.5 } else { 0.0 };
        let round = self.round;
        let corner = |v: f64| round(round(v * self.scale) - offset);
        let start = corner(from);
        let mut size = round(corner(to) - start);
        if !self.half_pixel {
            size = size.max(1.0);
        }
        let bin = round(size / bins as f64);
        let samples = if self.ratio > 0.0 { self.ratio } else { bin.ceil().max(0.0) };
        if !start.is_finite() || samples.is_nan() || samples > MAX_SAMPLES {
            let what = format!("RoiAlign: a bin of {samples} samples per axis; at most {MAX_SAMPLES} are supported");
            return Err(Error::unsupported(Reason::ShapeLimit, what));
        }
        Ok((start, bin, samples as usize))
    }
}

impl Op for RoiAlign {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (x, rois) = (cx.shape(0)?, cx.shape(1)?);
        let ([_, channels, _, _], [n, _]) = (x, rois) else {
            return Err(Error::invalid(format!("RoiAlign: regions of rank {} on rank {}", rois.len(), x.len())));
        };
        let [h, w] = Form::parse(cx.attrs())?.out;
        Ok(vec![cx.ty(cx.dtype(0)?, vec![n.clone(), channels.clone(), Dim::Known(h), Dim::Known(w)])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let mut form = Form::parse(cx.attrs())?;
        if x.dtype() == DataType::F64 {
            form.round = |v| v;
        }
        let y = with_real!(x.dtype(), "RoiAlign", T => run::<T>(cx, x, &form))?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let node = |mode: &str| {
            let mut node = Node::new("roi", "RoiAlign", 16);
            node.attrs.set("mode", Attr::Str(mode.into()));
            node.attrs.set("sampling_ratio", Attr::Int(1));
            node
        };
        let x = f32s(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 6.0]);
        // The middle of the region is the corner that all four elements share.
        let inputs = [x, f32s(&[1, 4], &[0.0, 0.0, 2.0, 2.0]), ints(DataType::S64, &[1], &[0])];
        let run = |name, mode, y| case(name, node(mode), &inputs, &[f32s(&[1, 1, 1, 1], &[y])]);
        vec![run("c3_mean", "avg", 3.0), run("c3_max_of_products", "max", 1.5)]
    }
}

fn run<T: Real>(cx: &EvalCx, x: &Tensor, form: &Form) -> Result<Tensor> {
    let (rois, batches) = (cx.input(1)?, cx.input(2)?.to_ints()?);
    let (&[images, channels, h, w], &[n, 4]) = (x.shape(), rois.shape()) else {
        let (x, r) = (x.shape(), rois.shape());
        return Err(Error::invalid(format!("RoiAlign: regions {r:?} on {x:?}, expected [R, 4] on [N, C, H, W]")));
    };
    let known = |b: &i64| usize::try_from(*b).is_ok_and(|b| b < images);
    if batches.len() != n || !batches.iter().all(known) || h * w == 0 {
        return Err(Error::invalid(format!("RoiAlign: batch indices {batches:?} for {n} regions, {images} images")));
    }
    let (data, regions) = (f64::read(x)?, f64::read(rois)?);
    let shape = [n, channels, form.out[0], form.out[1]];
    let mut y = alloc::<T>(count(&shape)?)?;
    let bins = form.out[0] * form.out[1];
    for (r, region) in regions.as_chunks::<4>().0.iter().enumerate() {
        let rows = form.axis(region[1], region[3], form.out[0])?;
        let columns = form.axis(region[0], region[2], form.out[1])?;
        for c in 0..channels {
            let plane = &data[(batches[r] as usize * channels + c) * h * w..][..h * w];
            for b in 0..bins {
                let value = bin(form, plane, [h, w], (rows, b / form.out[1]), (columns, b % form.out[1]));
                y[(r * channels + c) * bins + b] = T::of(value);
            }
        }
    }
    T::write(x.dtype(), &shape, &y)
}

/// One axis (start, extent of a bin, samples) and the bin's number.
type Bin = ((f64, f64, usize), usize);

/// (C3)
fn bin(form: &Form, plane: &[f64], size: [usize; 2], rows: Bin, columns: Bin) -> f64 {
    let position = |((start, extent, samples), at): Bin, i: usize| {
        start + at as f64 * extent + (i as f64 + 0.5) * extent / samples as f64
    };
    let (n_rows, n_columns) = (rows.0.2, columns.0.2);
    let (mut sum, mut greatest) = (0.0, f64::NEG_INFINITY);
    for i in 0..n_rows {
        for j in 0..n_columns {
            for (at, weight) in taps(position(rows, i), position(columns, j), size, false) {
                sum += weight * plane[at];
                greatest = f64::max(greatest, weight * plane[at]);
            }
        }
    }
    match n_rows * n_columns {
        0 => 0.0,
        _ if form.max => greatest,
        n => sum / n as f64,
    }
}
