//! The way from accumulators to bytes: the requantizer's tables and the bounds behind them (numerics.md sections 3, 5).

use super::{Builder, Chip, Loc, Params};
use crate::emit::Op;
use ottava_hal::program::Activation;
use ottava_hal::refmath::epilogue::float_multiplier;
use ottava_hal::refmath::requant::{Multiplier, Q31, check_fp32_multiplier, fp32_multiplier_alpha};
use ottava_hal::refmath::tflite::tflite_mean_multiplier;
use ottava_hal::refmath::{AccBounds, RefmathError, Requant, RequantMode, ScaleProduct};
use ottava_hal::{Error, Node, Reason, Result};
use ottava_npu::isa::{Dtype, Local, RQ_ENTRY_BYTES, Reg, flags};
use ottava_npu::program::Sums;

/// Bytes of one channel's entry.
pub(crate) const ENTRY: usize = RQ_ENTRY_BYTES as usize;

/// The constants of the requantizer that are the same for every channel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Epilogue {
    pub mode: RequantMode,
    /// Holds the clamp, and the float activation behind a residual.
    pub out: Params,
    /// The result is taken in f32: for a residual, or because it stays f32.
    pub real: bool,
    /// How the accumulators hold the sums.
    pub sums: Sums,
}

impl Epilogue {
    /// The epilogue of a node: its mode, its output, its clamp.
    pub(crate) fn of(chip: &Chip, node: &Node, out: Params) -> Result<Self> {
        let real = node.fused.residual || out.dtype == Dtype::F32;
        let active = activated(node, &out)?;
        let (lo, hi) = clamp_of(node, &out)?;
        // Behind a residual every mode means the same f32 sum.
        let mode = node.requant.filter(|_| !real).unwrap_or(RequantMode::Fp32Rne);
        if !chip.modes().contains(&mode) {
            let what = format!("requantization mode {}, which the chip does not have", mode.name());
            return Err(Error::unsupported(Reason::RequantMode, what));
        }
        let (lo, hi) = (active.lo.clamp(lo, hi), active.hi.clamp(lo, hi));
        Ok(Self { mode, out: Params { lo, hi, ..out }, real, sums: Sums::Narrow })
    }

    /// Adds the registers of a read through the requantizer.
    pub(crate) fn registers(&self, op: Op, table: Local, per_channel: bool) -> Op {
        let op = op
            .set(Reg::RqMode, self.mode.as_u32() as usize)
            .local(Reg::RqTable, table)
            .int(Reg::Zo, self.out.zp)
            .int(Reg::ClampLo, self.out.lo)
            .int(Reg::ClampHi, self.out.hi)
            .dtype(Reg::DtypeO, self.out.dtype);
        let op = match self.sums {
            Sums::Narrow => op,
            Sums::Pairs => op.flag(flags::WIDE | flags::NARROW),
            Sums::Wide => op.flag(flags::WIDE),
        };
        if per_channel { op.flag(flags::PC) } else { op }
    }

    /// The multiplier of `xs * ws * alpha / ys` in this mode.
    pub(crate) fn multiplier(&self, (xs, ws): (f32, f32), alpha: f32, product: ScaleProduct) -> Result<Multiplier> {
        if self.real {
            return self.float(float_multiplier(xs, ws, alpha));
        }
        let ys = self.out.scale;
        if self.mode == RequantMode::Fp32Rne {
            return self.float(fp32_multiplier_alpha(xs, ws, alpha, ys));
        }
        Q31::of_accumulator((xs, ws), alpha, ys, product, self.mode).map(Multiplier::Q31).map_err(model)
    }

    /// A checked f32 multiplier.
    pub(crate) fn float(&self, m: f32) -> Result<Multiplier> {
        check_fp32_multiplier(m).map(|()| Multiplier::Fp32(m)).map_err(model)
    }

    /// The Q31 multiplier of a mean over `n` elements.
    pub(crate) fn mean(&self, (xs, ys): (f32, f32), n: u32) -> Result<Multiplier> {
        tflite_mean_multiplier(xs, ys, n, self.mode).map(Multiplier::Q31).map_err(model)
    }

    /// Whether sums within the bounds survive 32 bits and the mode's left shift.
    pub(crate) fn check(&self, multiplier: Multiplier, bounds: AccBounds) -> Result<()> {
        if self.sums == Sums::Wide {
            return match multiplier {
                Multiplier::Q31(q) => q.check_i64(bounds.min, bounds.max).map_err(|e| overflow(&e)),
                Multiplier::Fp32(_) => Ok(()),
            };
        }
        if !bounds.fits_i32() {
            let (min, max) = (bounds.min, bounds.max);
            let what = format!("the accumulator may reach {min}..{max}, the array adds in 32 bits");
            return Err(Error::unsupported(Reason::AccOverflow, what));
        }
        let Params { zp, lo, hi, .. } = self.out;
        let requant = Requant { mode: self.mode, multiplier, zp, lo, hi };
        requant.check_acc(bounds.min, bounds.max).map_err(|e| overflow(&e))
    }
}

/// The output with the float activation folded into its range: quantization is monotone.
fn activated(node: &Node, out: &Params) -> Result<Params> {
    let (lo, hi) = match node.fused.act {
        None => return Ok(*out),
        Some(_) if !node.fused.residual => {
            let what = "a float activation behind a quantized result without a residual";
            return Err(Error::unsupported(Reason::FusionRequired, what));
        }
        Some(Activation::Relu) => (0.0, f32::INFINITY),
        Some(Activation::Clip { lo, hi }) if lo <= hi => (lo, hi),
        Some(Activation::Clip { lo, hi }) => {
            return Err(Error::unsupported(Reason::AttrValue, format!("bounds {lo} to {hi}, supported: in order")));
        }
    };
    let quantize = |bound| out.target().quantize(bound);
    Ok(Params { lo: quantize(lo), hi: quantize(hi), ..*out })
}

/// Packed constants of a product.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Constants {
    /// `[group][sums][channels of the group]`.
    pub weights: Loc,
    pub dtype: Dtype,
    /// The one zero point of the weights.
    pub zp: i32,
    /// An entry per output channel.
    pub table: Loc,
    pub epilogue: Epilogue,
}

/// The node's bounds on a result's integers.
pub(crate) fn clamp_of(node: &Node, out: &Params) -> Result<(i32, i32)> {
    let (lo, hi) = node.fused.clamp.map_or((out.lo, out.hi), |(lo, hi)| (lo.max(out.lo), hi.min(out.hi)));
    if lo > hi {
        let what = format!("the clamp {:?} leaves nothing of {}..{}", node.fused.clamp, out.lo, out.hi);
        return Err(Error::unsupported(Reason::AttrValue, what));
    }
    Ok((lo, hi))
}

fn overflow(e: &RefmathError) -> Error {
    Error::unsupported(Reason::AccOverflow, e.to_string())
}

fn model(e: RefmathError) -> Error {
    Error::unsupported(Reason::QuantScheme, e.to_string())
}

/// Entries, in the order of the output channels.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<u8>);

impl Table {
    /// Adds a channel of an f32 result: `last` is added behind the multiplication.
    pub(crate) fn push_real(&mut self, bias: i32, m: f32, last: f32) {
        self.0.extend(bias.to_le_bytes());
        self.0.extend(m.to_le_bytes());
        self.0.extend(last.to_le_bytes());
    }

    /// Adds a channel.
    pub(crate) fn push(&mut self, bias: i32, multiplier: Multiplier) {
        let (bits, shift) = match multiplier {
            Multiplier::Fp32(m) => (m.to_bits(), 0),
            Multiplier::Q31(Q31 { multiplier, shift }) => (multiplier.cast_unsigned(), shift),
        };
        self.0.extend(bias.to_le_bytes());
        self.0.extend(bits.to_le_bytes());
        self.0.extend(shift.to_le_bytes());
    }

    /// Packs the entries.
    pub(crate) fn pack(self, builder: &mut Builder<'_>) -> Result<Loc> {
        builder.pack(&self.0)
    }
}
