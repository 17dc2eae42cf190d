//! `ottava::Lut`: functions as tables of 256 entries, or of 513 for s16.

use super::rows::{integer, row};
use super::types::{code, range, refuse};
use super::{input, output};
use crate::builder::{Builder, Launch};
use crate::form::Stored;
use crate::{Form, Target};
use ottava_hal::capability::{FusedSupport, Operand};
use ottava_hal::{DataType, Node, OpRow, Reason, Result};

/// Rows of Lut.
pub(super) fn rows(target: &Target) -> Vec<OpRow> {
    let any = || Operand { dtypes: integer().dtypes, ..Operand::default() };
    let table = Operand { constant: true, ..any() };
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    vec![OpRow { fused, ..row(target, vec![any(), table], any()) }]
}

/// One launch, in the form in which the input lies.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, table, y) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let (from, to, entries) = (builder.ty(x), builder.ty(y), builder.ty(table));
    let n = entries.shape.elements().unwrap_or(0);
    let words = from.dtype == DataType::S16 && to.dtype == DataType::S16 && n == 513;
    if entries.dtype != to.dtype || !(words || (from.dtype.bits() == 8 && n == 256)) {
        return refuse(Reason::ShapeLimit, format!("a table of {n} entries of {} for {}", entries.dtype, from.dtype));
    }
    let form = builder.form_of(x);
    let same = Stored::new(from, form)?.axes == Stored::new(to, form)?.axes;
    let form = if same { form } else { Form::Plain };
    let count = Stored::new(to, form)?.elements()?;
    let (lo, hi) = range(node, to);
    let (source, list, result) = (builder.read(x, form)?, builder.read(table, Form::Plain)?, builder.write(y, form)?);
    let words = builder.bytes(result) / 4;
    builder.launch(&Launch {
        kernel: "lut",
        defines: &[],
        spec: &[],
        params: &[count as u32, code(from), code(to), lo as u32, hi as u32],
        inputs: &[source, list],
        output: result,
        items: [words, 1, 1],
        local: None,
    })
}
