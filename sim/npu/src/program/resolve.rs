//! Instructions to steps: registers are captured, shapes and bounds are checked.
//!
//! Every tile that comes out of here is non-empty, has no overlapping rows and lies inside its memory, and every type
//! and mode is one that the configuration and the machine have. Sums of sizes are computed in u64 and cannot wrap.

use super::{DramTile, Factor, Operand, Output, Requantize, Step, Sums, Tile, Window, Work};
use crate::NpuConfig;
use crate::config::NpuType;
use crate::error::{Fault, Violation};
use crate::isa::{DramAddr, Dtype, Inst, Local, Opcode, RQ_ENTRY_BYTES, Reg, Registers, Space, Stream, flags};
use ottava_hal::refmath::{Affine, RequantMode, Target, check_scale};

/// The longest stream that is accepted.
pub const MAX_INSTRUCTIONS: usize = 1 << 24;

/// The steps of a stream, and what was wrong with the instructions that gave none.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// One step per queued instruction, in stream order.
    pub steps: Vec<Step>,
    /// For each step, how many instructions (SET, SUBGRAPH) the command processor decoded just before it, plus one.
    pub decoded: Vec<u32>,
    /// Instructions that cannot run.
    pub violations: Vec<Violation>,
}

/// Resolves a whole stream for a configuration.
pub fn resolve(config: &NpuConfig, stream: &Stream) -> Resolved {
    let mut out = Resolved::default();
    if stream.commands.len() > MAX_INSTRUCTIONS {
        let fault = Fault::TooLong { found: stream.commands.len(), limit: MAX_INSTRUCTIONS };
        out.violations.push(Violation { index: 0, node: None, fault });
        return out;
    }
    let mut cx = Cx { config, regions: &stream.regions, regs: Registers::default(), factor: None };
    let mut pending = 0;
    let mut ended = false;
    for (index, inst) in stream.commands.iter().enumerate() {
        pending += 1;
        let node = stream.node_of(index);
        let result = if ended { Err(Fault::AfterEnd) } else { cx.instruction(inst) };
        ended |= inst.op == Opcode::End;
        match result {
            Ok(Some(work)) => {
                out.steps.push(Step { index, op: inst.op, queue: inst.queue, tokens: inst.tokens, node, work });
                out.decoded.push(std::mem::take(&mut pending));
            }
            Ok(None) => {}
            Err(fault) => out.violations.push(Violation { index, node, fault }),
        }
    }
    if !ended {
        let index = stream.commands.len().saturating_sub(1);
        out.violations.push(Violation { index, node: stream.node_of(index), fault: Fault::NoEnd });
    }
    out
}

/// The command processor's state, and what it checks against.
pub(super) struct Cx<'a> {
    config: &'a NpuConfig,
    regions: &'a [u64; 4],
    regs: Registers,
    pub(super) factor: Option<Factor>,
}

type Result<T> = std::result::Result<T, Fault>;

impl Cx<'_> {
    /// The work of one instruction; `None` for those of the command processor.
    fn instruction(&mut self, inst: &Inst) -> Result<Option<Work>> {
        // Streams that were built in memory have not passed the decoder.
        inst.check().map_err(|e| Fault::Constants(e.to_string()))?;
        match inst.op {
            Opcode::Set => {
                if let Some(reg) = Reg::from_number(inst.a) {
                    self.regs.set(reg, inst.b);
                }
                return Ok(None);
            }
            Opcode::Subgraph => {
                self.regs = Registers::default();
                return Ok(None);
            }
            Opcode::End => return Ok(None),
            _ => {}
        }
        self.work(inst).map(Some)
    }

    fn work(&mut self, inst: &Inst) -> Result<Work> {
        Ok(match inst.op {
            Opcode::Irq => Work::Irq,
            Opcode::Wait => Work::Wait(inst.a),
            Opcode::Signal => Work::Signal(inst.a),
            Opcode::Ld2d => self.load(inst)?,
            Opcode::LdIm2col => self.im2col(inst)?,
            Opcode::St2d => self.store(inst)?,
            Opcode::Preload => self.preload(inst)?,
            Opcode::Gemm => self.gemm(inst)?,
            Opcode::Dwconv => self.dwconv(inst)?,
            Opcode::Nop | Opcode::Set | Opcode::Subgraph | Opcode::End => Work::Nop,
            _ => self.vector(inst)?,
        })
    }

    /// An unsigned register.
    pub(super) fn reg(&self, reg: Reg) -> u32 {
        self.regs.get(reg)
    }

    /// A local tile whose pitch is a register (0: dense).
    pub(super) fn tile(&self, what: &'static str, at: u32, rows: u64, len: u64, pitch: Reg) -> Result<Tile> {
        self.tile_at(what, at, rows, len, self.regs.get(pitch).into())
    }

    /// A local tile; a pitch of 0 is dense.
    pub(super) fn tile_at(&self, what: &'static str, at: u32, rows: u64, len: u64, pitch: u64) -> Result<Tile> {
        let local = Local::from_bits(at).ok_or(Fault::Place { what, expected: "A, W or the accumulators" })?;
        positive(what, rows)?;
        positive(what, len)?;
        let pitch = if pitch == 0 { len } else { pitch };
        if pitch < len && rows > 1 {
            return Err(Fault::Overlap { what, len, pitch });
        }
        let limit = self.capacity(local.space);
        let last = (rows - 1).saturating_mul(pitch);
        let end = u64::from(local.offset).saturating_add(last).saturating_add(len);
        if end > limit {
            return Err(Fault::Bounds { what, space: local.space.name(), end, limit });
        }
        // All below `limit`, which has 25 bits at most; the pitch of a single row does not matter.
        let pitch = if rows == 1 { len } else { pitch };
        Ok(Tile { space: local.space, offset: local.offset, rows: rows as u32, len: len as u32, pitch: pitch as u32 })
    }

    /// A tile of a scratchpad.
    pub(super) fn bytes(&self, what: &'static str, at: u32, rows: u64, len: u64, pitch: Reg) -> Result<Tile> {
        let tile = self.tile(what, at, rows, len, pitch)?;
        if tile.space == Space::Acc {
            return Err(Fault::Place { what, expected: "a scratchpad (A or W)" });
        }
        Ok(tile)
    }

    /// A tile of accumulators.
    pub(super) fn acc(&self, what: &'static str, at: u32, rows: u64, len: u64, pitch: Reg) -> Result<Tile> {
        let tile = self.tile(what, at, rows, len, pitch)?;
        if tile.space != Space::Acc {
            return Err(Fault::Place { what, expected: "the accumulators" });
        }
        Ok(tile)
    }

    fn capacity(&self, space: Space) -> u64 {
        match space {
            Space::A => self.config.sram.a.bytes.into(),
            Space::W => self.config.sram.w.bytes.into(),
            Space::Acc => self.config.acc_elements().into(),
        }
    }

    /// A DRAM tile at an address operand.
    pub(super) fn dram(&self, what: &'static str, at: u32, rows: u64, len: u64, pitch: u64) -> Result<DramTile> {
        let addr = DramAddr::from_bits(at).ok_or(Fault::Place { what, expected: "regions 0 to 5" })?;
        let offset = (u64::from(self.regs.get(Reg::Dhi)) << 29) + u64::from(addr.offset);
        self.dram_at(
            what,
            DramTile { region: addr.region, offset, rows: rows as u32, len: len as u32, pitch },
            rows,
            len,
        )
    }

    /// Checks a DRAM tile whose counts were not cut to 32 bits yet.
    fn dram_at(&self, what: &'static str, tile: DramTile, rows: u64, len: u64) -> Result<DramTile> {
        positive(what, rows)?;
        positive(what, len)?;
        let last = (rows - 1).saturating_mul(tile.pitch);
        let end = tile.offset.saturating_add(last).saturating_add(len);
        let limit = match tile.region.space() {
            Some(space) => self.capacity(space),
            None => self.regions[tile.region.index()],
        };
        if end > limit || rows > u32::MAX.into() || len > u32::MAX.into() {
            return Err(Fault::Bounds { what, space: tile.region.name(), end, limit });
        }
        if tile.region.space().is_some() && rows > 1 && tile.pitch > 0 && tile.pitch < len {
            return Err(Fault::Overlap { what, len, pitch: tile.pitch });
        }
        Ok(tile)
    }

    /// Refuses a move whose two ends may overlap.
    pub(super) fn apart(what: &'static str, outer: Option<Tile>, inner: &Tile) -> Result<()> {
        let Some(outer) = outer.filter(|o| o.space == inner.space) else { return Ok(()) };
        if outer.end() <= inner.offset.into() || inner.end() <= outer.offset.into() {
            return Ok(());
        }
        Err(Fault::Place { what, expected: "two places of the chip that lie apart" })
    }

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

/// Whether a write adds: by the flag ACC or by bit 30 of the address.
pub(super) fn accumulates(bits: u16, at: u32) -> bool {
    bits & flags::ACC != 0 || Local::from_bits(at).is_some_and(|l| l.accumulate)
}

/// A pitch in bytes; 0 is dense.
pub(super) fn dense(pitch: u32, len: u64) -> u64 {
    if pitch == 0 { len } else { pitch.into() }
}

/// Refuses a size of 0.
pub(super) fn positive(what: &'static str, count: u64) -> Result<()> {
    if count > 0 { Ok(()) } else { Err(Fault::Value { what, found: 0, expected: "a positive size" }) }
}

/// A product that sticks at the greatest u64, which no memory holds.
pub(super) fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |p: u64, f| p.saturating_mul(*f))
}
