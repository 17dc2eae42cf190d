//! Softmax, LogSoftmax and the masked Softmax: f32, the integer form `softmax_lut` (numerics.md section 6, with 64-bit
//! integers), and TFLite's fixed-point form on 8 bits.

use super::lines::{Along, Lines, Team};
use super::rows::{float, integer, mask, row};
use super::strided::Operand;
use super::types::{axis_of, bound, code, fixed_mode, one_scale, refuse, storage_target, word};
use super::{input, output};
use crate::builder::{Builder, Launch};
use crate::{Form, Target};
use ottava_hal::capability::Operand as Accepts;
use ottava_hal::refmath::softmax::{SOFTMAX_ROW_LIMIT, SoftmaxLut};
use ottava_hal::refmath::tflite_softmax::TfliteSoftmax;
use ottava_hal::{DataType, Node, OpRow, Reason, Result, ValueId};

/// Kinds of the kernel.
const REAL: u32 = 0;
const LOG: u32 = 1;
const FIXED: u32 = 2;
const TABLE: u32 = 3;

fn bytes() -> Accepts {
    Accepts { dtypes: vec![DataType::S8, DataType::U8], ..integer() }
}

/// Rows of Softmax.
pub(super) fn rows(target: &Target) -> Vec<OpRow> {
    vec![row(target, vec![float()], float()), row(target, vec![bytes()], bytes())]
}

/// Rows of LogSoftmax.
pub(super) fn log_rows(target: &Target) -> Vec<OpRow> {
    vec![row(target, vec![float()], float())]
}

/// Rows of the masked Softmax.
pub(super) fn masked_rows(target: &Target) -> Vec<OpRow> {
    vec![row(target, vec![float(), mask()], float()), row(target, vec![bytes(), mask()], bytes())]
}

/// What is computed.
struct Kind {
    number: u32,
    /// Table, multiplier, end of the table.
    entries: Vec<u32>,
    multiplier: u32,
    end: u32,
}

fn kind(builder: &Builder<'_>, node: &Node, x: ValueId, y: ValueId) -> Result<Kind> {
    let plain = |number| Kind { number, entries: vec![0], multiplier: 0, end: 0 };
    let ty = builder.ty(y);
    if ty.quant.is_none() {
        return Ok(plain(if node.op == "LogSoftmax" { LOG } else { REAL }));
    }
    let (xs, to) = (one_scale(builder.ty(x))?.scale, storage_target(ty)?);
    if fixed_mode(node).is_some() && TfliteSoftmax::fits(to) && node.op == "Softmax" {
        let fixed = TfliteSoftmax::new(xs, 1.0, (to.lo, to.hi)).map_err(bound)?;
        let entries = fixed.table.iter().map(|v| *v as u32).collect();
        return Ok(Kind { number: FIXED, entries, multiplier: 0, end: fixed.end as u32 });
    }
    if !builder.target.int64 {
        return refuse(Reason::Dtype, "the device has no 64-bit integers");
    }
    let lut = SoftmaxLut::new(xs, to).map_err(bound)?;
    Ok(Kind { number: TABLE, entries: lut.table.to_vec(), multiplier: lut.multiplier, end: 0 })
}

/// The rows of a node: along its axis, or before version 13 all axes from it on.
fn along(node: &Node, rank: usize) -> Result<Along> {
    if rank == 0 {
        return Ok(Along::From(0));
    }
    if node.op == "MaskedSoftmax" {
        return Ok(Along::Axis(rank - 1));
    }
    if node.version < 13 {
        let axis = node.attrs.int("axis", 1)?;
        return if axis == rank as i64 { Ok(Along::From(rank)) } else { axis_of(axis, rank).map(Along::From) };
    }
    axis_of(node.attrs.int("axis", -1)?, rank).map(Along::Axis)
}

/// One launch, and moves of the rows where they do not lie together.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let kind = kind(builder, node, x, y)?;
    let along = along(node, builder.dims(x)?.len())?;
    let (from, to) = (Lines::of(builder, x, along)?, Lines::of(builder, y, along)?);
    if from.n >= SOFTMAX_ROW_LIMIT {
        return refuse(Reason::ShapeLimit, format!("rows of {} elements", from.n));
    }
    let team = Team::of(builder, from.rows, from.n, kind.number < FIXED)?;
    let (source, result) = (from.read(builder, x)?, to.write(builder, y)?);
    let entries = builder.words(&kind.entries)?;
    let (kept_by, mask_words) = mask_of(builder, node, x)?;
    let target = if kind.number < FIXED { None } else { Some(storage_target(builder.ty(y))?) };
    let (lo, hi, zp) = target.map_or((0, 0, 0), |t| (t.lo, t.hi, t.zp));
    let mut params = vec![word(from.rows)?, word(from.n)?, team.size, kind.number, code(builder.ty(x))];
    params.extend([code(builder.ty(y)), word(from.words)?, word(to.words)?, lo as u32, hi as u32, zp as u32]);
    params.extend([kind.multiplier, kind.end]);
    params.extend(mask_words);
    builder.launch(&Launch {
        kernel: "softmax",
        defines: if kind.number == TABLE { &["WIDE"] } else { &[] },
        spec: &[],
        params: &params,
        inputs: &[source, kept_by.unwrap_or(source), entries],
        output: result,
        items: [team.items, 1, 1],
        local: Some(team.local),
    })?;
    to.finish(builder, y, result)
}

/// The mask and how rows walk it: its type, its stride along a row, and extent and stride of five axes of rows.
fn mask_of(builder: &mut Builder<'_>, node: &Node, x: ValueId) -> Result<(Option<crate::builder::Buf>, Vec<u32>)> {
    let mut words = vec![0, 0];
    let Some(id) = node.input(1) else {
        words.extend([1, 0].repeat(5));
        return Ok((None, words));
    };
    let dims = builder.dims(x)?;
    builder.read(id, Form::Plain)?;
    let mask = Operand::of(builder, id)?;
    let (rank, outer) = (dims.len(), dims.len().saturating_sub(1));
    if outer > 5 || mask.dims.len() > rank {
        return refuse(Reason::Rank, format!("a mask of rank {} on rank {rank}", mask.dims.len()));
    }
    words[0] = code(mask.ty);
    words[1] = if rank > 0 { word(mask.step(outer, rank))? } else { 0 };
    words.extend([1, 0].repeat(5 - outer));
    for (axis, extent) in dims.iter().enumerate().take(outer) {
        words.extend([word(*extent)?, word(mask.step(axis, rank))?]);
    }
    Ok((Some(mask.buf), words))
}
