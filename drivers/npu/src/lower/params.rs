//! Quantization parameters of values, and shared errors.

use ottava_hal::refmath::{Affine, Target};
use ottava_hal::{DataType, Error, QuantParams, Reason, Result, TensorType};
use ottava_npu::isa::Dtype;

/// An integer type of 8 or 16 bits with one scale; or f32, for what leaves the requantizer as a real.
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

    /// Scale and zero point.
    pub(crate) fn affine(&self) -> Affine {
        Affine { scale: self.scale, zp: self.zp }
    }

    /// Bytes of an element.
    pub(crate) fn bytes(&self) -> usize {
        self.dtype.bytes() as usize
    }

    /// The byte that stands for 0.
    pub(crate) fn zero_byte(&self) -> i32 {
        self.zp
    }
}

/// The parameters of a type.
pub(crate) fn params(ty: &TensorType) -> Result<Params> {
    if ty.dtype == DataType::F32 && ty.quant.is_none() {
        return Ok(Params { scale: 1.0, zp: 0, dtype: Dtype::F32, lo: 0, hi: 0 });
    }
    let quant = ty.quant.as_deref().and_then(QuantParams::as_per_tensor);
    let dtype = match ty.dtype {
        DataType::S8 => Some(Dtype::S8),
        DataType::U8 => Some(Dtype::U8),
        DataType::S16 => Some(Dtype::S16),
        _ => None,
    };
    let (Some((scale, zp)), Some(dtype), Some((lo, hi))) = (quant, dtype, ty.dtype.storage_range()) else {
        return Err(Error::unsupported(Reason::QuantScheme, format!("{ty} is not 8 or 16 bits with one scale")));
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
