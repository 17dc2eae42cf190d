//! Transpose, Slice, Split, Pad, Expand, Tile and Gather as choices of elements ([`super::pick`]).

use super::pick::{Choice, Range, extents, lower, whole};
use super::rows::{SAME_TYPE, movable, numbers, row, when};
use super::types::{affine, axis_of, constant_ints, refuse};
use super::{input, output};
use crate::Target;
use crate::builder::Builder;
use ottava_hal::refmath::quantize::quantize_f32;
use ottava_hal::{DataType, Node, OpRow, Reason, Result, Tensor, TensorType, ValueId};

/// Rows of movements whose further inputs are constants.
pub(super) fn rows(target: &Target) -> Vec<OpRow> {
    vec![when(row(target, vec![movable(), numbers()], movable()), SAME_TYPE)]
}

/// Rows of Split: several results.
pub(super) fn split_rows(target: &Target) -> Vec<OpRow> {
    let mut rows = rows(target);
    rows.iter_mut().for_each(|r| r.predicates.retain(|p| p.text != super::rows::ONE_OUTPUT.text));
    rows
}

/// Transpose.
pub(super) fn transpose(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, _) = extents(builder, node)?;
    let perm = match node.attrs.ints_opt("perm")? {
        Some(perm) => perm.iter().map(|p| axis_of(*p, x.len())).collect::<Result<Vec<_>>>()?,
        None => (0..x.len()).rev().collect(),
    };
    if perm.len() != x.len() {
        return refuse(Reason::AttrValue, format!("perm {perm:?} of rank {}", x.len()));
    }
    let ranges = perm.into_iter().map(whole).collect();
    lower(builder, input(node, 0)?, output(node)?, &Choice::inside(ranges))
}

/// Slice; the extents of the result have been inferred, so only starts and steps are needed.
pub(super) fn slice(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = extents(builder, node)?;
    let list = |i: usize| constant_ints(builder, node, i);
    let starts = list(1)?.unwrap_or_default();
    let axes = list(3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = list(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if axes.len() != starts.len() || steps.len() != starts.len() {
        return refuse(Reason::AttrValue, "starts, axes and steps of different lengths");
    }
    let mut ranges: Vec<Range> = (0..x.len()).map(whole).collect();
    for ((start, axis), step) in starts.into_iter().zip(axes).zip(steps) {
        let axis = axis_of(axis, x.len())?;
        let n = x[axis] as i64;
        let most = if step < 0 { n - 1 } else { n };
        let first = start.saturating_add(if start < 0 { n } else { 0 }).clamp(0, most.max(0));
        // With one element the step is never taken, and a huge one must not overflow.
        let step = if y[axis] > 1 { step as isize } else { 0 };
        ranges[axis] = Range::Steps { axis, first: first as usize, step };
    }
    lower(builder, input(node, 0)?, output(node)?, &Choice::inside(ranges))
}

/// Split: parts of an axis one behind the other.
pub(super) fn split(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let x = input(node, 0)?;
    let rank = builder.dims(x)?.len();
    let axis = axis_of(node.attrs.int("axis", 0)?, rank)?;
    let mut first = 0;
    for &y in &node.outputs {
        let mut ranges: Vec<Range> = (0..rank).map(whole).collect();
        ranges[axis] = Range::Steps { axis, first, step: 1 };
        first += builder.dims(y)?[axis];
        if builder.dims(y)?.contains(&0) {
            return refuse(Reason::ShapeLimit, "an empty part");
        }
        lower(builder, x, y, &Choice::inside(ranges))?;
    }
    Ok(())
}

/// Expand: axes of one element, or that the input lacks, stand still.
pub(super) fn expand(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (builder.dims(input(node, 0)?)?, builder.dims(output(node)?)?);
    let range = |i: usize| match (i + x.len()).checked_sub(y.len()) {
        Some(own) if x[own] != 1 => whole(own),
        _ => Range::Still,
    };
    let ranges = (0..y.len()).map(range).collect();
    lower(builder, input(node, 0)?, output(node)?, &Choice::inside(ranges))
}

/// Tile: every axis repeats.
pub(super) fn tile(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = extents(builder, node)?;
    let range = |i: usize| match (x[i], y[i]) {
        (n, m) if n == m => whole(i),
        (1, _) => Range::Still,
        (n, m) => Range::List(i, (0..m).map(|k| Some(k % n)).collect()),
    };
    let ranges = (0..y.len()).map(range).collect();
    lower(builder, input(node, 0)?, output(node)?, &Choice::inside(ranges))
}

/// Gather with constant indices.
pub(super) fn gather(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let x = builder.dims(input(node, 0)?)?;
    let axis = axis_of(node.attrs.int("axis", 0)?, x.len())?;
    let indices = constant_ints(builder, node, 1)?.unwrap_or_default();
    let mut list = Vec::with_capacity(indices.len());
    for i in indices {
        list.push(axis_of(i, x[axis]).map_err(|_| out_of_range(i, x[axis]))?);
    }
    // The general form puts the extents of the indices where the axis was; a list keeps the rank.
    if builder.dims(input(node, 1)?)?.len() == 1 {
        let mut ranges: Vec<Range> = (0..x.len()).map(whole).collect();
        ranges[axis] = Range::List(axis, list.into_iter().map(Some).collect());
        return lower(builder, input(node, 0)?, output(node)?, &Choice::inside(ranges));
    }
    super::take::lower(builder, node)
}

fn out_of_range(index: i64, n: usize) -> ottava_hal::Error {
    ottava_hal::Error::unsupported(Reason::AttrValue, format!("index {index} of an axis of {n}"))
}

/// Pad: constant, edge, reflect or wrap; negative pads cut.
pub(super) fn pad(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = extents(builder, node)?;
    let pads = constant_ints(builder, node, 1)?.unwrap_or_default();
    let axes = constant_ints(builder, node, 3)?.unwrap_or_else(|| (0..x.len() as i64).collect());
    if pads.len() != 2 * axes.len() {
        return refuse(Reason::AttrValue, "pads and axes of different lengths");
    }
    let mode = node.attrs.str("mode", "constant")?;
    let mut ranges: Vec<Range> = (0..x.len()).map(whole).collect();
    for (i, axis) in axes.iter().enumerate() {
        let axis = axis_of(*axis, x.len())?;
        ranges[axis] = padded(mode, (axis, x[axis], y[axis]), pads[i])?;
    }
    let outside = if mode == "constant" { outside(builder, node)? } else { 0 };
    lower(builder, input(node, 0)?, output(node)?, &Choice { ranges, outside })
}

/// Where a padded axis reads.
fn padded(mode: &str, (axis, n, m): (usize, usize, usize), before: i64) -> Result<Range> {
    if before == 0 && n == m {
        return Ok(whole(axis));
    }
    if let ("constant", Ok(low)) = (mode, usize::try_from(before))
        && m >= n + low
    {
        return Ok(Range::Behind(axis, low));
    }
    let extent = n as i64;
    let place = |i: usize| {
        let at = i as i64 - before;
        let from = match mode {
            _ if (0..extent).contains(&at) => at,
            "constant" => return Ok(None),
            "edge" => at.clamp(0, extent - 1),
            "wrap" => at.rem_euclid(extent),
            "reflect" if n == 1 => 0,
            "reflect" => {
                let (period, phase) = (2 * (extent - 1), at.rem_euclid(2 * (extent - 1)));
                phase.min(period - phase)
            }
            other => return refuse(Reason::AttrValue, format!("mode `{other}`")),
        };
        Ok(Some(from as usize))
    };
    Ok(Range::List(axis, (0..m).map(place).collect::<Result<_>>()?))
}

/// The bits of the value in input 2, in the parameters of the result; by default 0.
fn outside(builder: &Builder<'_>, node: &Node) -> Result<u32> {
    let ty = builder.ty(output(node)?);
    let value = match node.input(2) {
        Some(id) => Some(scalar(builder, id)?),
        None => None,
    };
    match affine(ty)? {
        Some(a) => {
            let (lo, hi) = ty.dtype.storage_range().unwrap_or((0, 0));
            let real = match value {
                Some((data, of)) => match affine(of)? {
                    Some(from) => from.dequantize(data.to_ints()?[0] as i32),
                    None => data.to_f32s()?[0],
                },
                None => 0.0,
            };
            Ok(quantize_f32(real, a.scale, a.zp, lo, hi) as u32)
        }
        None => match value {
            None => Ok(0),
            Some((data, _)) if data.dtype() == ty.dtype && ty.dtype != DataType::S64 => {
                let mut bytes = [0; 4];
                bytes.iter_mut().zip(data.bytes()).for_each(|(b, d)| *b = *d);
                Ok(u32::from_le_bytes(bytes))
            }
            Some((data, _)) if data.to_ints().is_ok_and(|v| v == [0]) => Ok(0),
            Some(_) => refuse(Reason::Dtype, "a value of another type than the input's"),
        },
    }
}

fn scalar<'p>(builder: &Builder<'p>, id: ValueId) -> Result<(&'p Tensor, &'p TensorType)> {
    match builder.data(id) {
        Some(data) if data.elements() == 1 => Ok((data, builder.ty(id))),
        _ => refuse(Reason::ConstRequired, "a value that is no constant scalar"),
    }
}
