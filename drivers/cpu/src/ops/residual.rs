//! The residual form for operands that no epilogue takes: the product in f32, then the sum, the activation and, for a
//! quantized result, Quantize, one step each (numerics.md section 4, the fused form). Fused and unfused cannot differ.

use super::binary::{push_clip, push_f32};
use super::product::residual;
use super::words;
use crate::arena::{Io, Place};
use crate::builder::{Builder, output};
use crate::relayout::failed;
use crate::rows::act_bounds;
use crate::storage::{byte_in, byte_out};
use ottava_hal::{DataType, Error, Node, Reason, Result, TensorType};
use ottava_kernels::{BinaryOp, Exec, dequantize, quantize};

/// Whether a node has a residual that its kernel's epilogue cannot add.
pub(crate) fn is_apart(builder: &Builder<'_>, node: &Node) -> Result<bool> {
    let Some(other) = residual(node) else { return Ok(false) };
    let y = builder.ty(output(node)?);
    Ok(y.quant.is_none() || y.dtype == DataType::S16 || builder.ty(other).quant.is_none())
}

/// Bytes of an f32 value of this type's shape.
pub(crate) fn f32_bytes(ty: &TensorType) -> Result<usize> {
    let bytes = ty.shape.elements().and_then(|n| DataType::F32.byte_len(n));
    bytes.ok_or_else(|| Error::unsupported(Reason::Memory, format!("{ty} is too large for this machine")))
}

/// The steps behind the product, whose f32 result is at `product`.
pub(crate) fn finish(builder: &mut Builder<'_>, node: &Node, product: Place, nhwc: bool) -> Result<()> {
    let y = output(node)?;
    let ty = builder.ty(y);
    let bytes = f32_bytes(ty)?;
    let other = other_f32(builder, node, nhwc)?;
    let (lo, hi) = act_bounds(node);
    let clipped = (lo, hi) != (f32::NEG_INFINITY, f32::INFINITY);
    let plain = ty.quant.is_none();
    let mut at = if plain && !clipped { builder.result(y, nhwc)? } else { builder.buffer(bytes) };
    let name = builder.kernel("add_f32");
    push_f32(builder, &name, vec![product, other], at, BinaryOp::Add);
    if clipped {
        let to = if plain { builder.result(y, nhwc)? } else { builder.buffer(bytes) };
        let name = builder.kernel("clip_f32");
        push_clip(builder, &name, at, to, (lo, hi));
        at = to;
    }
    if plain { Ok(()) } else { quantized(builder, node, at, nhwc) }
}

fn quantized(builder: &mut Builder<'_>, node: &Node, from: Place, nhwc: bool) -> Result<()> {
    let y = output(node)?;
    if builder.ty(y).dtype == DataType::S16 {
        return words::quantized(builder, node, from, nhwc);
    }
    let (to, signed) = builder.result_signed(y, nhwc)?;
    let (scale, out) = byte_out(builder.ty(y), node, signed)?;
    let name = builder.kernel("quantize_f32_u8");
    let run = move |exec: Exec<'_>, io: Io<'_>| quantize(exec, io.read(0)?, scale, out, io.out).map_err(failed);
    builder.push(&name, vec![from], to, None, Box::new(run));
    Ok(())
}

/// The residual operand as f32.
fn other_f32(builder: &mut Builder<'_>, node: &Node, nhwc: bool) -> Result<Place> {
    let missing = || Error::invalid(format!("node `{}` has no residual operand", node.name));
    let id = residual(node).ok_or_else(missing)?;
    let from = builder.operand(id, nhwc)?;
    if builder.ty(id).quant.is_none() {
        return Ok(from);
    }
    dequantized(builder, builder.ty(id), from)
}

/// Bytes of a type as f32, all of them at `from`.
pub(crate) fn dequantized(builder: &mut Builder<'_>, ty: &TensorType, from: Place) -> Result<Place> {
    let to = builder.buffer(f32_bytes(ty)?);
    let q = byte_in(ty)?;
    let name = builder.kernel("dequantize_u8_f32");
    let run = move |exec: Exec<'_>, mut io: Io<'_>| dequantize(exec, io.bytes(0)?, q, io.out()?).map_err(failed);
    builder.push(&name, vec![from], to, None, Box::new(run));
    Ok(to)
}
