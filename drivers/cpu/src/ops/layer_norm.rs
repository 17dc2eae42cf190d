//! LayerNormalization in f32 over contiguous rows, in the two passes of numerics.md section 7.

use super::product::constant;
use super::softmax::for_rows;
use crate::builder::{Builder, input, output};
use crate::form::dims;
use crate::rows::{float, float_constant, needs, row, when};
use ottava_hal::capability::Operand;
use ottava_hal::refmath::rows::layer_norm_row;
use ottava_hal::{Error, Node, OpRow, Program, Reason, Result};

/// Elements that one task computes, at least.
const CHUNK: usize = 1 << 12;

/// Rows of LayerNormalization: scale and bias are constants of a row's shape.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let fits = needs(Reason::ShapeLimit, "a scale and a bias of the shape of a row", |p, n| row_len(p, n).is_ok());
    let constant = Operand { optional: true, ..float_constant() };
    vec![when(row(op, vec![float(), constant], float()), [fits])]
}

/// Elements of a row: all axes from `axis` on.
fn row_len(program: &Program, node: &Node) -> Result<usize> {
    let x = dims(program.ty(input(node, 0)?))?;
    let axis = node.attrs.int("axis", -1)?;
    let axis = if axis < 0 { axis.saturating_add(x.len() as i64) } else { axis };
    let wrong = || Error::invalid(format!("node `{}`: scale and bias do not fit axis {axis} of {x:?}", node.name));
    let axis = usize::try_from(axis).ok().filter(|a| *a < x.len()).ok_or_else(wrong)?;
    let row = &x[axis..];
    for id in node.inputs.iter().skip(1).flatten() {
        if program.ty(*id).shape.known().as_deref() != Some(row) {
            return Err(wrong());
        }
    }
    Ok(row.iter().product())
}

/// Steps of LayerNormalization.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let len = row_len(builder.program, node)?.max(1);
    let eps = node.attrs.float("epsilon", 1e-5)?;
    let operand = |i: usize| -> Result<Option<Vec<f32>>> {
        node.input(i).map(|id| Ok(constant(builder.program, id)?.as_slice::<f32>()?.to_vec())).transpose()
    };
    let (gamma, beta) = (operand(1)?, operand(2)?);
    let from = builder.operand(input(node, 0)?, false)?;
    let to = builder.result(output(node)?, false)?;
    let chunk = CHUNK.div_ceil(len) * len;
    builder.push(
        "layernormalization_f32",
        vec![from],
        to,
        None,
        Box::new(move |exec, mut io| {
            let x = io.read::<f32>(0)?;
            for_rows(exec, x, io.out::<f32>()?, (len, chunk), &|x, y| {
                layer_norm_row(x, gamma.as_deref(), beta.as_deref(), eps, y);
            })
        }),
    );
    Ok(())
}
