//! `GlobalAveragePool`, `ReduceMean` and `ReduceSum` over axes that follow one another.

use super::average_pool::check_mean;
use super::{bad_shape, input, output, params_of};
use crate::lower::{Builder, Chip, Epilogue, Form, Mean, Table};
use crate::rows::{byte, constant};
use ottava_hal::capability::Operand;
use ottava_hal::{DataType, Error, Node, Reason, Result};
use std::ops::Range;

/// The values, and the axes of ReduceMean.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![byte(chip), constant(&[DataType::S64])]
}

/// Means of planes.
pub(crate) fn global(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let dims = builder.dims(input(node, 0)?)?;
    if dims.len() < 3 {
        return Err(Error::unsupported(Reason::Rank, "a global pool without spatial axes"));
    }
    lower(builder, node, &dims, 2..dims.len(), true)
}

/// Means, or sums, over axes.
pub(crate) fn reduce(builder: &mut Builder<'_>, node: &Node, mean: bool) -> Result<()> {
    let dims = builder.dims(input(node, 0)?)?;
    let given = match node.input(1) {
        Some(id) => builder.constant(id).map(|t| t.to_ints()).transpose()?.unwrap_or_default(),
        None => Vec::new(),
    };
    let axes = if given.is_empty() {
        if node.attrs.int("noop_with_empty_axes", 0)? != 0 {
            return Err(Error::unsupported(Reason::AttrValue, "a mean over nothing"));
        }
        0..dims.len()
    } else {
        range(&given, dims.len())?
    };
    lower(builder, node, &dims, axes, mean)
}

/// The range that a list of axes is.
fn range(axes: &[i64], rank: usize) -> Result<Range<usize>> {
    let rank_i = i64::try_from(rank).unwrap_or(i64::MAX);
    let mut axes: Vec<i64> = axes.iter().map(|&a| if a < 0 { a.saturating_add(rank_i) } else { a }).collect();
    axes.sort_unstable();
    let (first, n) = (axes[0], axes.len());
    let follows = axes.iter().zip(first..).all(|(&a, expect)| a == expect);
    let end = usize::try_from(first).ok().map(|f| f + n).filter(|&end| follows && end <= rank);
    let apart = || Error::unsupported(Reason::AttrValue, format!("a mean over axes {axes:?}, supported: neighbours"));
    end.map(|end| end - n..end).ok_or_else(apart)
}

fn lower(builder: &mut Builder<'_>, node: &Node, dims: &[usize], axes: Range<usize>, mean: bool) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (x_params, y_params) = (params_of(builder, x)?, params_of(builder, y)?);
    let epilogue = Epilogue::of(builder.chip, node, y_params)?;
    let extent = |r: Range<usize>| dims[r].iter().product::<usize>();
    let pixels = extent(axes.clone());
    let multiplier = check_mean(&epilogue, &x_params, pixels, if mean { pixels } else { 1 })?;
    // Planes of an image are pixels whose channels are last; anything else is taken in its own order.
    let spatial = axes == (2..dims.len()) && dims.len() > 2;
    let (form, batch, channels) = if spatial {
        (Form::Last, dims[0], dims[1])
    } else {
        (Form::Plain, extent(0..axes.start), extent(axes.end..dims.len()))
    };
    if builder.dims(y)?.iter().product::<usize>() != batch * channels {
        return Err(bad_shape(format!("a mean of {dims:?} over {axes:?} to {:?}", builder.dims(y)?)));
    }
    let mut table = Table::default();
    table.push(0, multiplier);
    let table = table.pack(builder)?;
    let (from, to) = (builder.want(x, form)?, builder.make(y, Form::Plain)?);
    let step = Mean { x: from, x_params, to, epilogue, table, batch, pixels, channels, tile: (0, 0), in_place: None }
        .plan(builder.chip)?;
    builder.step(vec![from], to, step);
    Ok(())
}
