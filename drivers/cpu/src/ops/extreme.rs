//! ReduceMax and ReduceMin over any axes: f32, and 8 bits, where the extreme is that of the bytes and a table brings it to
//! the parameters of the result (it never reorders bytes, so it may come last).
//!
//! Elements of a set are met in ascending index, as the reference meets them: of equal ones (zeros of two signs) the last
//! wins, of NaNs the first.

use super::table::between;
use crate::arena::Io;
use crate::builder::{Builder, input, output};
use crate::form::{Form, dims, flips};
use crate::rows::{byte, float, needs, other, row, when};
use crate::strided::{Walk, strides};
use ottava_hal::capability::FusedSupport;
use ottava_hal::{Error, Node, OpRow, Program, Reason, Result};

/// Rows of an extreme.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let constant = needs(Reason::AttrValue, "constant axes", |p, n| axes_of(p, n).is_ok());
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    let typed = OpRow { fused, ..row(op, vec![byte(), other()], byte()) };
    vec![when(typed, [constant]), when(row(op, vec![float(), other()], float()), [constant])]
}

/// The folded axes, ascending; without any given, all.
fn axes_of(program: &Program, node: &Node) -> Result<Vec<usize>> {
    let rank = program.ty(input(node, 0)?).shape.rank();
    let wrong = || Error::unsupported(Reason::AttrValue, format!("node `{}`: its axes", node.name));
    let given = match node.input(1) {
        Some(id) => Some(program.value(id).constant.as_ref().ok_or_else(wrong)?.to_ints()?),
        None => node.attrs.ints_opt("axes")?.map(<[i64]>::to_vec),
    };
    let given = given.unwrap_or_default();
    if given.is_empty() {
        let folds = node.attrs.int("noop_with_empty_axes", 0)? == 0;
        return if folds { Ok((0..rank).collect()) } else { Err(wrong()) };
    }
    let axis = |a: i64| usize::try_from(if a < 0 { a.saturating_add(rank as i64) } else { a }).ok();
    let mut axes: Vec<usize> =
        given.into_iter().map(|a| axis(a).filter(|a| *a < rank).ok_or_else(wrong)).collect::<Result<_>>()?;
    axes.sort_unstable();
    axes.dedup();
    Ok(axes)
}

/// Steps of an extreme.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from_ty, to_ty) = (builder.ty(x), builder.ty(y));
    let axes = axes_of(builder.program, node)?;
    let (extents, own) = (dims(from_ty)?, strides(&dims(from_ty)?));
    // The folded axes last, in their order.
    let order: Vec<usize> = (0..extents.len()).filter(|a| !axes.contains(a)).chain(axes.iter().copied()).collect();
    let width = from_ty.dtype.bits() / 8;
    let of = |values: &[usize]| order.iter().map(|a| values[*a]).collect::<Vec<_>>();
    let walk = Walk::new(&of(&extents), &of(&own), width);
    let mut from = builder.in_form(x, Form { nhwc: false, flipped: flips(from_ty) })?;
    if !walk.is_identity() {
        let place = builder.buffer(extents.iter().product::<usize>() * width);
        builder.push("permute", vec![from], place, None, Box::new(move |_, io| walk.copy(io.bytes(0)?, io.out)));
        from = place;
    }
    let n = axes.iter().map(|a| extents[*a]).product::<usize>();
    let to = builder.result(y, false)?;
    let most = node.op == "ReduceMax";
    let name = format!("{}_b{}", node.op.to_lowercase(), from_ty.dtype.bits());
    if from_ty.quant.is_none() {
        builder.push(&name, vec![from], to, None, Box::new(move |_, io| floats(n, most, io)));
        return Ok(());
    }
    let table = Box::new(between(from_ty, to_ty, node)?.unwrap_or_else(|| std::array::from_fn(|i| i as u8)));
    builder.push(&name, vec![from], to, None, Box::new(move |_, io| bytes(n, most, &table, io)));
    Ok(())
}

fn floats(n: usize, most: bool, mut io: Io<'_>) -> Result<()> {
    let x: &[f32] = io.read(0)?;
    let start = if most { f32::NEG_INFINITY } else { f32::INFINITY };
    // Not `f32::max`: a NaN stays, and of equal values the later one is taken.
    let keeps = |acc: f32, v: f32| acc.is_nan() || if most { acc > v } else { acc < v };
    for (to, row) in io.out::<f32>()?.iter_mut().zip(x.chunks_exact(n)) {
        *to = row.iter().fold(start, |acc, v| if keeps(acc, *v) { acc } else { *v });
    }
    Ok(())
}

fn bytes(n: usize, most: bool, table: &[u8; 256], io: Io<'_>) -> Result<()> {
    let x = io.bytes(0)?;
    for (to, row) in io.out.iter_mut().zip(x.chunks_exact(n)) {
        let found = if most { row.iter().max() } else { row.iter().min() };
        *to = table[usize::from(found.copied().unwrap_or(0))];
    }
    Ok(())
}
