//! Quantization parameters of values as kernels want them: s8 held as u8, zero points 128 higher.

use crate::form::flips;
use crate::rows::per_tensor;
use ottava_hal::{DataType, Error, Node, Result, TensorType};
use ottava_kernels::{OtherQ, OutQ};

fn untyped(ty: &TensorType) -> Error {
    Error::invalid(format!("expected an 8-bit type with one scale, found {ty}"))
}

/// Scale and zero point of a held 8-bit value.
pub(crate) fn held(ty: &TensorType) -> Result<(f32, u8)> {
    let (scale, zp) = per_tensor(ty).ok_or_else(|| untyped(ty))?;
    let zp = u8::try_from(if flips(ty) { zp + 128 } else { zp }).map_err(|_| untyped(ty))?;
    Ok((scale, zp))
}

/// A held 8-bit operand.
pub(crate) fn byte_in(ty: &TensorType) -> Result<OtherQ> {
    let (scale, zp) = held(ty)?;
    Ok(OtherQ { scale, zero_point: zp.into(), signed: false })
}

/// An 8-bit result, clamped as the node says: held as u8, or as plain s8 if `signed`.
pub(crate) fn byte_out(ty: &TensorType, node: &Node, signed: bool) -> Result<(f32, OutQ)> {
    let (scale, zero_point) = per_tensor(ty).ok_or_else(|| untyped(ty))?;
    let (min, max) = match ty.dtype {
        DataType::U8 => (0, 255),
        DataType::S8 => (-128, 127),
        _ => return Err(untyped(ty)),
    };
    let (lo, hi) = node.fused.clamp.map_or((min, max), |(lo, hi)| (lo.clamp(min, max), hi.clamp(min, max)));
    if lo > hi {
        return Err(Error::invalid(format!("node `{}` clamps to {lo}..{hi}, which is empty", node.name)));
    }
    let up = if flips(ty) && !signed { 128 } else { 0 };
    Ok((scale, OutQ { zero_point: zero_point + up, lo: lo + up, hi: hi + up, signed }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::QuantParams;

    #[test]
    fn s8_is_held_128_higher() {
        let ty = TensorType::fixed(DataType::S8, &[1]).quantized(QuantParams::per_tensor(0.5, -3));
        assert_eq!(held(&ty).unwrap(), (0.5, 125));
        let mut node = Node::new("n", "Conv", 11);
        node.fused.clamp = Some((-3, 1000));
        let out = byte_out(&ty, &node, false).unwrap().1;
        assert_eq!(out, OutQ { zero_point: 125, lo: 125, hi: 255, signed: false });
        assert_eq!(byte_out(&ty, &node, true).unwrap().1, OutQ { zero_point: -3, lo: -3, hi: 127, signed: true });
        node.fused.clamp = Some((5, 4));
        assert!(byte_out(&ty, &node, true).is_err());
        assert!(held(&TensorType::fixed(DataType::S8, &[1])).is_err());
    }
}
