//! Operators that cut, repeat and pad: Slice, Split, Gather by constant indices, Expand, Pad with a constant.

use super::binary::{repeat_strides, repeated};
use super::movement::{movable, push_walk};
use super::product::constant;
use crate::builder::{Builder, input, output};
use crate::form::{Form, dims, flips, stored_dims};
use crate::relayout::copy;
use crate::rows::{input_ty, needs, other, output_ty, per_tensor, row, same_params, split_row, when};
use crate::strided::{Walk, strides};
use ottava_hal::refmath::quantize::quantize_f32;
use ottava_hal::{DataType, Error, Node, OpRow, Program, Reason, Result, Status, ValueId};

/// An axis that may count from the end.
pub(super) fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(axis).ok().filter(|a| *a < rank)
}

/// The constant integers of input `i`.
fn ints(program: &Program, node: &Node, i: usize) -> Result<Option<Vec<i64>>> {
    node.input(i).map(|id| constant(program, id)?.to_ints()).transpose()
}

fn unfit(node: &Node, what: &str) -> Error {
    Error::unsupported(Reason::ConstRequired, format!("node `{}`: {what}", node.name))
}

/// Rows of Slice: constant bounds, steps above 0.
pub(crate) fn slice_rows(op: &'static str) -> Vec<OpRow> {
    let constant =
        needs(Reason::ConstRequired, "constant starts, ends, axes and steps above 0", |p, n| slice_walk(p, n).is_ok());
    vec![when(row(op, vec![movable(), other()], movable()), [same_params(), constant])]
}

/// Start and step of each axis as a walk.
fn slice_walk(program: &Program, node: &Node) -> Result<Walk> {
    let (ty, y) = (program.ty(input(node, 0)?), dims(program.ty(output(node)?))?);
    let x = dims(ty)?;
    let wrong = |what: &str| unfit(node, what);
    let ints = |i: usize| ints(program, node, i);
    let starts = ints(1)?.ok_or_else(|| wrong("starts are missing"))?;
    let axes = ints(3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let step_list = ints(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    let mut steps = strides(&x);
    let mut start = 0;
    for ((&first, &axis), &step) in starts.iter().zip(&axes).zip(&step_list) {
        let axis = axis_of(axis, x.len()).ok_or_else(|| wrong("an axis is out of range"))?;
        let step = usize::try_from(step).ok().filter(|s| *s > 0).ok_or_else(|| wrong("a step is not above 0"))?;
        let extent = x[axis] as i64;
        let first = if first < 0 { first.saturating_add(extent) } else { first }.clamp(0, extent) as usize;
        if y.len() != x.len() || (y[axis] > 0 && first + (y[axis] - 1) * step >= x[axis]) {
            return Err(wrong("bounds leave the input"));
        }
        start += first * steps[axis];
        steps[axis] *= step;
    }
    let width = ty.dtype.bits() / 8;
    Ok(Walk::new(&y, &steps, width).starting_at(start * width))
}

/// Steps of Slice.
pub(crate) fn slice(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let walk = slice_walk(builder.program, node)?;
    push_walk(builder, node, walk)
}

/// Rows of Split: the sizes are those of the outputs' types.
pub(crate) fn split_rows(op: &'static str) -> Vec<OpRow> {
    let fits =
        needs(Reason::ShapeLimit, "outputs that add up to the input along the axis", |p, n| split_walks(p, n).is_ok());
    vec![when(split_row(op, vec![movable(), other()], movable()), [same_params(), fits])]
}

fn split_walks(program: &Program, node: &Node) -> Result<Vec<Walk>> {
    let ty = program.ty(input(node, 0)?);
    let x = dims(ty)?;
    let wrong = || unfit(node, "the outputs do not add up to the input");
    let axis = axis_of(node.attrs.int("axis", 0)?, x.len()).ok_or_else(wrong)?;
    let (own, width) = (strides(&x), ty.dtype.bits() / 8);
    let mut first = 0usize;
    let mut walks = Vec::with_capacity(node.outputs.len());
    for id in &node.outputs {
        let y = dims(program.ty(*id))?;
        let same = y.len() == x.len() && y.iter().zip(&x).enumerate().all(|(a, (y, x))| a == axis || y == x);
        if !same || y[axis] > x[axis] - first {
            return Err(wrong());
        }
        walks.push(Walk::new(&y, &own, width).starting_at(first * own[axis] * width));
        first += y[axis];
    }
    if first == x[axis] { Ok(walks) } else { Err(wrong()) }
}

/// Steps of Split, one per output.
pub(crate) fn split(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let walks = split_walks(builder.program, node)?;
    let x = input(node, 0)?;
    let from = builder.in_form(x, Form { nhwc: false, flipped: flips(builder.ty(x)) })?;
    let name = format!("split_b{}", builder.ty(x).dtype.bits());
    for (id, walk) in node.outputs.iter().zip(walks) {
        let to = builder.result(*id, false)?;
        builder.push(&name, vec![from], to, None, Box::new(move |_, io| walk.copy(io.bytes(0)?, io.out)));
    }
    Ok(())
}

/// Rows of Expand.
pub(crate) fn expand_rows(op: &'static str) -> Vec<OpRow> {
    let fits = needs(Reason::ShapeLimit, "an input that broadcasts to the output", |p, n| {
        let (x, y) = (input_ty(p, n, 0), output_ty(p, n));
        let (x, y) = (x.and_then(|t| t.shape.known()), y.and_then(|t| t.shape.known()));
        x.zip(y).is_some_and(|(x, y)| repeat_strides(&x, &y).is_some())
    });
    vec![when(row(op, vec![movable(), other()], movable()), [same_params(), fits])]
}

/// Steps of Expand.
pub(crate) fn expand(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let place = repeated(builder, x, builder.ty(y), false)?;
    builder.alias(y, Form { nhwc: false, flipped: flips(builder.ty(x)) }, place);
    Ok(())
}

/// Rows of Gather: constant indices.
pub(crate) fn gather_rows(op: &'static str) -> Vec<OpRow> {
    let fits = needs(Reason::ConstRequired, "constant indices inside the axis", |p, n| gather_plan(p, n).is_ok());
    vec![when(row(op, vec![movable(), other()], movable()), [same_params(), fits])]
}

/// Positions along the axis, and the bytes behind one of them.
struct Picks {
    at: Vec<usize>,
    extent: usize,
    inner: usize,
}

fn gather_plan(program: &Program, node: &Node) -> Result<Picks> {
    let ty = program.ty(input(node, 0)?);
    let x = dims(ty)?;
    let wrong = || unfit(node, "an index is outside the axis");
    let axis = axis_of(node.attrs.int("axis", 0)?, x.len()).ok_or_else(wrong)?;
    let indices = ints(program, node, 1)?.ok_or_else(wrong)?;
    let at = indices.iter().map(|i| axis_of(*i, x[axis]).ok_or_else(wrong)).collect::<Result<Vec<_>>>()?;
    let y = program.ty(output(node)?).shape.elements();
    let (outer, inner): (usize, usize) = (x[..axis].iter().product(), x[axis + 1..].iter().product());
    if outer.checked_mul(inner).and_then(|n| n.checked_mul(at.len())) != y {
        return Err(wrong());
    }
    Ok(Picks { at, extent: x[axis], inner: inner * (ty.dtype.bits() / 8) })
}

/// Steps of Gather.
pub(crate) fn gather(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let Picks { at, extent, inner } = gather_plan(builder.program, node)?;
    let (x, y) = (input(node, 0)?, output(node)?);
    let from = builder.in_form(x, Form { nhwc: false, flipped: flips(builder.ty(x)) })?;
    let to = builder.result(y, false)?;
    let name = format!("gather_b{}", builder.ty(x).dtype.bits());
    builder.push(
        &name,
        vec![from],
        to,
        None,
        Box::new(move |_, io| {
            let blocks = io.bytes(0)?.chunks_exact(extent * inner);
            for (to, from) in io.out.chunks_exact_mut((at.len() * inner).max(1)).zip(blocks) {
                for (to, i) in to.chunks_exact_mut(inner).zip(&at) {
                    to.copy_from_slice(&from[i * inner..][..inner]);
                }
            }
            Ok(())
        }),
    );
    Ok(())
}

/// Rows of Pad: constant mode, constant counts of 0 or more, a constant value.
pub(crate) fn pad_rows(op: &'static str) -> Vec<OpRow> {
    let fits = needs(Reason::ConstRequired, "mode constant, constant counts of 0 or more, f32 or 8 bits", |p, n| {
        pad_plan(p, n).is_ok()
    });
    vec![when(row(op, vec![movable(), other()], movable()), [same_params(), fits])]
}

/// Elements in front of each axis, and the bytes of the value around.
fn pad_plan(program: &Program, node: &Node) -> Result<(Vec<usize>, Vec<u8>)> {
    let ty = program.ty(input(node, 0)?);
    let (x, y) = (dims(ty)?, dims(program.ty(output(node)?))?);
    let wrong = || unfit(node, "the pads are not constant counts that fit the output");
    if node.attrs.str("mode", "constant")? != "constant" || x.len() != y.len() {
        return Err(wrong());
    }
    let pads = ints(program, node, 1)?.ok_or_else(wrong)?;
    let axes = ints(program, node, 3)?.unwrap_or_else(|| (0..x.len() as i64).collect());
    let mut before = vec![0usize; x.len()];
    let mut after = before.clone();
    for (i, axis) in axes.iter().enumerate() {
        let axis = axis_of(*axis, x.len()).ok_or_else(wrong)?;
        let count = |i: usize| pads.get(i).and_then(|n| usize::try_from(*n).ok()).ok_or_else(wrong);
        (before[axis], after[axis]) = (count(i)?, count(i + axes.len())?);
    }
    let fits = |a: usize| x[a].checked_add(before[a]).and_then(|n| n.checked_add(after[a])) == Some(y[a]);
    if pads.len() == 2 * axes.len() && (0..x.len()).all(fits) {
        Ok((before, fill(program, node)?))
    } else {
        Err(wrong())
    }
}

/// The value around, in the held form of the output.
fn fill(program: &Program, node: &Node) -> Result<Vec<u8>> {
    let ty = program.ty(output(node)?);
    let real = |id: ValueId| -> Result<f32> {
        let data = constant(program, id)?;
        let plain = program.ty(id).quant.is_none();
        let value = data.as_slice::<f32>()?.first().copied().filter(|_| plain && data.elements() == 1);
        value.ok_or_else(|| unfit(node, "the value is no f32 scalar"))
    };
    let value = node.input(2).map_or(Ok(0.0), real)?;
    match (per_tensor(ty), ty.dtype.storage_range()) {
        (Some((scale, zp)), Some((lo, hi))) if ty.dtype.bits() == 8 => {
            let q = quantize_f32(value, scale, zp, lo, hi);
            Ok(vec![if flips(ty) { (q + 128) as u8 } else { q as u8 }])
        }
        (None, _) if ty.dtype == DataType::F32 => Ok(value.to_ne_bytes().to_vec()),
        _ => Err(unfit(node, "only f32 and 8-bit values are padded")),
    }
}

/// Steps of Pad.
pub(crate) fn pad(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (mut before, value) = pad_plan(builder.program, node)?;
    let (x, y) = (input(node, 0)?, output(node)?);
    let nhwc = Form::inside(builder.ty(x), builder.is_nhwc(x)).nhwc && Form::inside(builder.ty(y), true).nhwc;
    let form = Form { nhwc, flipped: false };
    if nhwc {
        before[1..].rotate_left(1);
    }
    let own = strides(&stored_dims(builder.ty(y), form)?);
    let start: usize = before.iter().zip(&own).map(|(n, s)| n * s).sum();
    let walk = Walk::new(&stored_dims(builder.ty(x), form)?, &own, value.len()).starting_at(start * value.len());
    let from = builder.operand(x, nhwc)?;
    let to = builder.result(y, nhwc)?;
    if walk.is_identity() && builder.ty(x).shape == builder.ty(y).shape {
        let (name, run) = copy();
        builder.push(&name, vec![from], to, None, run);
        return Ok(());
    }
    let name = format!("pad_b{}", value.len() * 8);
    builder.push(
        &name,
        vec![from],
        to,
        None,
        Box::new(move |_, io| {
            if io.out.len() % value.len() != 0 {
                return Err(Error::failed(Status::Internal, "a padded value has an odd size"));
            }
            io.out.chunks_exact_mut(value.len()).for_each(|to| to.copy_from_slice(&value));
            walk.scatter(io.bytes(0)?, io.out)
        }),
    );
    Ok(())
}
