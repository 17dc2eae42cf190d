//! Reshape, Flatten, Squeeze, Unsqueeze and Identity: the same bytes under another shape, without a launch.

use super::rows::{SAME_TYPE, movable, numbers, row, when};
use super::{input, output};
use crate::builder::Builder;
use crate::{Form, Target};
use ottava_hal::{Node, OpRow, Result};

/// Rows of views.
pub(super) fn rows(target: &Target) -> Vec<OpRow> {
    vec![when(row(target, vec![movable(), numbers()], movable()), SAME_TYPE)]
}

/// Another name of the value.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let same = builder.dims(x)? == builder.dims(y)?;
    let form = if same { builder.form_of(x) } else { Form::Plain };
    let buf = builder.read(x, form)?;
    builder.alias(y, form, buf);
    Ok(())
}
