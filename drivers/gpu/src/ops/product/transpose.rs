//! `ConvTranspose` in one and two dimensions: a convolution of stride 1 over x with zeros between its elements, whose
//! taps run backwards.

use super::super::{input, output};
use super::conv::{self, Stuffing};
use super::end::row_words;
use super::factor::Layout;
use super::operand::bad_shape;
use super::window::{self, Axis};
use crate::Form;
use crate::builder::Builder;
use ottava_hal::{Node, Result};

/// Adds the launches of a transposed convolution.
pub(in super::super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (xd, wd, yd) = (builder.dims(x)?, builder.dims(input(node, 1)?)?, builder.dims(y)?);
    let groups = usize::try_from(node.attrs.int("group", 1)?).unwrap_or(0);
    let fits = (3..=4).contains(&xd.len())
        && (wd.len(), yd.len()) == (xd.len(), xd.len())
        && groups > 0
        && wd[0] == xd[1]
        && xd[1].is_multiple_of(groups)
        && wd[1] > 0
        && wd[1].checked_mul(groups) == Some(yd[1])
        && yd[0] == xd[0];
    if !fits {
        return Err(bad_shape(format!("{xd:?} with weights {wd:?} in {groups} groups to {yd:?}")));
    }
    let axes = window::transposed(&node.attrs, &wd[2..], &xd[2..], &yd[2..])?;
    // Position p of y gets tap k of the element at p + before - k * dilation of the spread x.
    let reach = axes.map(|a| a.effective() - 1);
    let stuffing = std::array::from_fn(|i| Stuffing {
        before: reach[i] as i64 - axes[i].before as i64,
        extent: axes[i].input + reach[i],
        stride: axes[i].stride,
    });
    let over = axes.map(|a| Axis { output: a.input, stride: 1, ..a });
    let (depth, taps, per_group) = (xd[1] / groups, axes[0].kernel * axes[1].kernel, wd[1]);
    let at = |c: usize, tap: usize, d: usize| ((c / per_group * depth + d) * per_group + c % per_group) * taps + tap;
    let last = reach[0] * stuffing[1].extent + reach[1];
    let offset = last * row_words(builder.ty(x), Form::Image)?;
    let layout = Layout { channels: yd[1], groups, depth, taps, axis: 1, at: &at, alpha: 1.0, beta: 1.0, offset };
    conv::run(builder, node, &layout, (xd[0], over, true), Some(stuffing))
}
