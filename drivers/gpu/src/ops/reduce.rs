//! Folds over axes: ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, norms, the global pools, and the mean of what a
//! mask keeps.

use super::means::Means;
use super::rows::{SAME_TYPE, float, integer, numbers, plain_integer, row, when};
use super::strided::{Lane, Operand, joined, lane_words};
use super::types::{axis_of, code, constant_ints, range, refuse, word};
use super::{input, output};
use crate::builder::{Builder, Launch};
use crate::form::Stored;
use crate::{Form, Target};
use ottava_hal::capability::{FusedSupport, Operand as Accepts};
use ottava_hal::{DataType, Node, OpRow, Reason, Result};

/// Operation numbers of the kernel.
const OPERATIONS: [&str; 9] = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceSumSquare",
    "ReduceL2",
    "ReduceLogSum",
];

fn clamped(row: OpRow) -> OpRow {
    OpRow { fused: FusedSupport { clamp: true, ..FusedSupport::default() }, ..row }
}

/// Rows of sums and means.
pub(super) fn mean_rows(target: &Target) -> Vec<OpRow> {
    let mut rows = norm_rows(target);
    rows.push(clamped(row(target, vec![integer(), numbers()], integer())));
    rows.push(when(row(target, vec![plain_integer(), numbers()], plain_integer()), SAME_TYPE));
    rows
}

/// Rows of extremes and products.
pub(super) fn extreme_rows(target: &Target) -> Vec<OpRow> {
    let mut rows = norm_rows(target);
    rows.push(when(clamped(row(target, vec![integer(), numbers()], integer())), SAME_TYPE));
    rows.push(when(row(target, vec![plain_integer(), numbers()], plain_integer()), SAME_TYPE));
    rows
}

/// Rows of floats alone.
pub(super) fn norm_rows(target: &Target) -> Vec<OpRow> {
    vec![when(row(target, vec![float(), numbers()], float()), SAME_TYPE)]
}

/// Rows of the mean of what counts.
pub(super) fn masked_rows(target: &Target) -> Vec<OpRow> {
    let masked = |x: fn() -> Accepts| row(target, vec![x(), super::rows::mask()], x());
    vec![clamped(masked(integer)), when(masked(float), SAME_TYPE)]
}

/// Which axes are folded, and whether the result keeps them.
fn folded(builder: &Builder<'_>, node: &Node, rank: usize) -> Result<(Vec<bool>, bool)> {
    let mut marks = vec![false; rank];
    if node.op.starts_with("Global") {
        marks.iter_mut().skip(2).for_each(|m| *m = true);
        return Ok((marks, true));
    }
    if node.op == "MaskedMean" {
        marks[axis_of(node.attrs.int("axis", 0)?, rank)?] = true;
        return Ok((marks, node.attrs.int("keepdims", 0)? != 0));
    }
    let axes = match constant_ints(builder, node, 1)? {
        Some(axes) => axes,
        None => node.attrs.ints_opt("axes")?.map(<[i64]>::to_vec).unwrap_or_default(),
    };
    let all = axes.is_empty() && node.attrs.int("noop_with_empty_axes", 0)? == 0;
    for axis in axes {
        marks[axis_of(axis, rank)?] = true;
    }
    marks.iter_mut().for_each(|m| *m |= all);
    Ok((marks, node.attrs.int("keepdims", 1)? != 0))
}

fn operation(node: &Node) -> u32 {
    let name = match node.op.as_str() {
        "GlobalAveragePool" | "MaskedMean" => "ReduceMean",
        "GlobalMaxPool" => "ReduceMax",
        other => other,
    };
    OPERATIONS.iter().position(|n| *n == name).unwrap_or(0) as u32
}

/// The input where it lies, if the folded axes are few there; row-major ones always are.
fn source<'p>(builder: &mut Builder<'p>, node: &Node, marks: &[bool]) -> Result<Operand<'p>> {
    let id = input(node, 0)?;
    let x = Operand::of(builder, id)?;
    let fold =
        |a: usize| Lane { padded: x.dims[a], real: x.dims[a], steps: vec![x.step(a, marks.len())], alone: false };
    let folds = joined((0..marks.len()).filter(|a| marks[*a]).map(fold).collect())?;
    if folds.len() <= 3 {
        return Ok(x);
    }
    builder.read(id, Form::Plain)?;
    Operand::of(builder, id)
}

/// One launch, from the form in which the input lies.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let y = output(node)?;
    let rank = builder.dims(input(node, 0)?)?.len();
    let (marks, keeps) = folded(builder, node, rank)?;
    let x = source(builder, node, &marks)?;
    let mask = match node.input(1) {
        Some(id) if node.op == "MaskedMean" => Some(Operand::of(builder, id)?),
        _ => None,
    };
    let (ty, op) = (builder.ty(y), operation(node));
    let image = keeps && builder.form_of(input(node, 0)?) == Form::Image;
    let form = if image { Form::Image } else { Form::Plain };
    let stored = Stored::new(ty, form)?;
    let steps = |axis: usize| {
        let of_mask = mask.as_ref().map_or(0, |m| m.step(axis, x.dims.len()));
        vec![x.step(axis, x.dims.len()), of_mask]
    };
    let kept: Vec<usize> = (0..marks.len()).filter(|a| keeps || !marks[*a]).collect();
    let own = |a: &crate::form::Axis| {
        let axis = kept.get(a.axis).copied().filter(|axis| !marks[*axis]);
        Lane { padded: a.padded, real: a.extent, steps: axis.map_or(vec![0, 0], steps), alone: false }
    };
    let lanes = joined(stored.axes.iter().map(own).collect())?;
    let fold = |axis: usize| Lane { padded: x.dims[axis], real: x.dims[axis], steps: steps(axis), alone: false };
    let folds = joined((0..marks.len()).filter(|a| marks[*a]).map(fold).collect())?;
    if folds.len() > 3 {
        return refuse(Reason::Rank, format!("{} separate axes are folded", folds.len()));
    }
    let n: usize = folds.iter().map(|l| l.real).product();
    let quantized = ty.quant.is_some() && op < 2;
    let means = if quantized { Some(Means::of(builder, node)?) } else { None };
    if means.is_none() && x.ty.quant.is_none() != ty.quant.is_none() {
        return refuse(Reason::QuantScheme, "one side is quantized");
    }
    if op == 1 && means.is_none() && !ty.dtype.is_float() {
        return refuse(Reason::Dtype, "a mean of plain integers");
    }
    let first = if mask.is_none() && op == 1 { n } else { 1 };
    let scales = match &means {
        Some(means) => {
            means.check_terms(n)?;
            means.scales(builder, first..=if op == 1 { n } else { 1 }, n)?
        }
        None => builder.words(&[0])?,
    };
    let plain = ty.quant.is_none() && !ty.dtype.is_float();
    // What leaves a plain integer's range wraps.
    let (lo, hi) = if plain { (i32::MIN, i32::MAX) } else { range(node, ty) };
    let to = builder.write(y, form)?;
    let words = builder.bytes(to) / 4;
    let (in_zp, out_zp, mode) = means.map_or((0, 0, 0), |m| (m.x.zp, m.to.zp, m.mode.as_u32()));
    let mut params = vec![words as u32, op, code(x.ty), code(ty), in_zp as u32, out_zp as u32, lo as u32, hi as u32];
    params.extend([mode, mask.as_ref().map_or(0, |m| code(m.ty)), lanes.len() as u32]);
    for i in 0..3 {
        let Some(fold) = folds.get(i) else {
            params.extend([1, 0, 0]);
            continue;
        };
        params.extend([word(fold.real)?, word(fold.steps[0])?, word(fold.steps[1])?]);
    }
    params.extend(lane_words(&lanes, 2)?);
    params.push(word(first)?);
    let kept_by = mask.as_ref().map_or(x.buf, |m| m.buf);
    builder.launch(&Launch {
        kernel: "reduce",
        defines: &[],
        spec: &[],
        params: &params,
        inputs: &[x.buf, kept_by, scales],
        output: to,
        items: [words, 1, 1],
        local: None,
    })
}

/// Rows of the global pools.
pub(super) fn global_rows(target: &Target) -> Vec<OpRow> {
    mean_rows(target).into_iter().map(|r| OpRow { ranks: (2, 6), ..r }).collect()
}

/// Rows of the global maximum.
pub(super) fn global_max_rows(target: &Target) -> Vec<OpRow> {
    let bytes = |r: &OpRow| r.inputs[0].dtypes.contains(&DataType::S32);
    extreme_rows(target).into_iter().filter(|r| !bytes(r)).map(|r| OpRow { ranks: (2, 6), ..r }).collect()
}
