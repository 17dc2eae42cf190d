//! Operators that move elements: views (Reshape and its kin, Identity), Transpose, Slice, Concat.
//!
//! Views copy nothing. A transposition between channels-first and channels-last is a view too: it renames the form in
//! which the value already lies, or will lie.

use super::table::{apply, between};
use crate::builder::{Builder, bytes_of, input, output};
use crate::form::{Form, dims, flips, stored_dims};
use crate::rows::{byte, float, input_ty, needs, other, output_ty, row, same_params, when};
use crate::strided::{Walk, strides};
use ottava_hal::capability::{FusedSupport, Operand, QuantKind};
use ottava_hal::{DataType, Error, Node, OpRow, Program, Reason, Result, Status, TensorType};

/// Anything with whole bytes and at most one scale.
fn movable() -> Operand {
    let dtypes = DataType::ALL.into_iter().filter(|t| t.bits() >= 8).collect();
    Operand { dtypes, quant: vec![QuantKind::Plain, QuantKind::PerTensor], constant: false, optional: false }
}

/// Rows of views and of Transpose: the second input, if any, only says what the output's type says.
pub(crate) fn view_rows(op: &'static str) -> Vec<OpRow> {
    let same_size = needs(Reason::ShapeLimit, "as many elements in the output as in the input", |p, n| {
        input_ty(p, n, 0).zip(output_ty(p, n)).is_some_and(|(x, y)| x.shape.elements() == y.shape.elements())
    });
    vec![when(row(op, vec![movable(), other()], movable()), [same_params(), same_size])]
}

/// Rows of Transpose.
pub(crate) fn transpose_rows(op: &'static str) -> Vec<OpRow> {
    let permutes = needs(Reason::AttrValue, "a permutation of the axes", |p, n| permutation(p, n).is_ok());
    view_rows(op).into_iter().map(|r| when(r, [permutes])).collect()
}

/// Rows of Slice: constant bounds, steps above 0.
pub(crate) fn slice_rows(op: &'static str) -> Vec<OpRow> {
    let constant =
        needs(Reason::ConstRequired, "constant starts, ends, axes and steps above 0", |p, n| slice_walk(p, n).is_ok());
    vec![when(row(op, vec![movable(), other()], movable()), [same_params(), constant])]
}

/// Rows of Concat: 8-bit inputs may have parameters of their own.
pub(crate) fn concat_rows(op: &'static str) -> Vec<OpRow> {
    let fits = needs(Reason::ShapeLimit, "inputs that differ along the axis only", |p, n| concat_axis(p, n).is_ok());
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    let typed = OpRow { fused, ..row(op, vec![byte()], byte()) };
    vec![when(typed, [fits]), when(row(op, vec![float()], float()), [fits])]
}

/// A view of row-major bytes.
pub(crate) fn view(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from, to) = (builder.ty(x), builder.ty(y));
    let nhwc = builder.is_nhwc(x) && from.shape == to.shape;
    let form = Form { nhwc, flipped: flips(from) };
    let place = builder.in_form(x, form)?;
    builder.alias(y, form, place);
    Ok(())
}

fn permutation(program: &Program, node: &Node) -> Result<Vec<usize>> {
    let x = dims(program.ty(input(node, 0)?))?;
    let wrong = || Error::invalid(format!("node `{}`: `perm` is no permutation of {} axes", node.name, x.len()));
    let perm: Vec<usize> = match node.attrs.ints_opt("perm")? {
        None => (0..x.len()).rev().collect(),
        Some(p) => p.iter().map(|&a| usize::try_from(a).map_err(|_| wrong())).collect::<Result<_>>()?,
    };
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    let y = dims(program.ty(output(node)?))?;
    let fits = sorted.iter().copied().eq(0..x.len()) && perm.iter().map(|&a| x[a]).eq(y.iter().copied());
    if fits { Ok(perm) } else { Err(wrong()) }
}

/// Steps of Transpose.
pub(crate) fn transpose(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let perm = permutation(builder.program, node)?;
    let (x, y) = (input(node, 0)?, output(node)?);
    let (ty, flipped) = (builder.ty(x), flips(builder.ty(x)));
    let has_form = perm.len() >= 3 && matches!(ty.dtype.bits(), 8 | 32);
    let to_back: Vec<usize> = std::iter::once(0).chain(2..perm.len()).chain([1]).collect();
    let to_front: Vec<usize> =
        [0, perm.len().saturating_sub(1)].into_iter().chain(1..perm.len().saturating_sub(1)).collect();
    let flat = Form { nhwc: false, flipped };
    if has_form && perm == to_back {
        let place = builder.in_form(x, Form { nhwc: true, flipped })?;
        builder.alias(y, flat, place);
        return Ok(());
    }
    let place = builder.in_form(x, flat)?;
    if has_form && perm == to_front {
        builder.alias(y, Form { nhwc: true, flipped }, place);
        return Ok(());
    }
    let own = strides(&dims(ty)?);
    let steps: Vec<usize> = perm.iter().map(|&a| own[a]).collect();
    let walk = Walk::new(&dims(builder.ty(y))?, &steps, ty.dtype.bits() / 8);
    if walk.is_identity() {
        builder.alias(y, flat, place);
        return Ok(());
    }
    push_walk(builder, node, walk)
}

/// Copies along a walk over the row-major input.
fn push_walk(builder: &mut Builder<'_>, node: &Node, walk: Walk) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let from = builder.in_form(x, Form { nhwc: false, flipped: flips(builder.ty(x)) })?;
    let to = builder.result(y, false)?;
    let name = format!("{}_b{}", node.op.to_lowercase(), builder.ty(x).dtype.bits());
    builder.push(&name, vec![from], to, None, Box::new(move |_, io| walk.copy(io.bytes(0)?, io.out)));
    Ok(())
}

/// Start and step of each axis as a walk.
fn slice_walk(program: &Program, node: &Node) -> Result<Walk> {
    let (ty, y) = (program.ty(input(node, 0)?), dims(program.ty(output(node)?))?);
    let x = dims(ty)?;
    let wrong = |what: &str| Error::unsupported(Reason::ConstRequired, format!("node `{}`: {what}", node.name));
    let ints = |i: usize| -> Result<Option<Vec<i64>>> {
        let Some(id) = node.input(i) else { return Ok(None) };
        let data = program.value(id).constant.as_ref().ok_or_else(|| wrong("bounds are not constant"))?;
        data.to_ints().map(Some)
    };
    let starts = ints(1)?.ok_or_else(|| wrong("starts are missing"))?;
    let axes = ints(3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let step_list = ints(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    let mut steps = strides(&x);
    let mut start = 0;
    for ((&first, &axis), &step) in starts.iter().zip(&axes).zip(&step_list) {
        let axis = if axis < 0 { axis + x.len() as i64 } else { axis };
        let axis =
            usize::try_from(axis).ok().filter(|a| *a < x.len()).ok_or_else(|| wrong("an axis is out of range"))?;
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

fn concat_axis(program: &Program, node: &Node) -> Result<usize> {
    let y = dims(program.ty(output(node)?))?;
    let axis = node.attrs.int("axis", 0)?;
    let axis = if axis < 0 { axis + y.len() as i64 } else { axis };
    let wrong =
        || Error::invalid(format!("node `{}`: inputs do not concatenate along axis {axis} to {y:?}", node.name));
    let axis = usize::try_from(axis).ok().filter(|a| *a < y.len()).ok_or_else(wrong)?;
    let mut sum = 0usize;
    for i in 0..node.inputs.len() {
        let x = dims(program.ty(input(node, i)?))?;
        let same = x.len() == y.len() && x.iter().zip(&y).enumerate().all(|(a, (x, y))| a == axis || x == y);
        sum = if same { sum.saturating_add(x[axis]) } else { usize::MAX };
    }
    if sum == y[axis] { Ok(axis) } else { Err(wrong()) }
}

/// One input of Concat: bytes per row, and the table that brings it to the output's parameters.
struct Part {
    bytes: usize,
    table: Option<Box<[u8; 256]>>,
}

/// Steps of Concat.
pub(crate) fn concat(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let axis = concat_axis(builder.program, node)?;
    let y = output(node)?;
    let ty = builder.ty(y);
    let ids = (0..node.inputs.len()).map(|i| input(node, i)).collect::<Result<Vec<_>>>()?;
    let nhwc = Form::inside(ty, ids.iter().any(|id| builder.is_nhwc(*id))).nhwc;
    let shape = stored_dims(ty, Form { nhwc, flipped: false })?;
    let at = match (nhwc, axis) {
        (true, 1) => shape.len() - 1,
        (true, a) => a.saturating_sub(1),
        (false, a) => a,
    };
    let rows: usize = shape[..at].iter().product();
    let mut parts = Vec::with_capacity(ids.len());
    let mut reads = Vec::with_capacity(ids.len());
    for id in ids {
        reads.push(builder.operand(id, nhwc)?);
        parts.push(part(builder.ty(id), ty, node, rows)?);
    }
    let to = builder.result(y, nhwc)?;
    let name = format!("concat_b{}", ty.dtype.bits());
    builder.push(
        &name,
        reads,
        to,
        None,
        Box::new(move |_, io| {
            let row: usize = parts.iter().map(|p| p.bytes).sum();
            let mut first = 0;
            for (i, p) in parts.iter().enumerate() {
                let from = io.bytes(i)?;
                if from.len() != p.bytes * rows || io.out.len() != row * rows {
                    return Err(Error::failed(
                        Status::Internal,
                        "parts of a concatenation have other sizes than planned",
                    ));
                }
                for (to, from) in io.out.chunks_exact_mut(row).zip(from.chunks_exact(p.bytes.max(1))) {
                    match &p.table {
                        None => to[first..first + p.bytes].copy_from_slice(from),
                        Some(table) => apply(table, from, &mut to[first..first + p.bytes]),
                    }
                }
                first += p.bytes;
            }
            Ok(())
        }),
    );
    Ok(())
}

fn part(x: &TensorType, y: &TensorType, node: &Node, rows: usize) -> Result<Part> {
    let table = if y.quant.is_some() { between(x, y, node)?.map(Box::new) } else { None };
    Ok(Part { bytes: bytes_of(x)? / rows.max(1), table })
}
