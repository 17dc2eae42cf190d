//! `ottava.Lut`: 256 bytes, looked up by the vector unit. A clamp is folded into the table.

use super::{clamped, input, output, same_elements};
use crate::lower::{Builder, Chip, Convert, Piece, Pieces};
use crate::rows::byte;
use ottava_hal::capability::Operand;
use ottava_hal::{Error, Node, Reason, Result};

/// Bytes, and the table.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![byte(chip), Operand { dtypes: chip.bytes(), constant: true, ..Operand::default() }]
}

/// Adds the step.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y, table) = (input(node, 0)?, output(node)?, input(node, 1)?);
    let to = clamped(builder, node)?;
    let data = builder.constant(table).filter(|t| t.elements() == 256);
    let data = data.ok_or_else(|| Error::unsupported(Reason::ConstRequired, "a table needs 256 constant bytes"))?;
    if data.dtype() != builder.ty(y).dtype {
        let what = format!("a table of {} for an output of {}", data.dtype(), builder.ty(y).dtype);
        return Err(Error::unsupported(Reason::Dtype, what));
    }
    let bytes: Vec<u8> = data.to_ints()?.into_iter().map(|v| (v as i32).clamp(to.lo, to.hi) as u8).collect();
    let lut = builder.pack(&bytes)?;
    let form = builder.form_of(x);
    let n = same_elements(builder, x, y)?;
    let (at, into) = (builder.want(x, form)?, builder.make(y, form)?);
    let step = Pieces::new(builder.chip, vec![Piece::converted(at, into, n, Convert::Lut)], Some(lut))?;
    builder.step(vec![at], into, step);
    Ok(())
}
