//! `Gather` by constant indices and `Resize` to the nearest element: parts of an axis that move.

use super::concat::{moved, moved_axis};
use super::{bad_shape, clamped, input, output, params_of};
use crate::lower::{Builder, Chip, Form, Loc, Piece, Pieces};
use crate::rows::{constant, element};
use ottava_hal::capability::Operand;
use ottava_hal::{DataType, Error, Node, Reason, Result, ValueId};

/// The value, and which parts.
pub(crate) fn gather_inputs(chip: &Chip) -> Vec<Operand> {
    let indices = Operand { optional: false, ..constant(&[DataType::S64, DataType::S32]) };
    vec![element(chip), indices]
}

/// The value; roi, scales, sizes.
pub(crate) fn resize_inputs(chip: &Chip) -> Vec<Operand> {
    vec![element(chip), constant(&[DataType::F32, DataType::S64])]
}

/// Slices of an axis. One slice of consecutive bytes is a view.
pub(crate) fn gather(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y, indices) = (input(node, 0)?, output(node)?, input(node, 1)?);
    same_parameters(builder, node)?;
    let (dims, data) = (builder.dims(x)?, builder.constant(indices));
    let data = data.ok_or_else(|| Error::unsupported(Reason::ConstRequired, "the indices must be constant"))?;
    let given = node.attrs.int("axis", 0)?;
    let axis = if given < 0 { given.saturating_add(dims.len() as i64) } else { given };
    let axis = usize::try_from(axis).ok().filter(|&a| a < dims.len());
    let axis = axis.ok_or_else(|| bad_shape(format!("axis {given} of {dims:?}")))?;
    let index = |i: i64| usize::try_from(if i < 0 { i.saturating_add(dims[axis] as i64) } else { i }).ok();
    let picked: Option<Vec<usize>> = data.to_ints()?.into_iter().map(index).collect();
    let picked = picked.filter(|p| p.iter().all(|&i| i < dims[axis]));
    let picked = picked.ok_or_else(|| bad_shape(format!("indices outside an axis of {}", dims[axis])))?;
    let last = data.shape().len() == 1 && dims.len() > 2 && builder.form_of(x) == Form::Last;
    let (form, at) = if last { (Form::Last, moved_axis(axis, dims.len())) } else { (Form::Plain, axis) };
    let ordered = if last { moved(&dims) } else { dims };
    let axis = Axis::of(&ordered, at, builder.size(x));
    let from = builder.want(x, form)?;
    if let (1, [one]) = (axis.outer, picked.as_slice()) {
        builder.alias(y, form, from.plus(one * axis.inner));
        return Ok(());
    }
    let to = builder.make(y, form)?;
    pick(builder, from, to, axis, &picked)
}

/// Every element of an image several times.
pub(crate) fn resize(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    same_parameters(builder, node)?;
    let factors = factors(builder, node, x, y)?;
    let (form, dims) = (builder.form_of(x), builder.dims(x)?);
    let last = form == Form::Last && dims.len() > 2;
    let (mut dims, factors) = if last { (moved(&dims), moved(&factors)) } else { (dims, factors) };
    let form = if last { form } else { Form::Plain };
    let axes: Vec<usize> = (0..dims.len()).filter(|&a| factors[a] > 1).collect();
    let mut from = builder.want(x, form)?;
    let Some(&end) = axes.last() else {
        builder.alias(y, form, from);
        return Ok(());
    };
    for axis in axes {
        let picked: Vec<usize> = (0..dims[axis] * factors[axis]).map(|i| i / factors[axis]).collect();
        let of = Axis::of(&dims, axis, builder.size(x));
        dims[axis] = picked.len();
        let bytes = dims.iter().product::<usize>() * builder.size(x);
        let to = if axis == end { builder.make(y, form)? } else { builder.scratch(bytes) };
        pick(builder, from, to, of, &picked)?;
        from = to;
    }
    Ok(())
}

/// Whole factors, by which every way of naming coordinates picks the same elements.
fn factors(builder: &Builder<'_>, node: &Node, x: ValueId, y: ValueId) -> Result<Vec<usize>> {
    let bad = |what: &str| Error::unsupported(Reason::AttrValue, what.to_owned());
    if node.attrs.str("mode", "nearest")? != "nearest" || node.attrs.int("antialias", 0)? != 0 {
        return Err(bad("a Resize that computes, supported: the nearest element"));
    }
    let rounding = node.attrs.str("nearest_mode", "round_prefer_floor")?;
    match node.attrs.str("coordinate_transformation_mode", "half_pixel")? {
        "half_pixel" | "half_pixel_symmetric" | "" if rounding.starts_with("round_prefer") || rounding.is_empty() => {}
        "asymmetric" if rounding == "floor" => {}
        other => return Err(bad(&format!("coordinates {other} rounded by {rounding}"))),
    }
    if !matches!(node.attrs.str("keep_aspect_ratio_policy", "stretch")?, "stretch" | "") {
        return Err(bad("a kept aspect ratio"));
    }
    let scales = node.input(2).and_then(|id| builder.constant(id)).filter(|t| t.elements() > 0);
    if let Some(scales) = scales
        && scales.to_f32s()?.iter().any(|s| s.fract() != 0.0)
    {
        return Err(bad("scales that are no whole numbers"));
    }
    let (from, to) = (builder.dims(x)?, builder.dims(y)?);
    let whole = |(&n, &m): (&usize, &usize)| (n > 0 && m.is_multiple_of(n)).then(|| m / n);
    let factors: Option<Vec<usize>> = from.iter().zip(&to).map(whole).collect();
    factors.filter(|_| from.len() == to.len()).ok_or_else(|| bad_shape(format!("{from:?} resized to {to:?}")))
}

fn same_parameters(builder: &Builder<'_>, node: &Node) -> Result<()> {
    if params_of(builder, input(node, 0)?)? == clamped(builder, node)? {
        return Ok(());
    }
    Err(Error::unsupported(Reason::QuantScheme, "a movement between different parameters"))
}

/// An axis of a value, in bytes.
#[derive(Debug, Clone, Copy)]
struct Axis {
    outer: usize,
    extent: usize,
    inner: usize,
}

impl Axis {
    fn of(dims: &[usize], axis: usize, size: usize) -> Self {
        let inner = dims[axis + 1..].iter().product::<usize>() * size;
        Self { outer: dims[..axis].iter().product(), extent: dims[axis], inner }
    }
}

/// Copies the picked slices; neighbours that stay neighbours move together.
fn pick(builder: &mut Builder<'_>, from: Loc, to: Loc, axis: Axis, picked: &[usize]) -> Result<()> {
    let Axis { outer, extent, inner } = axis;
    let (mut pieces, mut start) = (Vec::new(), 0);
    for end in 1..=picked.len() {
        if picked.get(end) == Some(&(picked[end - 1] + 1)) {
            continue;
        }
        let copy = Piece::copy(from.plus(picked[start] * inner), to.plus(start * inner), (end - start) * inner);
        pieces.push(Piece { rows: outer, from_pitch: extent * inner, to_pitch: picked.len() * inner, ..copy });
        start = end;
    }
    let step = Pieces::new(builder.chip, pieces, None)?;
    builder.step(vec![from], to, step);
    Ok(())
}
