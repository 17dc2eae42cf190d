//! Instructions to steps: registers are captured, shapes and bounds are checked.
//!
//! Every tile that comes out of here is non-empty, has no overlapping rows and lies inside its memory, and every type
//! and mode is one that the configuration and the machine have. Sums of sizes are computed in u64 and cannot wrap.

use super::{DramTile, Factor, Step, Tile, Work};
use crate::NpuConfig;
use crate::error::{Fault, Violation};
use crate::isa::{DramAddr, Inst, Local, Opcode, Reg, Registers, Space, Stream, flags};

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
    pub(super) config: &'a NpuConfig,
    regions: &'a [u64; 4],
    pub(super) regs: Registers,
    pub(super) factor: Option<Factor>,
}

pub(super) type Result<T> = std::result::Result<T, Fault>;

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
