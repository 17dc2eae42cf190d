//! Gather: with constant indices it is a list of pieces ([`super::pieces`]); here, rows of a tensor that computed indices
//! choose, as embeddings are looked up. An index outside the axis is an error of the run.

use super::movement::movable;
use super::pieces::{axis_of, gather, gather_rows};
use crate::builder::{Builder, input, output};
use crate::form::{Form, dims, flips};
use crate::rows::{needs, row, same_params, when};
use ottava_hal::capability::{Operand, QuantKind};
use ottava_hal::{DataType, Error, Node, OpRow, Program, Reason, Result};

/// Rows of Gather.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let dtypes = vec![DataType::S32, DataType::S64];
    let indices = Operand { dtypes, quant: vec![QuantKind::Plain], constant: false, optional: false };
    let fits = needs(Reason::ShapeLimit, "an axis of the data", |p, n| Picks::of(p, n).is_ok());
    let computed = needs(Reason::Other, "computed indices", is_computed);
    let own = when(row(op, vec![movable(), indices], movable()), [same_params(), computed, fits]);
    gather_rows(op).into_iter().chain([own]).collect()
}

fn is_computed(program: &Program, node: &Node) -> bool {
    node.input(1).is_some_and(|id| program.value(id).constant.is_none())
}

/// Steps of Gather.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    if is_computed(builder.program, node) { computed(builder, node) } else { gather(builder, node) }
}

/// Rows of bytes along the axis.
struct Picks {
    extent: usize,
    /// Bytes behind one position of the axis.
    inner: usize,
    n_indices: usize,
}

impl Picks {
    fn of(program: &Program, node: &Node) -> Result<Self> {
        let ty = program.ty(input(node, 0)?);
        let (x, indices) = (dims(ty)?, dims(program.ty(input(node, 1)?))?);
        let wrong = || Error::unsupported(Reason::ShapeLimit, format!("node `{}`: its axis", node.name));
        let axis = axis_of(node.attrs.int("axis", 0)?, x.len()).ok_or_else(wrong)?;
        let inner = x[axis + 1..].iter().product::<usize>() * (ty.dtype.bits() / 8);
        Ok(Self { extent: x[axis], inner, n_indices: indices.iter().product() })
    }
}

fn computed(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let Picks { extent, inner, n_indices } = Picks::of(builder.program, node)?;
    let (x, indices) = (input(node, 0)?, input(node, 1)?);
    let flat = Form { nhwc: false, flipped: flips(builder.ty(x)) };
    let reads = vec![builder.in_form(x, flat)?, builder.in_form(indices, Form::OUTSIDE)?];
    let to = builder.result(output(node)?, false)?;
    let wide = builder.ty(indices).dtype == DataType::S64;
    let name = format!("gather_rows_b{}", builder.ty(x).dtype.bits());
    builder.push(
        &name,
        reads,
        to,
        None,
        Box::new(move |_, io| {
            let (long, short): (&[i64], &[i32]) = if wide { (io.read(1)?, &[]) } else { (&[], io.read(1)?) };
            let index = |i: usize| if wide { long[i] } else { short[i].into() };
            let blocks = io.bytes(0)?.chunks_exact((extent * inner).max(1));
            for (to, from) in io.out.chunks_exact_mut((n_indices * inner).max(1)).zip(blocks) {
                for (i, to) in to.chunks_exact_mut(inner).enumerate() {
                    let at = index(i);
                    let outside = || Error::invalid(format!("index {at} is outside an axis of {extent}"));
                    let row = axis_of(at, extent).ok_or_else(outside)?;
                    to.copy_from_slice(&from[row * inner..][..inner]);
                }
            }
            Ok(())
        }),
    );
    Ok(())
}
