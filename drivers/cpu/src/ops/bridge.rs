//! `ottava::Quantize` and `ottava::Dequantize` between f32 and 8 bits, per tensor.

use crate::builder::{Builder, input, output};
use crate::relayout::failed;
use crate::rows::{byte, float, row};
use crate::storage::byte_in;
use ottava_hal::capability::FusedSupport;
use ottava_hal::{Node, OpRow, Result};
use ottava_kernels::dequantize;

/// Rows of Quantize.
pub(crate) fn quantize_rows(op: &'static str) -> Vec<OpRow> {
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    vec![OpRow { fused, ..row(op, vec![float()], byte()) }]
}

/// Rows of Dequantize.
pub(crate) fn dequantize_rows(op: &'static str) -> Vec<OpRow> {
    vec![row(op, vec![byte()], float())]
}

/// Steps of a Dequantize whose value is stored.
pub(crate) fn dequantized(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    if builder.chains.is_inside(y) {
        return Ok(());
    }
    let nhwc = builder.is_nhwc(x);
    let from = builder.operand(x, nhwc)?;
    let to = builder.result(y, nhwc)?;
    let q = byte_in(builder.ty(x))?;
    let name = builder.kernel("dequantize_u8_f32");
    builder.push(
        &name,
        vec![from],
        to,
        None,
        Box::new(move |exec, mut io| dequantize(exec, io.bytes(0)?, q, io.out()?).map_err(failed)),
    );
    Ok(())
}
