//! The registers that say how an instruction computes: windows, types, zero points, scales, clamps, the requantizer.

use super::resolve::{Cx, Result};
use super::{Operand, Output, Requantize, Sums, Window};
use crate::config::NpuType;
use crate::error::Fault;
use crate::isa::{Dtype, RQ_ENTRY_BYTES, Reg, Space, flags};
use ottava_hal::refmath::{Affine, RequantMode, Target, check_scale};

impl Cx<'_> {
    /// The window registers; every count is positive and at most 2^24, so that positions fit i64 with room to spare.
    pub(super) fn window(&self) -> Result<Window> {
        let count = |reg: Reg| {
            let value = self.reg(reg);
            if (1..=1 << 24).contains(&value) {
                return Ok(value);
            }
            Err(Fault::Value { what: reg.info().name, found: value.into(), expected: "1 to 2^24" })
        };
        let signed = |reg: Reg| self.regs.signed(reg);
        Ok(Window {
            ih: count(Reg::Ih)?,
            iw: count(Reg::Iw)?,
            kh: count(Reg::Kh)?,
            kw: count(Reg::Kw)?,
            sh: count(Reg::Sh)?,
            sw: count(Reg::Sw)?,
            dh: count(Reg::Dh)?,
            dw: count(Reg::Dw)?,
            pt: signed(Reg::Pt),
            pl: signed(Reg::Pl),
            pb: signed(Reg::Pb),
            pr: signed(Reg::Pr),
            oh: count(Reg::Oh)?,
            ow: count(Reg::Ow)?,
        })
    }

    /// The requantizer's settings for `n` columns.
    pub(super) fn requantize(&self, n: u64, bits: u16) -> Result<Requantize> {
        let entries = if bits & flags::PC != 0 { n } else { 1 };
        let (at, len) = (self.reg(Reg::RqTable), u64::from(RQ_ENTRY_BYTES));
        let table = self.tile_at("the requantizer's table", at, entries, len, 0)?;
        if table.space == Space::Acc {
            return Err(Fault::Place { what: "the requantizer's table", expected: "a scratchpad (A or W)" });
        }
        let (mode, output) = (self.mode()?, self.output(&[Dtype::S8, Dtype::U8, Dtype::S16, Dtype::F32])?);
        if output.dtype == Dtype::F32 && mode != RequantMode::Fp32Rne {
            let found = mode.as_u32().into();
            return Err(Fault::Value { what: "RQ_MODE", found, expected: "1 (fp32_rne) for an f32 output" });
        }
        Ok(Requantize { mode, table, sums: sums(bits)?, output })
    }

    /// RQ_MODE, which the configuration must list.
    pub(super) fn mode(&self) -> Result<RequantMode> {
        let found = self.reg(Reg::RqMode);
        let mode = RequantMode::from_u32(found);
        let mode = mode.ok_or(Fault::Value { what: "RQ_MODE", found: found.into(), expected: "1, 2 or 3" })?;
        if self.config.has_requant(mode) { Ok(mode) } else { Err(Fault::Mode(mode.name())) }
    }

    /// The 8-bit output of SO, ZO, CLAMP and DTYPE_O.
    pub(super) fn target(&self) -> Result<Target> {
        self.output(&[Dtype::S8, Dtype::U8]).map(|output| output.target)
    }

    /// The output of SO, ZO, CLAMP and DTYPE_O in one of the legal types. A clamp has no meaning in f32.
    pub(super) fn output(&self, legal: &[Dtype]) -> Result<Output> {
        let dtype = self.dtype(Reg::DtypeO, "the output", legal)?;
        if dtype == Dtype::F32 {
            return Ok(Output { dtype, target: Target { scale: 1.0, zp: 0, lo: 0, hi: 0 } });
        }
        let (least, greatest) = dtype.range().unwrap_or_default();
        let (lo, hi) = (self.regs.signed(Reg::ClampLo), self.regs.signed(Reg::ClampHi));
        if lo > hi || lo < least || hi > greatest {
            let found = if lo < least { lo } else { hi };
            return Err(Fault::Value {
                what: "the clamp",
                found: found.into(),
                expected: "LO <= HI in DTYPE_O's range",
            });
        }
        Ok(Output { dtype, target: Target { scale: self.scale(Reg::So)?, zp: self.regs.signed(Reg::Zo), lo, hi } })
    }

    /// An 8-bit operand.
    pub(super) fn operand(&self, dtype: Reg, scale: Reg, zp: Reg) -> Result<Operand> {
        self.operand_of(&[Dtype::S8, Dtype::U8], dtype, scale, zp)
    }

    /// An operand of the vector unit's element-wise operations: 8 or 16 bits.
    pub(super) fn element(&self, dtype: Reg, scale: Reg, zp: Reg) -> Result<Operand> {
        self.operand_of(&ELEMENTS, dtype, scale, zp)
    }

    fn operand_of(&self, legal: &[Dtype], dtype: Reg, scale: Reg, zp: Reg) -> Result<Operand> {
        let dtype = self.dtype(dtype, "the operand", legal)?;
        let zp = self.zero_point(zp, dtype)?;
        Ok(Operand { dtype, affine: Affine { scale: self.scale(scale)?, zp } })
    }

    fn scale(&self, reg: Reg) -> Result<f32> {
        let scale = self.regs.float(reg);
        check_scale(scale).map_err(|e| Fault::Constants(format!("{}: {e}", reg.info().name)))?;
        Ok(scale)
    }

    /// A zero point, which must be a value of its type.
    pub(super) fn zero_point(&self, reg: Reg, dtype: Dtype) -> Result<i32> {
        let zp = self.regs.signed(reg);
        if dtype.range().is_some_and(|(lo, hi)| (lo..=hi).contains(&zp)) {
            return Ok(zp);
        }
        Err(Fault::Value { what: reg.info().name, found: zp.into(), expected: "a value of the operand's type" })
    }

    /// The type in a register: one of `legal` and one that the configuration lists.
    pub(super) fn dtype(&self, reg: Reg, what: &'static str, legal: &[Dtype]) -> Result<Dtype> {
        let code = self.reg(reg);
        let dtype = Dtype::from_code(code).filter(|d| legal.contains(d)).ok_or(Fault::Type {
            what,
            found: Dtype::from_code(code).map_or("unknown", Dtype::name),
            expected: "an integer type that this instruction executes",
        })?;
        let has = match listed(dtype) {
            Some(listed) => self.config.dtypes.contains(&listed),
            None => self.config.has_requant(RequantMode::Fp32Rne),
        };
        if has {
            return Ok(dtype);
        }
        Err(Fault::Type { what, found: dtype.name(), expected: "a type of the configuration's list" })
    }
}

/// The integer types of element-wise operations.
pub(super) const ELEMENTS: [Dtype; 3] = [Dtype::S8, Dtype::U8, Dtype::S16];

/// The configuration's name of a type. f32 has none: it is what a requantizer that multiplies in f32 holds anyway.
fn listed(dtype: Dtype) -> Option<NpuType> {
    Some(match dtype {
        Dtype::S8 => NpuType::S8,
        Dtype::U8 => NpuType::U8,
        Dtype::S4 => NpuType::S4,
        Dtype::S16 => NpuType::S16,
        Dtype::F16 => NpuType::F16,
        Dtype::Bf16 => NpuType::Bf16,
        Dtype::F32 => return None,
    })
}

/// How the flags say that accumulators hold sums.
pub(super) fn sums(bits: u16) -> Result<Sums> {
    match (bits & flags::WIDE != 0, bits & flags::NARROW != 0) {
        (false, false) => Ok(Sums::Narrow),
        (true, false) => Ok(Sums::Wide),
        (true, true) => Ok(Sums::Pairs),
        (false, true) => Err(Fault::Value { what: "the flags", found: bits.into(), expected: "NARROW with WIDE only" }),
    }
}
