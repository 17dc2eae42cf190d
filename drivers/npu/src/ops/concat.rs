//! `Concat`: rows that move side by side, brought to the output's parameters where they differ.

use super::{bad_shape, clamped, output, params_of};
use crate::lower::{Builder, Chip, Convert, Form, Piece, Pieces};
use crate::rows::element;
use ottava_hal::capability::Operand;
use ottava_hal::{Node, Result, ValueId};

/// Any number of values.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![element(chip)]
}

/// Adds the step.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (y, ids) = (output(node)?, node.inputs.iter().flatten().copied().collect::<Vec<ValueId>>());
    let yd = builder.dims(y)?;
    let axis = axis(node, &yd)?;
    let form = common_form(builder, &ids, yd.len())?;
    let last = form == Form::Last;
    let (yd, axis) = if last { (moved(&yd), moved_axis(axis, yd.len())) } else { (yd, axis) };
    let to = clamped(builder, node)?;
    let mut plain = to == params_of(builder, y)?;
    for &id in &ids {
        plain &= params_of(builder, id)? == params_of(builder, y)?;
    }
    // Without a conversion rows are bytes, whatever the elements.
    let unit = if plain { builder.size(y) } else { 1 };
    let (rows, row) = (yd[..axis].iter().product(), yd[axis..].iter().product::<usize>() * unit);
    let step = if plain { 1 } else { builder.size(y) };
    let into = builder.make(y, form)?;
    let (mut pieces, mut reads, mut at) = (Vec::new(), Vec::new(), 0);
    for id in ids {
        let dims = builder.dims(id)?;
        let dims = if last { moved(&dims) } else { dims };
        if dims.len() != yd.len() || dims[..axis] != yd[..axis] {
            return Err(bad_shape(format!("{dims:?} as a part of {yd:?}")));
        }
        let bytes = dims[axis..].iter().product::<usize>() * unit;
        let (from, convert) = (builder.want(id, form)?, Convert::Rescale { from: params_of(builder, id)?, to });
        let to = into.plus(at * step);
        let convert = (!plain).then_some(convert);
        pieces.push(Piece { from, to, rows, bytes, from_pitch: bytes, to_pitch: row, convert });
        reads.push(from);
        at += bytes;
    }
    if at != row {
        return Err(bad_shape(format!("inputs of {at} elements a row for an output of {row}")));
    }
    let step = Pieces::new(builder.chip, pieces, None)?;
    builder.step(reads, into, step);
    Ok(())
}

/// The form in which all values lie already; the plain one if there is none.
fn common_form(builder: &Builder<'_>, ids: &[ValueId], rank: usize) -> Result<Form> {
    for &id in ids {
        if rank < 3 || !builder.has(id, Form::Last)? {
            return Ok(Form::Plain);
        }
    }
    Ok(Form::Last)
}

fn axis(node: &Node, dims: &[usize]) -> Result<usize> {
    let axis = node.attrs.int("axis", 0)?;
    let axis = if axis < 0 { axis.saturating_add(dims.len() as i64) } else { axis };
    let inside = usize::try_from(axis).ok().filter(|&a| a < dims.len());
    inside.ok_or_else(|| bad_shape(format!("an axis outside {dims:?}")))
}

/// Extents with the channels last.
pub(super) fn moved(dims: &[usize]) -> Vec<usize> {
    let mut dims = dims.to_vec();
    dims[1..].rotate_left(1);
    dims
}

/// An axis in the order with the channels last.
pub(super) fn moved_axis(axis: usize, rank: usize) -> usize {
    match axis {
        0 => 0,
        1 => rank - 1,
        other => other - 1,
    }
}
