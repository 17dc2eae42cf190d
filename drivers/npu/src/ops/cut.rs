//! `Slice` along one axis without steps, and `Split`: rows that move, without a change of parameters.

use super::concat::{moved, moved_axis};
use super::{bad_shape, input, output, params_of};
use crate::lower::{Builder, Chip, Form, Piece, Pieces, clamp_of};
use crate::rows::{constant, element};
use ottava_hal::capability::Operand;
use ottava_hal::{DataType, Error, Node, Reason, Result, ValueId};

/// The value; starts, ends, axes and steps, or sizes.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![element(chip), constant(&[DataType::S64, DataType::S32])]
}

/// A range of one axis.
pub(crate) fn slice(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (xd, yd) = (builder.dims(x)?, builder.dims(y)?);
    let bad = |what: String| Error::unsupported(Reason::AttrValue, what);
    if ints(builder, node, 4)?.is_some_and(|steps| steps.iter().any(|&s| s != 1)) {
        return Err(bad("steps other than 1".into()));
    }
    let cut: Vec<usize> = (0..xd.len().min(yd.len())).filter(|&a| xd[a] != yd[a]).collect();
    if xd.len() != yd.len() || cut.len() > 1 {
        return Err(bad_shape(format!("{xd:?} cut to {yd:?}, supported: along one axis")));
    }
    let axis = cut.first().copied().unwrap_or(0);
    let starts = ints(builder, node, 1)?.ok_or_else(|| bad("a slice without starts".into()))?;
    let axes = ints(builder, node, 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let rank = xd.len() as i64;
    let is_cut = |&a: &i64| usize::try_from(if a < 0 { a.saturating_add(rank) } else { a }).ok() == Some(axis);
    let start = axes.iter().position(is_cut).and_then(|i| starts.get(i)).copied().unwrap_or(0);
    let extent = xd[axis] as i64;
    let from = if start < 0 { start.saturating_add(extent) } else { start }.clamp(0, extent) as usize;
    parts(builder, node, x, axis, &[(y, from)])
}

/// Parts of one axis, one behind the other.
pub(crate) fn split(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let x = input(node, 0)?;
    let rank = builder.dims(x)?.len();
    let axis = node.attrs.int("axis", 0)?;
    let axis = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    let axis = usize::try_from(axis).ok().filter(|&a| a < rank);
    let axis = axis.ok_or_else(|| bad_shape(format!("an axis outside {rank} axes")))?;
    let (mut start, mut outputs) = (0, Vec::new());
    for &y in &node.outputs {
        outputs.push((y, start));
        start += builder.dims(y)?.get(axis).copied().unwrap_or(0);
    }
    parts(builder, node, x, axis, &outputs)
}

/// The integers of an input, if it is there.
fn ints(builder: &Builder<'_>, node: &Node, i: usize) -> Result<Option<Vec<i64>>> {
    node.input(i).and_then(|id| builder.constant(id)).map(|t| t.to_ints()).transpose()
}

/// Copies ranges of an axis, each from its start on.
fn parts(builder: &mut Builder<'_>, node: &Node, x: ValueId, axis: usize, outputs: &[(ValueId, usize)]) -> Result<()> {
    let dims = builder.dims(x)?;
    let last = dims.len() > 2 && builder.form_of(x) == Form::Last;
    let (form, at) = if last { (Form::Last, moved_axis(axis, dims.len())) } else { (Form::Plain, axis) };
    let ordered = |dims: Vec<usize>| if last { moved(&dims) } else { dims };
    let params = params_of(builder, x)?;
    let whole = ordered(dims);
    let (rows, inner) = (whole[..at].iter().product(), whole[at + 1..].iter().product::<usize>() * builder.size(x));
    for &(y, start) in outputs {
        let part = ordered(builder.dims(y)?);
        let others = |d: &[usize]| (d[..at].to_vec(), d[at + 1..].to_vec());
        if part.len() != whole.len() || others(&part) != others(&whole) || start + part[at] > whole[at] {
            return Err(bad_shape(format!("{part:?} from {start} on of {whole:?}")));
        }
        let out = params_of(builder, y)?;
        if out != params || clamp_of(node, &out)? != (out.lo, out.hi) {
            return Err(Error::unsupported(Reason::QuantScheme, "a cut between different parameters"));
        }
        let (from, to) = (builder.want(x, form)?, builder.make(y, form)?);
        let bytes = part[at] * inner;
        let piece = Piece::copy(from.plus(start * inner), to, bytes);
        let piece = Piece { rows, from_pitch: whole[at] * inner, ..piece };
        let step = Pieces::new(builder.chip, vec![piece], None)?;
        builder.step(vec![from], to, step);
    }
    Ok(())
}
