//! Gather with computed indices, as embeddings are looked up.
//!
//! A device cannot stop a run: an index outside the axis, which is an error on the CPU, reads the nearest end here.

use super::rows::{SAME_TYPE, movable, row, when};
use super::types::{axis_of, code, refuse, word};
use super::{input, movement, output};
use crate::builder::{Builder, Launch};
use crate::form::{Stored, element_bytes};
use crate::{Form, Target};
use ottava_hal::capability::{Operand, QuantKind};
use ottava_hal::{DataType, Node, OpRow, Reason, Result};

/// Rows of Gather.
pub(super) fn rows(target: &Target) -> Vec<OpRow> {
    let dtypes = vec![DataType::S32, DataType::S64];
    let indices = Operand { dtypes, quant: vec![QuantKind::Plain], ..Operand::default() };
    vec![when(row(target, vec![movable(), indices], movable()), SAME_TYPE)]
}

/// Constant indices choose by position, computed ones here.
pub(super) fn gather(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    match builder.data(input(node, 1)?) {
        Some(_) => movement::gather(builder, node),
        None => lower(builder, node),
    }
}

/// One launch, rows of the data as they lie.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, indices, y) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let dims = builder.dims(x)?;
    let axis = axis_of(node.attrs.int("axis", 0)?, dims.len())?;
    let bytes = element_bytes(builder.ty(x).dtype)?;
    let (behind, n) = (dims[axis + 1..].iter().product::<usize>(), builder.dims(indices)?.iter().product::<usize>());
    let elements = Stored::new(builder.ty(y), Form::Plain)?.elements()?;
    // Elements of 8 bytes move as pairs of words.
    let times = (bytes / 4).max(1);
    if dims[axis] == 0 || behind == 0 || n == 0 {
        return refuse(Reason::ShapeLimit, "an empty axis");
    }
    let (source, list) = (builder.read(x, Form::Plain)?, builder.read(indices, Form::Plain)?);
    let result = builder.write(y, Form::Plain)?;
    let words = builder.bytes(result) / 4;
    let mut params = vec![words as u32, word(elements * times)?, bytes.min(4) as u32, word(n)?];
    params.extend([word(behind * times)?, word(dims[axis])?, code(builder.ty(indices))]);
    builder.launch(&Launch {
        kernel: "take",
        defines: &[],
        spec: &[],
        params: &params,
        inputs: &[source, list],
        output: result,
        items: [words, 1, 1],
        local: None,
    })
}
