//! `Reshape`, `Flatten`, `Squeeze`, `Unsqueeze`, `Identity`: the same bytes. Where the parameters differ, they are
//! requantized.

use super::{bad_shape, clamped, input, output, params_of, rescale, same_elements};
use crate::lower::{Builder, Chip, Convert, Form, Piece, Pieces};
use crate::rows::{constant, element};
use ottava_hal::capability::Operand;
use ottava_hal::{DataType, Node, Result};

/// The value, and a constant that the output's type already says.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![element(chip), constant(&[DataType::S64])]
}

/// The same elements in the same order.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from, to) = (params_of(builder, x)?, clamped(builder, node)?);
    let bytes = same_elements(builder, x, y)?;
    let at = builder.want(x, Form::Plain)?;
    if from == to {
        builder.alias(y, Form::Plain, at);
        return Ok(());
    }
    let into = builder.make(y, Form::Plain)?;
    let piece = Piece::converted(at, into, bytes, Convert::Rescale { from, to });
    let step = Pieces::new(builder.chip, vec![piece], None)?;
    builder.step(vec![at], into, step);
    Ok(())
}

/// The same elements under the same shape.
pub(crate) fn identity(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    if params_of(builder, x)? != clamped(builder, node)? {
        return rescale::requantize(builder, node);
    }
    if builder.dims(x)? != builder.dims(y)? {
        return Err(bad_shape(format!("{:?} to {:?}", builder.dims(x)?, builder.dims(y)?)));
    }
    let form = builder.form_of(x);
    let at = builder.want(x, form)?;
    builder.alias(y, form, at);
    Ok(())
}
