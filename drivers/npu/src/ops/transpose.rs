//! `Transpose`: two neighbouring blocks of axes change places; everything else is a view.

use super::{bad_shape, input, output, params_of};
use crate::lower::{Builder, Chip, Form, Loc, Matrices, Piece, Pieces, Transpose, clamp_of};
use crate::rows::element;
use ottava_hal::capability::Operand;
use ottava_hal::{Error, Node, Reason, Result, ValueId};

/// The value.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![element(chip)]
}

/// Adds the step.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let out = params_of(builder, y)?;
    if params_of(builder, x)? != out || clamp_of(node, &out)? != (out.lo, out.hi) {
        return Err(Error::unsupported(Reason::QuantScheme, "a transposition between different parameters"));
    }
    let dims = builder.dims(x)?;
    let perm = permutation(node, dims.len())?;
    let turned: Vec<usize> = perm.iter().map(|&a| dims[a]).collect();
    if turned != builder.dims(y)? {
        return Err(bad_shape(format!("{dims:?} by {perm:?} to {:?}", builder.dims(y)?)));
    }
    if let Some((form, at)) = change_of_form(builder, x, &perm)? {
        builder.alias(y, form, at);
        return Ok(());
    }
    let from = builder.want(x, Form::Plain)?;
    let Some([batch, m, n, element]) = blocks(&dims, &perm) else {
        let what = format!("perm {perm:?} of {dims:?}, supported: two neighbouring blocks change places");
        return Err(Error::unsupported(Reason::AttrValue, what));
    };
    if m == 1 || n == 1 {
        builder.alias(y, Form::Plain, from);
        return Ok(());
    }
    let to = builder.make(y, Form::Plain)?;
    let size = builder.size(x);
    if element == 1 {
        let step = Transpose::new(builder.chip, from, to, Matrices { batch, m, n, size })?;
        builder.step(vec![from], to, step);
        return Ok(());
    }
    let step = rows_apart(builder, from, to, [batch, m, n, element * size])?;
    builder.step(vec![from], to, step);
    Ok(())
}

/// The form and place of the result where it is the operand's bytes: channels that lie last already become the last
/// axis, and a last axis becomes channels that lie last.
fn change_of_form(builder: &mut Builder<'_>, x: ValueId, perm: &[usize]) -> Result<Option<(Form, Loc)>> {
    let rank = perm.len();
    if rank < 3 || perm[0] != 0 {
        return Ok(None);
    }
    let to_last = perm[1..].iter().copied().eq((2..rank).chain([1]));
    let to_first = perm[1..].iter().copied().eq([rank - 1].into_iter().chain(1..rank - 1));
    match builder.form_of(x) {
        Form::Last if to_last => Ok(Some((Form::Plain, builder.want(x, Form::Last)?))),
        Form::Plain if to_first => Ok(Some((Form::Last, builder.want(x, Form::Plain)?))),
        _ => Ok(None),
    }
}

/// Blocks of several bytes change places by transfers alone.
fn rows_apart(builder: &Builder<'_>, from: Loc, to: Loc, [batch, m, n, element]: [usize; 4]) -> Result<Pieces> {
    let row = |i: usize| {
        let (b, r) = (i / m, i % m);
        let (start, end) = ((b * m + r) * n * element, (b * n * m + r) * element);
        let piece = Piece::copy(from.plus(start), to.plus(end), element);
        Piece { rows: n, to_pitch: m * element, ..piece }
    };
    Pieces::new(builder.chip, (0..batch * m).map(row).collect(), None)
}

fn permutation(node: &Node, rank: usize) -> Result<Vec<usize>> {
    let Some(perm) = node.attrs.ints_opt("perm")? else { return Ok((0..rank).rev().collect()) };
    let axis = |&p: &i64| usize::try_from(if p < 0 { p + rank as i64 } else { p }).ok();
    let axes: Option<Vec<usize>> = perm.iter().map(axis).collect();
    let mut sorted = axes.clone().unwrap_or_default();
    sorted.sort_unstable();
    match axes {
        Some(axes) if sorted.iter().copied().eq(0..rank) => Ok(axes),
        _ => Err(Error::unsupported(Reason::AttrValue, format!("perm {perm:?} is no permutation of {rank} axes"))),
    }
}

/// `[batch, m, n, element]` of a permutation that turns it into `[batch, n, m, element]`; axes of extent 1 do not count.
fn blocks(dims: &[usize], perm: &[usize]) -> Option<[usize; 4]> {
    let order: Vec<usize> = perm.iter().copied().filter(|&a| dims[a] != 1).collect();
    let axes: Vec<usize> = (0..dims.len()).filter(|&a| dims[a] != 1).collect();
    let same = order.iter().zip(&axes).take_while(|(a, b)| a == b).count();
    if same == axes.len() {
        return Some([1, 1, 1, 1]);
    }
    let tail = order.iter().rev().zip(axes.iter().rev()).take_while(|(a, b)| a == b).count();
    let (middle, wanted) = (&axes[same..axes.len() - tail], &order[same..order.len() - tail]);
    let cut = middle.iter().position(|a| *a == wanted[0])?;
    let rotated = middle[cut..].iter().chain(&middle[..cut]);
    if !rotated.eq(wanted) {
        return None;
    }
    let extent = |axes: &[usize]| axes.iter().map(|&a| dims[a]).product();
    Some([extent(&axes[..same]), extent(&middle[..cut]), extent(&middle[cut..]), extent(&axes[axes.len() - tail..])])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_permutations() {
        assert_eq!(blocks(&[2, 3, 4, 5], &[0, 2, 3, 1]), Some([2, 3, 20, 1]));
        assert_eq!(blocks(&[2, 3, 4, 5], &[0, 3, 1, 2]), Some([2, 12, 5, 1]));
        assert_eq!(blocks(&[1, 2, 3, 8, 8], &[0, 2, 1, 3, 4]), Some([1, 2, 3, 64]));
        assert_eq!(blocks(&[2, 3, 4], &[2, 1, 0]), None);
        assert_eq!(blocks(&[2, 1, 4], &[2, 1, 0]), Some([1, 2, 4, 1]));
        assert_eq!(blocks(&[2, 1, 4], &[1, 0, 2]), Some([1, 1, 1, 1]), "a view");
    }
}
