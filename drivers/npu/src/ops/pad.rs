//! `Pad` with one value: the output is filled, and the rows of the input are put inside.

use super::concat::moved;
use super::{bad_shape, clamped, input, output, params_of};
use crate::lower::{Builder, Chip, Form, Loc, Params, Piece, Pieces};
use crate::rows::{constant, element};
use ottava_hal::capability::Operand;
use ottava_hal::refmath::dequantize;
use ottava_hal::{DataType, Error, Node, Reason, Result};

/// Bytes of constants that fill; longer outputs are filled in pieces.
const FILL: usize = 4096;

/// The value; counts, what fills, axes.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    let dtypes = [DataType::S64, DataType::S32, DataType::F32, DataType::S8, DataType::U8, DataType::S16];
    vec![element(chip), constant(&dtypes)]
}

/// Adds the step.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let to = clamped(builder, node)?;
    if params_of(builder, x)? != to {
        return Err(Error::unsupported(Reason::QuantScheme, "padding between different parameters"));
    }
    let before = counts(builder, node)?;
    let last = before.len() > 2 && builder.form_of(x) == Form::Last;
    let ordered = |dims: Vec<usize>| if last { moved(&dims) } else { dims };
    let form = if last { Form::Last } else { Form::Plain };
    let (xd, yd, before) = (ordered(builder.dims(x)?), ordered(builder.dims(y)?), ordered(before));
    let fill = fill(builder, node, &to)?;
    let size = builder.size(x);
    let bytes: Vec<u8> = fill.to_le_bytes()[..size].iter().copied().cycle().take(FILL).collect();
    let constant = builder.pack(&bytes)?;
    let (from, into) = (builder.want(x, form)?, builder.make(y, form)?);
    let total = yd.iter().product::<usize>() * size;
    let mut pieces: Vec<Piece> =
        (0..total).step_by(FILL).map(|at| Piece::copy(constant, into.plus(at), FILL.min(total - at))).collect();
    pieces.extend(rows(&xd, &yd, &before, [from, into], size));
    let step = Pieces::new(builder.chip, pieces, None)?;
    builder.step(vec![from], into, step);
    Ok(())
}

/// Elements before each axis.
fn counts(builder: &Builder<'_>, node: &Node) -> Result<Vec<usize>> {
    let bad = |what: String| Error::unsupported(Reason::AttrValue, what);
    let mode = node.attrs.str("mode", "constant")?;
    if !matches!(mode, "constant" | "") {
        return Err(bad(format!("padding by {mode}, supported: constant")));
    }
    let ints = |i: usize| node.input(i).and_then(|id| builder.constant(id)).map(|t| t.to_ints()).transpose();
    let (xd, yd) = (builder.dims(input(node, 0)?)?, builder.dims(output(node)?)?);
    let pads = ints(1)?.ok_or_else(|| Error::unsupported(Reason::ConstRequired, "the counts must be constant"))?;
    let axes = ints(3)?.unwrap_or_else(|| (0..xd.len() as i64).collect());
    let mut before = vec![0; xd.len()];
    for (i, &axis) in axes.iter().enumerate() {
        let axis = usize::try_from(if axis < 0 { axis.saturating_add(xd.len() as i64) } else { axis });
        let axis = axis.ok().filter(|&a| a < xd.len()).ok_or_else(|| bad(format!("axes {axes:?} of {xd:?}")))?;
        let count = pads.get(i).and_then(|&n| usize::try_from(n).ok());
        before[axis] = count.ok_or_else(|| bad(format!("counts {pads:?}, supported: from 0 on")))?;
    }
    let inside = |i: usize| before[i].checked_add(xd[i]).is_some_and(|end| end <= yd[i]);
    if xd.len() != yd.len() || pads.len() != 2 * axes.len() || !(0..xd.len()).all(inside) {
        return Err(bad_shape(format!("{xd:?} padded by {pads:?} to {yd:?}")));
    }
    Ok(before)
}

/// What fills, as a stored integer.
fn fill(builder: &Builder<'_>, node: &Node, to: &Params) -> Result<i32> {
    let Some(id) = node.input(2) else { return Ok(to.target().quantize(0.0)) };
    let needed = || Error::unsupported(Reason::ConstRequired, "what fills must be constant");
    let data = builder.constant(id).ok_or_else(needed)?;
    let quant = builder.ty(id).quant.as_deref().map(|q| q.channel(0));
    let real = match (data.dtype(), quant) {
        (DataType::F32, None) => data.as_slice::<f32>()?.first().copied(),
        (_, Some((scale, zp))) => data.to_ints()?.first().map(|&q| dequantize(q as i32, zp, scale)),
        _ => None,
    };
    let real = real.ok_or_else(|| Error::unsupported(Reason::Dtype, format!("filled with {}", data.ty())))?;
    Ok(to.target().quantize(real))
}

/// The rows of the input: from the last padded axis on they are whole.
fn rows(xd: &[usize], yd: &[usize], before: &[usize], [from, into]: [Loc; 2], size: usize) -> Vec<Piece> {
    let last = (0..xd.len()).rev().find(|&a| xd[a] != yd[a]).unwrap_or(0);
    let bytes = |dims: &[usize]| dims.iter().product::<usize>() * size;
    let (row, wide) = (bytes(&xd[last..]), bytes(&yd[last..]));
    let shift = before.get(last).map_or(0, |b| b * bytes(&yd[last + 1..]));
    let (lead, high) = if last > 0 { (last - 1, xd[last - 1]) } else { (0, 1) };
    let outer: usize = xd[..lead].iter().product();
    let piece = |mut i: usize| {
        let (read, mut at) = (i * high * row, shift);
        if last > 0 {
            at += before[lead] * wide;
        }
        let mut plane = if last > 0 { yd[lead] * wide } else { 0 };
        for axis in (0..lead).rev() {
            at += (i % xd[axis] + before[axis]) * plane;
            i /= xd[axis];
            plane *= yd[axis];
        }
        Piece { rows: high, to_pitch: wide, ..Piece::copy(from.plus(read), into.plus(at), row) }
    };
    (0..outer).map(piece).collect()
}
