//! Cast between plain element types: floats, integers of at most 32 bits, booleans, and s64 (which is not made of floats).

use super::rows::{boolean, float, plain_integer, row};
use super::types::{code, refuse};
use super::{input, output};
use crate::builder::{Builder, Launch};
use crate::form::Stored;
use crate::{Form, Target};
use ottava_hal::capability::{Operand, QuantKind};
use ottava_hal::{DataType, Node, OpRow, Reason, Result};

/// Rows of Cast.
pub(super) fn rows(target: &Target) -> Vec<OpRow> {
    let dtypes = [float().dtypes, plain_integer().dtypes, boolean().dtypes, vec![DataType::S64]].concat();
    let any = || Operand { dtypes: dtypes.clone(), quant: vec![QuantKind::Plain], ..Operand::default() };
    vec![row(target, vec![any()], any())]
}

/// One launch; a cast to the same type is a view.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from, to) = (builder.ty(x), builder.ty(y));
    let form = builder.form_of(x);
    if from.dtype == to.dtype {
        let buf = builder.read(x, form)?;
        builder.alias(y, form, buf);
        return Ok(());
    }
    if to.dtype == DataType::S64 && from.dtype.is_float() {
        return refuse(Reason::Dtype, "a float becomes a 64-bit integer");
    }
    let same = Stored::new(from, form)?.axes == Stored::new(to, form)?.axes;
    let form = if same { form } else { Form::Plain };
    let count = Stored::new(to, form)?.elements()?;
    let (lo, hi) = to.dtype.storage_range().unwrap_or((0, 0));
    let (source, result) = (builder.read(x, form)?, builder.write(y, form)?);
    let words = builder.bytes(result) / 4;
    builder.launch(&Launch {
        kernel: "cast",
        defines: &[],
        spec: &[],
        params: &[words as u32, count as u32, code(from), code(to), lo as u32, hi as u32],
        inputs: &[source],
        output: result,
        items: [words, 1, 1],
        local: None,
    })
}
