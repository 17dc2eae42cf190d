//! Results of 16 signed bits: the stream of residuals of a transformer, where bytes are too few. The sum is made in f32, the
//! sequence that defines it (numerics.md section 4), and quantized to words.

use super::binary::push_f32;
use super::residual::{dequantized, f32_bytes};
use crate::arena::{Io, Place};
use crate::builder::{Builder, output};
use crate::relayout::failed;
use crate::rows::per_tensor;
use ottava_hal::{Error, Node, Result, TensorType, ValueId};
use ottava_kernels::{BinaryOp, Exec, quantize_s16};

/// Steps of an arithmetic operator of two bytes with a result of 16 bits; the operands lie at their places.
pub(super) fn binary(
    builder: &mut Builder<'_>,
    node: &Node,
    op: BinaryOp,
    operands: [(ValueId, Place); 2],
    nhwc: bool,
) -> Result<()> {
    let ty = builder.ty(output(node)?);
    let mut reads = Vec::with_capacity(2);
    for (id, place) in operands {
        // The operand has been repeated to the extents of the result.
        let repeated = TensorType { shape: ty.shape.clone(), ..builder.ty(id).clone() };
        reads.push(dequantized(builder, &repeated, place)?);
    }
    let sum = builder.buffer(f32_bytes(ty)?);
    let name = builder.kernel(&format!("{}_f32", node.op.to_lowercase()));
    push_f32(builder, &name, reads, sum, op);
    quantized(builder, node, sum, nhwc)
}

/// The f32 values at `from` as the node's result.
pub(super) fn quantized(builder: &mut Builder<'_>, node: &Node, from: Place, nhwc: bool) -> Result<()> {
    let y = output(node)?;
    let untyped = || Error::invalid(format!("node `{}`: its result has no scale", node.name));
    let (scale, zero_point) = per_tensor(builder.ty(y)).ok_or_else(untyped)?;
    let to = builder.result(y, nhwc)?;
    let name = builder.kernel("quantize_f32_s16");
    let run = move |exec: Exec<'_>, mut io: Io<'_>| {
        quantize_s16(exec, io.read(0)?, scale, zero_point, io.out()?).map_err(failed)
    };
    builder.push(&name, vec![from], to, None, Box::new(run));
    Ok(())
}
