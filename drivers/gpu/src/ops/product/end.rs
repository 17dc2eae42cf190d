//! What becomes of a sum (numerics.md sections 3, 4 and 7): one place for all products. `kernels/product.h` is its other
//! half.

use super::super::output;
use super::operand::residual;
use crate::Form;
use crate::builder::{Buf, Builder};
use crate::form::Stored;
use ottava_hal::program::Activation;
use ottava_hal::refmath::AccBounds;
use ottava_hal::refmath::requant::{Q31, check_fp32_multiplier, fp32_multiplier_alpha};
use ottava_hal::refmath::{RequantMode, ScaleProduct};
use ottava_hal::{DataType, Error, Node, QuantParams, Reason, Result, TensorType, ValueId};

/// The sum becomes a float.
const TO_REAL: u32 = 4;

/// The end of a product.
pub(super) struct End<'p> {
    /// The kernel's specialization constant: a requantization mode, or [`TO_REAL`].
    pub code: u32,
    y: &'p TensorType,
    /// Scale of a quantized result, and its zero point.
    scale: Option<(f32, i32)>,
    bounds: (i32, i32),
    active: Option<(f32, f32)>,
    residual: Option<(ValueId, &'p TensorType)>,
}

impl<'p> End<'p> {
    /// The end of a node.
    pub(super) fn of(builder: &Builder<'p>, node: &Node) -> Result<Self> {
        let y = builder.ty(output(node)?);
        let residual = residual(builder, node)?.map(|id| (id, builder.ty(id)));
        if let Some((_, ty)) = residual {
            check_operand(ty)?;
        }
        let scale = y.quant.as_deref().and_then(QuantParams::as_per_tensor);
        let mode = node.requant.unwrap_or(RequantMode::Fp32Rne);
        let code = if scale.is_some() && residual.is_none() { mode.as_u32() } else { TO_REAL };
        let active = activation(node)?;
        if active.is_some() && residual.is_none() && (scale.is_some() || y.dtype != DataType::F32) {
            let what = "a float activation without a residual, of a result that is not f32";
            return Err(Error::unsupported(Reason::FusionRequired, what));
        }
        Ok(Self { code, y, scale, bounds: bounds(node, y)?, active, residual })
    }

    /// Whether the result is a float, so that a float bias is added to it and not to the sum.
    pub(super) fn is_real(&self) -> bool {
        self.scale.is_none()
    }

    /// Multiplier and shift of one channel, checked for sums in `bounds`.
    pub(super) fn multiplier(
        &self,
        (xs, ws): (f32, f32),
        alpha: f32,
        product: ScaleProduct,
        bounds: AccBounds,
    ) -> Result<(u32, u32)> {
        let bad = |e: ottava_hal::refmath::RefmathError| Error::unsupported(Reason::AccOverflow, e.to_string());
        let Some((ys, _)) = self.scale.filter(|_| self.code != TO_REAL) else {
            return Ok(((xs * ws * alpha).to_bits(), 0));
        };
        let mode = RequantMode::from_u32(self.code).unwrap_or(RequantMode::Fp32Rne);
        if mode == RequantMode::Fp32Rne {
            let m = fp32_multiplier_alpha(xs, ws, alpha, ys);
            check_fp32_multiplier(m).map_err(bad)?;
            return Ok((m.to_bits(), 0));
        }
        let q = Q31::of_accumulator((xs, ws), alpha, ys, product, mode).map_err(bad)?;
        if mode == RequantMode::Q31Double {
            q.check_left_shift(bounds.min, bounds.max).map_err(bad)?;
        }
        Ok((q.multiplier as u32, q.shift as u32))
    }

    /// The kernel's parameters from 32 on, for results in a form, and the buffer of the residual.
    pub(super) fn params(&self, builder: &mut Builder<'_>, form: Form, stride: usize) -> Result<(Vec<u32>, Buf)> {
        let (scale, zp) = self.scale.map_or((0, 0), |(s, z)| (s.to_bits(), z));
        let mut params = vec![self.y.dtype as u32, stride as u32, zp as u32];
        params.extend([self.bounds.0 as u32, self.bounds.1 as u32, scale]);
        let other = match self.residual {
            None => {
                params.extend([0, 0, 0, 0]);
                builder.words(&[0])?
            }
            Some((id, ty)) => {
                let (scale, zp) = ty.quant.as_deref().and_then(QuantParams::as_per_tensor).unwrap_or((0.0, 0));
                params.extend([ty.dtype as u32, row_words(ty, form)? as u32, zp as u32, scale.to_bits()]);
                builder.read(id, form)?
            }
        };
        let (lo, hi) = self.active.unwrap_or((0.0, 0.0));
        params.extend([u32::from(self.active.is_some()), lo.to_bits(), hi.to_bits()]);
        Ok((params, other))
    }

    /// Whether a residual is added.
    pub(super) fn has_residual(&self) -> bool {
        self.residual.is_some()
    }
}

/// Words from row to row of a value in a form.
pub(super) fn row_words(ty: &TensorType, form: Form) -> Result<usize> {
    let stored = Stored::new(ty, form)?;
    Ok(stored.axes.last().map_or(1, |a| a.padded) * stored.element_bytes / 4)
}

fn check_operand(ty: &TensorType) -> Result<()> {
    let byte_or_word = matches!(ty.dtype, DataType::S8 | DataType::U8 | DataType::S16 | DataType::U16);
    let typed = byte_or_word && ty.quant.as_deref().is_some_and(|q| q.as_per_tensor().is_some());
    let float = matches!(ty.dtype, DataType::F32 | DataType::F16 | DataType::BF16) && ty.quant.is_none();
    if typed || float {
        return Ok(());
    }
    Err(Error::unsupported(
        Reason::Dtype,
        format!("a residual {ty}, supported: floats, and 8 or 16 bits with one scale"),
    ))
}

fn bounds(node: &Node, y: &TensorType) -> Result<(i32, i32)> {
    let Some((lo, hi)) = y.dtype.storage_range().filter(|_| y.quant.is_some()) else { return Ok((0, 0)) };
    let (least, most) = node.fused.clamp.unwrap_or((lo, hi));
    let (lo, hi) = (lo.max(least), hi.min(most));
    if lo > hi {
        return Err(Error::unsupported(Reason::AttrValue, format!("a clamp to {least}..{most} of {y}")));
    }
    Ok((lo, hi))
}

fn activation(node: &Node) -> Result<Option<(f32, f32)>> {
    match node.fused.act {
        None => Ok(None),
        Some(Activation::Relu) => Ok(Some((0.0, f32::INFINITY))),
        Some(Activation::Clip { lo, hi }) if lo <= hi => Ok(Some((lo, hi))),
        Some(Activation::Clip { lo, hi }) => {
            Err(Error::unsupported(Reason::AttrValue, format!("an activation with bounds {lo} and {hi}")))
        }
    }
}
