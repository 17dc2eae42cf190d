//! Operators that rearrange elements: views (Reshape and its kin, Identity) and Transpose.
//!
//! Views copy nothing. A transposition between channels-first and channels-last is a view too: it renames the form in
//! which the value already lies, or will lie. Products of computed operands take the transpositions around them over.

use super::matmul::left_out;
use crate::builder::{Builder, input, output};
use crate::form::{Form, dims, flips};
use crate::rows::{input_ty, needs, other, output_ty, row, same_params, when};
use crate::strided::{Walk, strides};
use ottava_hal::capability::{Operand, QuantKind};
use ottava_hal::{DataType, Error, Node, OpRow, Program, Reason, Result, ValueId};

/// Anything with whole bytes and at most one scale.
pub(super) fn movable() -> Operand {
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

pub(super) fn permutation(program: &Program, node: &Node) -> Result<Vec<usize>> {
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

/// Per value: the program output that is its transposition to channels last.
pub(crate) fn channels_last_outputs(program: &Program) -> Vec<Option<ValueId>> {
    let mut found = vec![None; program.values.len()];
    for node in program.nodes.iter().filter(|n| n.op == "Transpose" && n.domain.is_empty()) {
        let (Some(x), [y]) = (node.input(0), node.outputs.as_slice()) else { continue };
        let is_output = program.outputs.contains(y) && x.0 < found.len();
        if is_output && permutation(program, node).is_ok_and(|perm| perm.len() >= 3 && perm == to_back(perm.len())) {
            found[x.0] = Some(*y);
        }
    }
    found
}

/// The permutation that brings axis 1 to the back.
fn to_back(rank: usize) -> Vec<usize> {
    std::iter::once(0).chain(2..rank).chain([1]).collect()
}

/// Steps of Transpose.
pub(crate) fn transpose(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let perm = permutation(builder.program, node)?;
    let (x, y) = (input(node, 0)?, output(node)?);
    if builder.exists(y) || left_out(builder.program, y).is_some() {
        return Ok(());
    }
    let (ty, flipped) = (builder.ty(x), flips(builder.ty(x)));
    let has_form = perm.len() >= 3 && matches!(ty.dtype.bits(), 8 | 32);
    let to_front: Vec<usize> =
        [0, perm.len().saturating_sub(1)].into_iter().chain(1..perm.len().saturating_sub(1)).collect();
    let flat = Form { nhwc: false, flipped };
    if has_form && perm == to_back(perm.len()) {
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
pub(super) fn push_walk(builder: &mut Builder<'_>, node: &Node, walk: Walk) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let from = builder.in_form(x, Form { nhwc: false, flipped: flips(builder.ty(x)) })?;
    let to = builder.result(y, false)?;
    let name = format!("{}_b{}", node.op.to_lowercase(), builder.ty(x).dtype.bits());
    builder.push(&name, vec![from], to, None, Box::new(move |_, io| walk.copy(io.bytes(0)?, io.out)));
    Ok(())
}
