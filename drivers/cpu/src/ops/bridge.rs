//! `ottava::Quantize` and `ottava::Dequantize` between f32 and 8 bits, per tensor.

use crate::arena::Io;
use crate::builder::{Builder, input, output};
use crate::form::channels_first;
use crate::relayout::failed;
use crate::rows::{byte, float, only_fp32, row};
use crate::storage::{byte_in, byte_out};
use ottava_hal::capability::FusedSupport;
use ottava_hal::{Node, OpRow, Result};
use ottava_kernels::{Exec, dequantize, quantize_nchw_to_nhwc};

/// Rows of Quantize.
pub(crate) fn quantize_rows(op: &'static str) -> Vec<OpRow> {
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    vec![only_fp32(OpRow { fused, ..row(op, vec![float()], byte()) })]
}

/// Rows of Dequantize.
pub(crate) fn dequantize_rows(op: &'static str) -> Vec<OpRow> {
    vec![row(op, vec![byte()], float())]
}

/// Steps of Quantize.
pub(crate) fn quantized(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let wanted = !builder.is_nhwc(x) && builder.wants_nhwc(y) && !builder.chains.is_inside(x);
    if let (true, Some(ncs)) = (wanted, channels_first(builder.ty(y))) {
        return into_channels_last(builder, node, ncs);
    }
    super::pointwise::build(builder, node)
}

/// Quantize of images that come channels-first and are wanted channels-last.
fn into_channels_last(builder: &mut Builder<'_>, node: &Node, ncs: [usize; 3]) -> Result<()> {
    let y = output(node)?;
    let from = builder.operand(input(node, 0)?, false)?;
    let (to, signed) = builder.result_signed(y, true)?;
    let (scale, out) = byte_out(builder.ty(y), node, signed)?;
    let name = builder.kernel("quantize_nchw_to_nhwc_f32_u8");
    let run = move |exec: Exec<'_>, io: Io<'_>| {
        quantize_nchw_to_nhwc(exec, ncs, io.read(0)?, scale, out, io.out).map_err(failed)
    };
    builder.push(&name, vec![from], to, None, Box::new(run));
    Ok(())
}

/// Steps of Dequantize. Bytes are brought into the caller's layout before there are four times as many.
pub(crate) fn dequantized(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    if builder.chains.is_inside(y) {
        return Ok(());
    }
    let nhwc = builder.is_nhwc(x) && builder.only_output(y).is_none();
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
