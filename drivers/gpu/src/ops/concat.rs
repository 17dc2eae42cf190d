//! Concat: operands of the result's parameters are copied, others requantized (the Concat row of numerics.md section 4).

use super::output;
use super::rows::{movable, row};
use super::strided::{Lane, Operand, form_for, joined, lane_words, present};
use super::types::{axis_of, code, range, refuse, scale_words, word};
use crate::builder::{Buf, Builder, Launch};
use crate::form::Stored;
use crate::{Form, Target};
use ottava_hal::capability::FusedSupport;
use ottava_hal::{DataType, Error, Node, OpRow, Reason, Result, Shape, TensorType, ValueId};

/// Operands of one launch.
const PARTS: usize = 4;

/// Rows of Concat.
pub(super) fn rows(target: &Target) -> Vec<OpRow> {
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    vec![OpRow { fused, ..row(target, vec![movable()], movable()) }]
}

/// Up to four operands per launch; what a launch has joined is the first operand of the next.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (inputs, y) = (present(node), output(node)?);
    let (ty, dims) = (builder.ty(y), builder.dims(y)?);
    let axis = axis_of(node.attrs.int("axis", 0)?, dims.len())?;
    if ty.dtype == DataType::S64 {
        return refuse(Reason::Dtype, "64-bit elements are joined");
    }
    for &id in &inputs {
        check(builder.ty(id), ty)?;
    }
    let form = form(builder, &inputs, y)?;
    let mut pending: Vec<Operand<'_>> = Vec::new();
    for (i, &id) in inputs.iter().enumerate() {
        let part = Operand::of(builder, id)?;
        if part.dims.contains(&0) {
            continue;
        }
        pending.push(part);
        if pending.len() == PARTS && i + 1 < inputs.len() {
            pending = vec![partial(builder, node, ty, form, axis, &pending)?];
        }
    }
    let to = builder.write(y, form)?;
    let stored = Stored::new(ty, form)?;
    join(builder, node, ty, axis, &stored, &pending, to)
}

/// Plain operands have the result's type; quantized ones one scale each.
fn check(x: &TensorType, y: &TensorType) -> Result<()> {
    match (&x.quant, &y.quant) {
        (None, None) if x.dtype == y.dtype => Ok(()),
        (Some(_), Some(_)) => scale_words(x).map(drop),
        _ => refuse(Reason::QuantScheme, "quantized and plain values are joined"),
    }
}

/// The form of the first computed operand.
fn form(builder: &Builder<'_>, inputs: &[ValueId], y: ValueId) -> Result<Form> {
    match inputs.iter().find(|id| builder.data(**id).is_none()) {
        Some(id) => Ok(builder.form_of(*id)),
        None => form_for(builder, inputs, y),
    }
}

/// What some operands join to, in working memory.
fn partial<'p>(
    builder: &mut Builder<'p>,
    node: &Node,
    ty: &'p TensorType,
    form: Form,
    axis: usize,
    parts: &[Operand<'p>],
) -> Result<Operand<'p>> {
    let empty = || Error::invalid("nothing is joined");
    let mut dims = parts.first().ok_or_else(empty)?.dims.clone();
    dims[axis] = parts.iter().map(|p| p.dims[axis]).sum();
    let stored = Stored::new(&TensorType { shape: Shape::fixed(&dims), ..ty.clone() }, form)?;
    let buf = builder.scratch(stored.bytes()?)?;
    join(builder, node, ty, axis, &stored, parts, buf)?;
    Ok(Operand { ty, dims, stored, buf })
}

fn join(
    builder: &mut Builder<'_>,
    node: &Node,
    ty: &TensorType,
    axis: usize,
    stored: &Stored,
    parts: &[Operand<'_>],
    to: Buf,
) -> Result<()> {
    let lane = |a: &crate::form::Axis| Lane {
        padded: a.padded,
        real: a.extent,
        steps: parts.iter().map(|p| p.stored.stride(a.axis)).collect(),
        alone: a.axis == axis,
    };
    let lanes = joined(stored.axes.iter().map(lane).collect())?;
    let joint = lanes.iter().position(|l| l.alone).unwrap_or(0);
    let (words, (lo, hi)) = (builder.bytes(to) / 4, range(node, ty));
    let mut params = vec![words as u32, code(ty)];
    params.extend(scale_words(ty)?);
    params.extend([lo as u32, hi as u32, lanes.len() as u32, joint as u32, parts.len() as u32]);
    let mut begin = 0;
    for i in 0..PARTS {
        let Some(part) = parts.get(i) else {
            params.extend([0; 4]);
            continue;
        };
        let copied = (part.ty.dtype, &part.ty.quant) == (ty.dtype, &ty.quant) && node.fused.clamp.is_none();
        let [scale, zp] = scale_words(part.ty)?;
        params.extend([word(begin)?, code(part.ty), if copied { 0 } else { scale }, zp]);
        begin += part.dims[axis];
    }
    params.extend(lane_words(&lanes, PARTS)?);
    let last = parts.last().ok_or_else(|| Error::invalid("nothing is joined"))?;
    let buf = |i: usize| parts.get(i).unwrap_or(last).buf;
    builder.launch(&Launch {
        kernel: "concat",
        defines: &[],
        spec: &[],
        params: &params,
        inputs: &[buf(0), buf(1), buf(2), buf(3)],
        output: to,
        items: [words, 1, 1],
        local: None,
    })
}
