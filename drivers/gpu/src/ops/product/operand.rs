//! Operands of products as the kernels hold them, and the inputs behind the two factors.

use super::super::{input, output};
use crate::builder::Builder;
use ottava_hal::refmath::bounds::ActivationRange;
use ottava_hal::{DataType, Error, Node, QuantParams, Reason, Result, TensorType, ValueId};

/// A factor of bytes. Kernels hold it as s8: the top bit of u8 is flipped, its zero point 128 less.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bytes {
    pub scale: f32,
    /// As stored.
    pub zp: i32,
    pub signed: bool,
}

impl Bytes {
    /// The bytes of a type with one scale.
    pub(super) fn of(ty: &TensorType) -> Result<Self> {
        let quant = ty.quant.as_deref().and_then(QuantParams::as_per_tensor);
        match (quant, ty.dtype) {
            (Some((scale, zp)), DataType::S8 | DataType::U8) => {
                Ok(Self { scale, zp, signed: ty.dtype == DataType::S8 })
            }
            _ => Err(Error::unsupported(Reason::QuantScheme, format!("{ty}, supported: bytes with one scale"))),
        }
    }

    /// The zero point that the kernels see.
    pub(super) fn held_zp(self) -> i32 {
        if self.signed { self.zp } else { self.zp - 128 }
    }

    /// What flips a word of stored bytes.
    pub(super) fn flip(self) -> u32 {
        if self.signed { 0 } else { 0x8080_8080 }
    }

    /// A stored word of zeros.
    pub(super) fn zero_word(self) -> u32 {
        u32::from(self.zp as u8) * 0x0101_0101
    }

    /// What a stored byte may be.
    pub(super) fn range(self) -> ActivationRange {
        ActivationRange::of_storage(8, self.signed, self.zp)
    }
}

/// Whether the node multiplies integers.
pub(super) fn is_typed(builder: &Builder<'_>, node: &Node) -> Result<bool> {
    Ok(builder.ty(input(node, 0)?).quant.is_some())
}

/// The bias: input 2, unless that is the residual.
pub(super) fn bias(node: &Node) -> Option<ValueId> {
    let own = node.inputs.len().saturating_sub(usize::from(node.fused.residual));
    if own > 2 { node.input(2) } else { None }
}

/// The value that is added behind the product: the last input. It has the result's shape.
pub(super) fn residual(builder: &Builder<'_>, node: &Node) -> Result<Option<ValueId>> {
    if !node.fused.residual {
        return Ok(None);
    }
    let id = input(node, node.inputs.len().saturating_sub(1))?;
    let (found, expected) = (builder.dims(id)?, builder.dims(output(node)?)?);
    if found != expected {
        return Err(bad_shape(format!("a residual {found:?} of a result {expected:?}")));
    }
    Ok(Some(id))
}

/// The refusal of shapes that do not fit.
pub(super) fn bad_shape(what: impl Into<String>) -> Error {
    Error::unsupported(Reason::ShapeLimit, what)
}
