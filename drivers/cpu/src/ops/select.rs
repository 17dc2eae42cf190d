//! Where: one of two operands, element by element; any plain type, and 8 bits, whose operands may have parameters of their
//! own and are requantized by a table.

use super::binary::{repeat_strides, repeated};
use super::movement::movable;
use super::table::between;
use crate::arena::Io;
use crate::builder::{Builder, input, output};
use crate::rows::{byte, input_ty, needs, output_ty, row, when};
use ottava_hal::capability::{FusedSupport, Operand, Predicate, QuantKind};
use ottava_hal::{DataType, Node, OpRow, Reason, Result, ValueId};

/// Rows of Where.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let flags = || Operand { dtypes: vec![DataType::Bool], quant: vec![QuantKind::Plain], ..Operand::default() };
    let plain = || Operand { quant: vec![QuantKind::Plain], ..movable() };
    let same = needs(Reason::Dtype, "operands of the output's type", |p, n| {
        let dtype = output_ty(p, n).map(|y| y.dtype);
        (1..3).all(|i| input_ty(p, n, i).map(|x| x.dtype) == dtype)
    });
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    let typed = OpRow { fused, ..row(op, vec![flags(), byte(), byte()], byte()) };
    vec![when(row(op, vec![flags(), plain(), plain()], plain()), [broadcasts(), same]), when(typed, [broadcasts()])]
}

fn broadcasts() -> Predicate {
    needs(Reason::ShapeLimit, "three operands that broadcast to the output", |p, n| {
        let Some(y) = output_ty(p, n).and_then(|t| t.shape.known()) else { return false };
        let fits = |id: &Option<ValueId>| {
            id.and_then(|id| p.ty(id).shape.known()).is_some_and(|x| repeat_strides(&x, &y).is_some())
        };
        n.inputs.len() == 3 && n.inputs.iter().all(fits)
    })
}

/// Steps of Where.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (ids, y) = ([input(node, 0)?, input(node, 1)?, input(node, 2)?], output(node)?);
    let ty = builder.ty(y);
    let nhwc = ids.iter().any(|id| builder.is_nhwc(*id) && builder.ty(*id).shape == ty.shape);
    let reads = ids.iter().map(|id| repeated(builder, *id, ty, nhwc)).collect::<Result<Vec<_>>>()?;
    let to = builder.result(y, nhwc)?;
    let width = ty.dtype.bits() / 8;
    let name = format!("where_b{}", ty.dtype.bits());
    if ty.quant.is_none() {
        builder.push(&name, reads, to, None, Box::new(move |_, io| pick(width, io)));
        return Ok(());
    }
    let table = |id: ValueId| between(builder.ty(id), ty, node).map(|t| t.unwrap_or_else(identity));
    let tables = Box::new([table(ids[1])?, table(ids[2])?]);
    builder.push(&name, reads, to, None, Box::new(move |_, io| pick_bytes(&tables, io)));
    Ok(())
}

fn identity() -> [u8; 256] {
    std::array::from_fn(|i| i as u8)
}

fn pick(width: usize, io: Io<'_>) -> Result<()> {
    let (flags, a, b) = (io.bytes(0)?, io.bytes(1)?, io.bytes(2)?);
    let operands = a.chunks_exact(width).zip(b.chunks_exact(width));
    for ((to, flag), (a, b)) in io.out.chunks_exact_mut(width).zip(flags).zip(operands) {
        to.copy_from_slice(if *flag != 0 { a } else { b });
    }
    Ok(())
}

fn pick_bytes([first, second]: &[[u8; 256]; 2], io: Io<'_>) -> Result<()> {
    let (flags, a, b) = (io.bytes(0)?, io.bytes(1)?, io.bytes(2)?);
    for ((to, flag), (a, b)) in io.out.iter_mut().zip(flags).zip(a.iter().zip(b)) {
        *to = if *flag != 0 { first[usize::from(*a)] } else { second[usize::from(*b)] };
    }
    Ok(())
}
