//! Concat: parts copied side by side; 8-bit parts with parameters of their own are requantized on the way by a table.

use super::table::{apply, between};
use crate::arena::Io;
use crate::builder::{Builder, bytes_of, input, output};
use crate::form::{Form, dims, stored_dims};
use crate::rows::{byte, float, needs, row, when};
use crate::sharing::Sharing;
use ottava_hal::capability::FusedSupport;
use ottava_hal::{Error, Node, OpRow, Program, Reason, Result, Status, TensorType};

/// Rows of Concat: 8-bit inputs may have parameters of their own.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let fits = needs(Reason::ShapeLimit, "inputs that differ along the axis only", |p, n| axis_of(p, n).is_ok());
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    let typed = OpRow { fused, ..row(op, vec![byte()], byte()) };
    vec![when(typed, [fits]), when(row(op, vec![float()], float()), [fits])]
}

fn axis_of(program: &Program, node: &Node) -> Result<usize> {
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
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let axis = axis_of(builder.program, node)?;
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
    let places = if rows == 1 { places(&parts) } else { vec![] };
    builder.push(&name, reads, to, None, Box::new(move |_, io| copy_parts(&parts, rows, io)));
    builder.share(Sharing::Parts(places));
    Ok(())
}

/// Where each part of a single row lies, if it is taken as it is: its producer may write it there.
fn places(parts: &[Part]) -> Vec<Option<usize>> {
    let mut first = 0;
    let mut place = |p: &Part| {
        first += p.bytes;
        p.table.is_none().then_some(first - p.bytes)
    };
    parts.iter().map(&mut place).collect()
}

fn copy_parts(parts: &[Part], rows: usize, io: Io<'_>) -> Result<()> {
    let row: usize = parts.iter().map(|p| p.bytes).sum();
    let mut first = 0;
    for (i, p) in parts.iter().enumerate() {
        if io.held_at(i) == Some(first) {
            first += p.bytes;
            continue;
        }
        let from = io.bytes(i)?;
        if from.len() != p.bytes * rows || io.out.len() != row * rows {
            return Err(Error::failed(Status::Internal, "parts of a concatenation have other sizes than planned"));
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
}

fn part(x: &TensorType, y: &TensorType, node: &Node, rows: usize) -> Result<Part> {
    let table = if y.quant.is_some() { between(x, y, node)?.map(Box::new) } else { None };
    Ok(Part { bytes: bytes_of(x)? / rows.max(1), table })
}
