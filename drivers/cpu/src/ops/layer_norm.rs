//! LayerNormalization in f32 over contiguous rows, in the two passes of numerics.md section 7.

use super::product::constant;
use crate::builder::{Builder, input, output};
use crate::form::dims;
use crate::relayout::failed;
use crate::rows::{float, float_constant, needs, row, when};
use ottava_hal::capability::Operand;
use ottava_hal::{Error, Node, OpRow, Program, Reason, Result};
use ottava_kernels::layer_norm_f32;

/// Rows of LayerNormalization: scale and bias are constants of a row's shape.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let fits = needs(Reason::ShapeLimit, "a scale and a bias of the shape of a row", |p, n| row_len(p, n).is_ok());
    let constant = Operand { optional: true, ..float_constant() };
    vec![when(row(op, vec![float(), constant], float()), [fits])]
}

/// Elements of a row: all axes from `axis` on.
pub(super) fn row_len(program: &Program, node: &Node) -> Result<usize> {
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
    let name = builder.kernel("layernormalization_f32");
    builder.push(
        &name,
        vec![from],
        to,
        None,
        Box::new(move |exec, mut io| {
            let affine = [gamma.as_deref(), beta.as_deref()];
            layer_norm_f32(exec, affine, len, eps, io.read(0)?, io.out()?).map_err(failed)
        }),
    );
    Ok(())
}
