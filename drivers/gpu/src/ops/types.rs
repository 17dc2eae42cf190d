//! What lowering reads from the types of values and the attributes of nodes.

use crate::builder::Builder;
use ottava_hal::refmath::quantize::{Affine, Target};
use ottava_hal::refmath::requant::Q31;
use ottava_hal::{Error, Node, Reason, RequantMode, Result, TensorType, ValueId};

/// A refusal.
pub(super) fn refuse<T>(reason: Reason, what: impl Into<String>) -> Result<T> {
    Err(Error::unsupported(reason, what))
}

/// Scale and zero point of a value with one scale; `None` without quantization.
pub(super) fn affine(ty: &TensorType) -> Result<Option<Affine>> {
    let Some(quant) = &ty.quant else { return Ok(None) };
    let Some((scale, zp)) = quant.as_per_tensor() else {
        return refuse(Reason::QuantScheme, "more than one scale");
    };
    if !scale.is_normal() {
        return refuse(Reason::QuantScheme, format!("scale {scale:e} is below 2^-126"));
    }
    Ok(Some(Affine { scale, zp }))
}

/// Scale and zero point of a value that must have one scale.
pub(super) fn one_scale(ty: &TensorType) -> Result<Affine> {
    affine(ty)?.ok_or_else(|| Error::unsupported(Reason::QuantScheme, "a value without a scale"))
}

/// The parameters of a value as a kernel takes them: bits of the scale, 0 without one, and the zero point.
pub(super) fn scale_words(ty: &TensorType) -> Result<[u32; 2]> {
    Ok(affine(ty)?.map_or([0, 0], |a| [a.scale.to_bits(), a.zp as u32]))
}

/// Least and greatest integer of a node's result: its storage, narrowed by a fused clamp.
pub(super) fn range(node: &Node, ty: &TensorType) -> (i32, i32) {
    let (lo, hi) = ty.dtype.storage_range().unwrap_or((i32::MIN, i32::MAX));
    node.fused.clamp.map_or((lo, hi), |(a, b)| (lo.max(a), hi.min(b)))
}

/// A quantized result with the range that a fused clamp leaves it.
pub(super) fn target(node: &Node, ty: &TensorType) -> Result<Target> {
    let (Affine { scale, zp }, (lo, hi)) = (one_scale(ty)?, range(node, ty));
    Ok(Target { scale, zp, lo, hi })
}

/// The same as the storage alone has it.
pub(super) fn storage_target(ty: &TensorType) -> Result<Target> {
    let Affine { scale, zp } = one_scale(ty)?;
    let (lo, hi) = ty.dtype.storage_range().unwrap_or((i32::MIN, i32::MAX));
    Ok(Target { scale, zp, lo, hi })
}

/// The number of an element type in the kernels: that of the plugin ABI.
pub(super) fn code(ty: &TensorType) -> u32 {
    ty.dtype as u32
}

/// Multiplier and shift as a kernel takes them.
pub(super) fn q31(q: Q31) -> [u32; 2] {
    [q.multiplier as u32, q.shift as u32]
}

/// The mode of a node that is computed in fixed point.
pub(super) fn fixed_mode(node: &Node) -> Option<RequantMode> {
    node.requant.filter(|mode| *mode != RequantMode::Fp32Rne)
}

/// An axis of a rank, from the front or from the end.
pub(super) fn axis_of(axis: i64, rank: usize) -> Result<usize> {
    let at = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(at) {
        Ok(a) if a < rank => Ok(a),
        _ => refuse(Reason::AttrValue, format!("axis {axis} of rank {rank}")),
    }
}

/// Integers of a constant input; `None` where the input is absent or empty of meaning.
pub(super) fn constant_ints(builder: &Builder<'_>, node: &Node, i: usize) -> Result<Option<Vec<i64>>> {
    let Some(id) = node.input(i) else { return Ok(None) };
    match builder.data(id) {
        Some(data) => data.to_ints().map(Some),
        None => refuse(Reason::ConstRequired, format!("input {i} is only known at run time")),
    }
}

/// Floats of a constant input, dequantized where it has a scale.
pub(super) fn constant_floats(builder: &Builder<'_>, id: ValueId, what: &str) -> Result<Vec<f32>> {
    let Some(data) = builder.data(id) else {
        return refuse(Reason::ConstRequired, format!("{what} is only known at run time"));
    };
    match affine(builder.ty(id))? {
        Some(a) => Ok(data.to_ints()?.into_iter().map(|q| a.dequantize(q as i32)).collect()),
        None => data.to_f32s(),
    }
}

/// A number as the kernels count: below 2^31.
pub(super) fn word(n: usize) -> Result<u32> {
    match i32::try_from(n) {
        Ok(v) => Ok(v as u32),
        Err(_) => refuse(Reason::ShapeLimit, format!("{n} is more than a kernel counts")),
    }
}

/// The error of constants that have no integer form.
pub(super) fn bound(e: impl std::fmt::Display) -> Error {
    Error::unsupported(Reason::AccOverflow, e.to_string())
}
