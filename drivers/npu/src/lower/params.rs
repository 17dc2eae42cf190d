//! Quantization parameters of bytes, and shared errors.

use ottava_hal::refmath::Target;
use ottava_hal::{DataType, Error, QuantParams, Reason, Result, TensorType};
use ottava_npu::isa::Dtype;

/// An 8-bit type with one scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Params {
    pub scale: f32,
    pub zp: i32,
    /// How the machine names the storage.
    pub dtype: Dtype,
    /// The least value.
    pub lo: i32,
    /// The greatest value.
    pub hi: i32,
}

impl Params {
    /// As the destination of a conversion.
    pub(crate) fn target(&self) -> Target {
        Target { scale: self.scale, zp: self.zp, lo: self.lo, hi: self.hi }
    }

    /// The byte that stands for 0.
    pub(crate) fn zero_byte(&self) -> i32 {
        self.zp
    }
}

/// The parameters of a per-tensor 8-bit type.
pub(crate) fn params(ty: &TensorType) -> Result<Params> {
    let quant = ty.quant.as_deref().and_then(QuantParams::as_per_tensor);
    let dtype = match ty.dtype {
        DataType::S8 => Some(Dtype::S8),
        DataType::U8 => Some(Dtype::U8),
        _ => None,
    };
    let (Some((scale, zp)), Some(dtype), Some((lo, hi))) = (quant, dtype, ty.dtype.storage_range()) else {
        return Err(Error::unsupported(Reason::QuantScheme, format!("{ty} is not 8 bits with one scale")));
    };
    Ok(Params { scale, zp, dtype, lo, hi })
}

/// The refusal of a node whose smallest tile does not fit.
pub(crate) fn no_memory(what: &str, needs: usize, has: usize) -> Error {
    let what = format!("the smallest tile needs {needs} bytes of {what}, the chip has {has}");
    Error::unsupported(Reason::Memory, what)
}

/// Extents travel in 32-bit registers.
pub(crate) fn fits_u32(extents: &[usize]) -> Result<()> {
    match extents.iter().find(|&&n| n > i32::MAX as usize) {
        Some(n) => Err(Error::unsupported(Reason::ShapeLimit, format!("an extent of {n}, supported: below 2^31"))),
        None => Ok(()),
    }
}
