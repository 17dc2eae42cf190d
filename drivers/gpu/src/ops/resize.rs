//! Resize to constant sizes or by constant scales. Nearest chooses elements; linear and cubic work in f32, one axis after
//! the other, quantized values between Dequantize and Quantize as the operator's definition says.

use super::pick::{Choice, Range, extents, whole};
use super::resample::{Mode, Resampled, Transform};
use super::rows::{SAME_TYPE, float, integer, movable, numbers, only_fp32, row, when};
use super::types::{axis_of, code, range, refuse, scale_words, word};
use super::{input, output, pick};
use crate::builder::{Buf, Builder, Launch};
use crate::form::Stored;
use crate::{Form, Target};
use ottava_hal::capability::{FusedSupport, Predicate};
use ottava_hal::{DataType, Node, OpRow, Program, Reason, Result};

const NEAREST: Predicate = Predicate { text: "mode nearest", reason: Reason::AttrValue, holds: is_nearest };
const BLENDS: Predicate = Predicate { text: "mode linear or cubic", reason: Reason::AttrValue, holds: blends };

fn is_nearest(_: &Program, node: &Node) -> bool {
    node.attrs.str("mode", "nearest") == Ok("nearest")
}

fn blends(program: &Program, node: &Node) -> bool {
    !is_nearest(program, node)
}

/// Rows of Resize.
pub(super) fn rows(target: &Target) -> Vec<OpRow> {
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    let quantized = OpRow { fused, ..row(target, vec![integer(), numbers()], integer()) };
    vec![
        when(when(row(target, vec![movable(), numbers()], movable()), SAME_TYPE), NEAREST),
        when(only_fp32(quantized), BLENDS),
        when(when(row(target, vec![float(), numbers()], float()), SAME_TYPE), BLENDS),
    ]
}

/// The axes that change, in the node's order.
fn axes(builder: &Builder<'_>, node: &Node) -> Result<Vec<(usize, Resampled)>> {
    for name in ["antialias", "exclude_outside"] {
        if node.attrs.int(name, 0)? != 0 {
            return refuse(Reason::AttrValue, format!("attribute `{name}`"));
        }
    }
    if !matches!(node.attrs.str("keep_aspect_ratio_policy", "stretch")?, "stretch" | "") {
        return refuse(Reason::AttrValue, "an aspect ratio is kept");
    }
    let (x, y) = extents(builder, node)?;
    let transform = Transform::parse(&node.attrs)?;
    let named: Vec<usize> = match node.attrs.ints_opt("axes")? {
        Some(list) => list.iter().map(|a| axis_of(*a, x.len())).collect::<Result<_>>()?,
        None => (0..x.len()).collect(),
    };
    let scales = scales(builder, node)?;
    if scales.as_ref().is_some_and(|s| s.len() != named.len()) {
        return refuse(Reason::AttrValue, "scales and axes of different numbers");
    }
    let axis = |(i, &a): (usize, &usize)| {
        let stretched = y[a] as f64 / x[a].max(1) as f64;
        let scale = scales.as_ref().map_or(stretched, |s| s[i].into());
        (a, Resampled { input: x[a], output: y[a], scale, transform })
    };
    let all: Vec<_> = named.iter().enumerate().map(axis).filter(|(_, r)| !r.is_identity()).collect();
    if (0..x.len()).any(|a| x[a] != y[a] && !named.contains(&a)) {
        return refuse(Reason::AttrValue, "an axis changes that is not named");
    }
    Ok(all)
}

/// The scales, where they are given; sizes are those of the result.
fn scales(builder: &Builder<'_>, node: &Node) -> Result<Option<Vec<f32>>> {
    let Some(id) = node.input(2).filter(|id| builder.ty(*id).shape.elements() != Some(0)) else { return Ok(None) };
    super::types::constant_floats(builder, id, "the scales").map(Some)
}

/// A choice of elements, or a launch per axis.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let axes = axes(builder, node)?;
    let (x, y) = (input(node, 0)?, output(node)?);
    match Mode::parse(&node.attrs)? {
        Mode::Nearest(rule) => {
            let mut ranges: Vec<Range> = (0..builder.dims(y)?.len()).map(whole).collect();
            for (a, axis) in axes {
                ranges[a] = Range::List(a, axis.nearest(rule)?.into_iter().map(Some).collect());
            }
            pick::lower(builder, x, y, &Choice::inside(ranges))
        }
        mode => blend(builder, node, mode, &axes),
    }
}

/// What lies between two launches: f32, in the layout of the input.
struct Lying {
    buf: Buf,
    params: [u32; 3],
}

fn blend(builder: &mut Builder<'_>, node: &Node, mode: Mode, axes: &[(usize, Resampled)]) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from, to) = (builder.ty(x), builder.ty(y));
    // Images stay images where their channels keep their number and padding.
    let padded = |ty| Ok(Stored::new(ty, Form::Image)?.axes.last().map(|a| a.padded));
    let image = builder.form_of(x) == Form::Image && axes.iter().all(|(a, _)| *a != 1);
    let form = if image && padded(from)? == padded(to)? { Form::Image } else { Form::Plain };
    let source = Stored::new(from, form)?;
    if axes.is_empty() {
        return refuse(Reason::ShapeLimit, "no axis to resample");
    }
    let mut extents: Vec<(usize, usize)> = source.axes.iter().map(|a| (a.axis, a.padded)).collect();
    let [scale, zp] = scale_words(from)?;
    let mut lying = Lying { buf: builder.read(x, form)?, params: [code(from), scale, zp] };
    for (i, (axis, resampled)) in axes.iter().enumerate() {
        let Some(at) = extents.iter().position(|(a, _)| a == axis) else { continue };
        extents[at].1 = resampled.output;
        let elements: usize = extents.iter().map(|(_, n)| n).product();
        let behind: usize = extents[at + 1..].iter().map(|(_, n)| n).product();
        let last = i + 1 == axes.len();
        let result = if last { builder.write(y, form)? } else { builder.scratch(4 * elements)? };
        let (lo, hi) = range(node, to);
        let [scale, zp] = if last { scale_words(to)? } else { [0, 0] };
        let dtype = if last { code(to) } else { DataType::F32 as u32 };
        let words = builder.bytes(result) / 4;
        let mut params = vec![words as u32, word(elements)?];
        params.extend(lying.params);
        params.extend([dtype, scale, zp, lo as u32, hi as u32]);
        let (taps, list) = resampled.taps(mode)?;
        params.extend([word(resampled.input)?, word(resampled.output)?, word(behind)?, taps as u32]);
        let list: Vec<u32> = list.into_iter().flat_map(|(at, weight)| [at as u32, weight.to_bits()]).collect();
        let list = builder.words(&list)?;
        builder.launch(&Launch {
            kernel: "resample",
            defines: &[],
            spec: &[],
            params: &params,
            inputs: &[lying.buf, list],
            output: result,
            items: [words, 1, 1],
            local: None,
        })?;
        lying = Lying { buf: result, params: [dtype, scale, zp] };
    }
    Ok(())
}
