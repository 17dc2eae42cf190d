//! `Resize` and its predecessor `Upsample`: resampling along any axes.
//!
//! * (C1) Either `scales` or `sizes` is given, for all axes or those of `axes`; a scaled extent is `floor(scale * n)`.
//! * (C2) `keep_aspect_ratio_policy` takes the least or greatest scale for every axis; extents round half up.
//! * (C3) Interpolation is separable: one axis after the other, weights times elements summed in ascending index.
//! * (C4) Nearest moves elements of any type, also quantized ones; the other modes are float, and integers are
//!   truncated and saturated at the end.
//! * (C5) Linear on signed integers in a Q31 mode is that of TFLite's reference kernel (`resize_fixed`).

use super::real::{Real, count, with_real};
use super::resample::{AxisResample, Mode, Nearest, Source, Transform};
use super::resize_fixed;
use crate::elementwise::binary::fixed_mode;
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::util::{MAX_ELEMENTS, axis};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::refmath::float::f32_to_int;
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// Resampling.
pub struct Resize {
    spec: OpSpec,
    upsample: bool,
}

/// The current operator.
pub static RESIZE: Resize = Resize {
    spec: OpSpec {
        name: "Resize",
        domain: "",
        since: 10,
        inputs: (1, 4),
        outputs: (1, 1),
        attrs: &[
            AttrSpec::optional("antialias", AttrKind::Int),
            AttrSpec::optional("axes", AttrKind::Ints),
            AttrSpec::optional("coordinate_transformation_mode", AttrKind::Str),
            AttrSpec::optional("cubic_coeff_a", AttrKind::Float),
            AttrSpec::optional("exclude_outside", AttrKind::Int),
            AttrSpec::optional("extrapolation_value", AttrKind::Float),
            AttrSpec::optional("keep_aspect_ratio_policy", AttrKind::Str),
            AttrSpec::optional("mode", AttrKind::Str),
            AttrSpec::optional("nearest_mode", AttrKind::Str),
        ],
    },
    upsample: false,
};

/// The deprecated operator: asymmetric coordinates, rounded down.
pub static UPSAMPLE: Resize = Resize {
    spec: OpSpec {
        name: "Upsample",
        domain: "",
        since: 9,
        inputs: (2, 2),
        outputs: (1, 1),
        attrs: &[AttrSpec::optional("mode", AttrKind::Str)],
    },
    upsample: true,
};

/// What the optional inputs of a node say.
struct Request {
    axes: Vec<usize>,
    roi: Option<Vec<f64>>,
    scales: Option<Vec<f32>>,
    sizes: Option<Vec<i64>>,
}

impl Resize {
    fn mode(&self, attrs: &Attrs) -> Result<Mode> {
        let nearest = match attrs.str("nearest_mode", "round_prefer_floor")? {
            _ if self.upsample => Nearest::Floor,
            "round_prefer_floor" | "" => Nearest::RoundPreferFloor,
            "round_prefer_ceil" => Nearest::RoundPreferCeil,
            "floor" => Nearest::Floor,
            "ceil" => Nearest::Ceil,
            other => return Err(unknown("nearest_mode", other)),
        };
        Ok(match attrs.str("mode", "nearest")? {
            "nearest" => Mode::Nearest(nearest),
            "linear" | "bilinear" => Mode::Linear,
            "cubic" => Mode::Cubic(attrs.float("cubic_coeff_a", -0.75)?.into()),
            other => return Err(unknown("mode", other)),
        })
    }

    fn transform(&self, attrs: &Attrs, roi: Option<(f64, f64)>) -> Result<Transform> {
        Ok(match attrs.str("coordinate_transformation_mode", "half_pixel")? {
            _ if self.upsample => Transform::Asymmetric,
            "half_pixel" | "" => Transform::HalfPixel,
            "half_pixel_symmetric" => Transform::HalfPixelSymmetric,
            "pytorch_half_pixel" => Transform::PytorchHalfPixel,
            "align_corners" => Transform::AlignCorners,
            "asymmetric" => Transform::Asymmetric,
            "tf_crop_and_resize" => {
                let (start, end) = roi.ok_or_else(|| Error::invalid("tf_crop_and_resize needs input `roi`"))?;
                Transform::TfCropAndResize { start, end }
            }
            other => return Err(unknown("coordinate_transformation_mode", other)),
        })
    }

    /// Reads the request from inputs that `get` provides.
    fn request<'a>(&self, attrs: &Attrs, rank: usize, get: impl Fn(usize) -> Option<&'a Tensor>) -> Result<Request> {
        let get = |i: usize| get(i).filter(|t| t.elements() > 0);
        let (roi, scales, sizes) = if self.upsample { (None, get(1), None) } else { (get(1), get(2), get(3)) };
        let axes = match attrs.ints_opt("axes")? {
            Some(list) => list.iter().map(|&a| axis(a, rank)).collect::<Result<_>>()?,
            None => (0..rank).collect::<Vec<_>>(),
        };
        let request = Request {
            roi: roi.map(f64::read).transpose()?,
            scales: scales.map(Tensor::to_f32s).transpose()?,
            sizes: sizes.map(Tensor::to_ints).transpose()?,
            axes,
        };
        let n = request.axes.len();
        let fits = |len: Option<usize>, n: usize| len.is_none_or(|l| l == n);
        let ok = fits(request.scales.as_ref().map(Vec::len), n)
            && fits(request.sizes.as_ref().map(Vec::len), n)
            && fits(request.roi.as_ref().map(Vec::len), 2 * n);
        if !ok || request.scales.is_some() == request.sizes.is_some() {
            return Err(Error::invalid(format!("{}: needs {n} scales or {n} sizes, not both", self.spec.name)));
        }
        Ok(request)
    }

    /// The resampling of each requested axis of a shape.
    fn axes(&self, attrs: &Attrs, request: &Request, shape: &[usize]) -> Result<Vec<(usize, AxisResample)>> {
        let mode = self.mode(attrs)?;
        let (antialias, exclude_outside) = (attrs.int("antialias", 0)? != 0, attrs.int("exclude_outside", 0)? != 0);
        let extents = extents(attrs, request, shape)?;
        let n = request.axes.len();
        let one = |(i, (&a, &(scale, output))): (usize, (&usize, &(f64, usize)))| {
            let roi = request.roi.as_ref().map(|r| (r[i], r[n + i]));
            let transform = self.transform(attrs, roi)?;
            Ok((a, AxisResample { input: shape[a], output, scale, mode, transform, antialias, exclude_outside }))
        };
        request.axes.iter().zip(&extents).enumerate().map(one).collect()
    }
}

fn unknown(name: &str, value: &str) -> Error {
    Error::invalid(format!("Resize: {name} `{value}` is not one of ONNX"))
}

/// (C1) The extent of a scaled axis.
fn scaled(scale: f32, n: usize) -> Result<usize> {
    let extent = (scale * n as f32).floor();
    if scale > 0.0 && extent.is_finite() && extent <= MAX_ELEMENTS as f32 {
        return Ok(extent as usize);
    }
    Err(Error::invalid(format!("Resize: scale {scale} of extent {n} is not a size")))
}

/// Scale and output extent of each requested axis (C1, C2).
fn extents(attrs: &Attrs, request: &Request, shape: &[usize]) -> Result<Vec<(f64, usize)>> {
    if let Some(scales) = &request.scales {
        let one = |(&a, &s): (&usize, &f32)| Ok((f64::from(s), scaled(s, shape[a])?));
        return request.axes.iter().zip(scales).map(one).collect();
    }
    let sizes = request.sizes.as_deref().unwrap_or(&[]);
    let one = |(&a, &size): (&usize, &i64)| {
        let size = usize::try_from(size).ok().filter(|&s| s <= MAX_ELEMENTS);
        let size = size.ok_or_else(|| Error::invalid("Resize: a size is negative or too large"))?;
        Ok((size as f64 / shape[a].max(1) as f64, size))
    };
    let stretched: Vec<(f64, usize)> = request.axes.iter().zip(sizes).map(one).collect::<Result<_>>()?;
    let scales = stretched.iter().map(|(s, _)| *s);
    let scale = match attrs.str("keep_aspect_ratio_policy", "stretch")? {
        "stretch" | "" => return Ok(stretched),
        "not_larger" => scales.fold(f64::INFINITY, f64::min),
        "not_smaller" => scales.fold(0.0, f64::max),
        other => return Err(unknown("keep_aspect_ratio_policy", other)),
    };
    Ok(request.axes.iter().map(|&a| (scale, (scale * shape[a] as f64 + 0.5).floor() as usize)).collect())
}

/// (C3) Resamples one axis of `data`, whose shape is updated.
fn along<T: Copy, R>(
    data: Vec<T>,
    shape: &mut [usize],
    at: usize,
    resample: &AxisResample,
    blend: impl Fn(&Source, &dyn Fn(usize) -> T) -> R,
) -> Result<Vec<R>> {
    let (outer, inner) = (count(&shape[..at])?, count(&shape[at + 1..])?);
    let (input, sources) = (shape[at], resample.sources()?);
    shape[at] = resample.output;
    let n = count(shape)?;
    if n > MAX_ELEMENTS {
        return Err(Error::invalid(format!("a resize to {shape:?} is too large")));
    }
    let mut out = Vec::new();
    out.try_reserve_exact(n).map_err(|_| Error::invalid(format!("a resize to {shape:?} is too large")))?;
    for o in 0..outer {
        for source in &sources {
            for i in 0..inner {
                out.push(blend(source, &|k| data[(o * input + k) * inner + i]));
            }
        }
    }
    Ok(out)
}

/// Weights times elements, in ascending index.
fn weighted<T: Real>(source: &Source, get: &dyn Fn(usize) -> T, outside: T) -> T {
    match source {
        Source::Outside => outside,
        Source::Taps(taps) => match taps[..] {
            [(k, 1.0)] => get(k),
            _ => {
                let mut sum = T::default();
                taps.iter().for_each(|&(k, w)| sum += get(k) * T::of(w));
                sum
            }
        },
    }
}

impl Op for Resize {
    fn spec(&self) -> &'static OpSpec {
        if self.upsample { &UPSAMPLE.spec } else { &RESIZE.spec }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let x = cx.shape(0)?;
        let given = |i: usize| cx.opt(i).is_some_and(|t| t.ty.shape.elements() != Some(0));
        let dynamic = (2..4)
            .chain(self.upsample.then_some(1))
            .any(|i| given(i) && cx.opt(i).is_some_and(|t| t.constant.is_none()));
        if dynamic {
            let all: Vec<i64> = (0..x.len() as i64).collect();
            let axes = cx.attrs().ints_opt("axes")?.unwrap_or(&all);
            let axes = axes.iter().map(|&a| util::axis(a, x.len())).collect::<Result<Vec<_>>>()?;
            return Ok(vec![cx.open_along(&axes)?]);
        }
        let request = self.request(cx.attrs(), x.len(), |i| cx.opt(i)?.constant)?;
        let stretch = cx.attrs().str("keep_aspect_ratio_policy", "stretch")? == "stretch";
        let mut dims = x.to_vec();
        if let Some(known) = cx.input(0)?.ty.shape.known() {
            for (&a, (_, n)) in request.axes.iter().zip(extents(cx.attrs(), &request, &known)?) {
                dims[a] = Dim::Known(n);
            }
            return Ok(vec![cx.ty(cx.dtype(0)?, dims)]);
        }
        for (i, &a) in request.axes.iter().enumerate() {
            dims[a] = match (&request.scales, &request.sizes, x[a].known()) {
                (Some(s), _, _) if s[i] == 1.0 => x[a].clone(),
                (Some(s), _, Some(n)) => Dim::Known(scaled(s[i], n)?),
                (None, Some(s), _) if stretch => Dim::Known(usize::try_from(s[i]).map_err(|_| unknown("size", "< 0"))?),
                _ => cx.fresh(0, a),
            };
        }
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let request = self.request(cx.attrs(), x.shape().len(), |i| cx.opt(i))?;
        let axes = self.axes(cx.attrs(), &request, x.shape())?;
        let outside = cx.attrs().float("extrapolation_value", 0.0)?;
        let work = axes.iter().filter(|(_, a)| !a.is_identity());
        let mut shape = x.shape().to_vec();
        if !x.dtype().is_float() {
            return Ok(vec![integers(x, work, outside, self.mode(cx.attrs())?)?]);
        }
        let y = with_real!(x.dtype(), self.spec.name, T => {
            let mut data = T::read(x)?;
            let outside = T::of(outside.into());
            for (at, resample) in work {
                data = along(data, &mut shape, *at, resample, |s, get| weighted(s, get, outside))?;
            }
            T::write(x.dtype(), &shape, &data)
        })?;
        Ok(vec![y])
    }

    fn quant_rule(&self, node: &Node) -> QuantRule {
        let moves = matches!(self.mode(&node.attrs), Ok(Mode::Nearest(_)));
        let crops = node.attrs.str("coordinate_transformation_mode", "").is_ok_and(|t| t == "tf_crop_and_resize");
        match (moves && !crops, fixed_mode(node)) {
            (true, _) => QuantRule::Move,
            (false, Some(_)) => QuantRule::Own,
            (false, None) => QuantRule::Float,
        }
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let x = cx.input(0)?;
        let request = self.request(cx.attrs(), x.shape().len(), |i| cx.opt(i))?;
        let mut shape = x.shape().to_vec();
        for (&a, (_, n)) in request.axes.iter().zip(extents(cx.attrs(), &request, x.shape())?) {
            shape[a] = n;
        }
        Ok(resize_fixed::eval(cx, &shape)?.map(|y| vec![y]))
    }

    fn cases(&self) -> Vec<Case> {
        let node = |mode: &str| {
            let mut node = Node::new("resize", self.spec.name, self.spec.since.max(9));
            node.attrs.set("mode", Attr::Str(mode.into()));
            node
        };
        let x = f32s(&[1, 2], &[1.0, 3.0]);
        let scales = f32s(&[2], &[1.0, 2.0]);
        if self.upsample {
            let y = f32s(&[1, 4], &[1.0, 1.0, 3.0, 3.0]);
            return vec![case_const("c4_nearest", node("nearest"), 1, &[x, scales], &[y])];
        }
        let case = |name, node, x: Tensor, y: Tensor| {
            let mut case = case_const(name, node, 1, &[x, scales.clone()], &[y]);
            case.inputs.insert(1, None);
            case
        };
        let bytes = |v: &[i64]| ints(DataType::U8, &[1, v.len()], v);
        vec![
            case("c3_linear", node("linear"), x, f32s(&[1, 4], &[1.0, 1.5, 2.5, 3.0])),
            case("c4_nearest_of_bytes", node("nearest"), bytes(&[7, 9]), bytes(&[7, 7, 9, 9])),
        ]
    }
}

/// (C4) Elements of integer types: moved where the mode is nearest, else computed in f32.
fn integers<'a>(
    x: &Tensor,
    work: impl Iterator<Item = &'a (usize, AxisResample)>,
    outside: f32,
    mode: Mode,
) -> Result<Tensor> {
    let mut shape = x.shape().to_vec();
    if let Mode::Nearest(_) = mode {
        let mut data = x.to_ints()?;
        let outside = f32_to_int(outside, i64::MIN, i64::MAX);
        for (at, resample) in work {
            data = along(data, &mut shape, *at, resample, |s, get| match s {
                Source::Taps(taps) => get(taps[0].0),
                Source::Outside => outside,
            })?;
        }
        return Tensor::from_ints(x.dtype(), &shape, &data);
    }
    let mut data = x.to_f32s()?;
    for (at, resample) in work {
        data = along(data, &mut shape, *at, resample, |s, get| weighted(s, get, outside))?;
    }
    let (lo, hi) = x.dtype().int_range().unwrap_or((i64::MIN, i64::MAX));
    let y: Vec<i64> = data.into_iter().map(|v| f32_to_int(v, lo, hi)).collect();
    Tensor::from_ints(x.dtype(), &shape, &y)
}
