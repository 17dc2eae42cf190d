//! Writes instructions, with the SETs that they need.

use super::op::{DramOperand, Op, Place};
use ottava_hal::{Error, Reason, Result};
use ottava_npu::isa::{DramAddr, Inst, NodeMark, Opcode, Queue, Reg, Registers};
use ottava_npu::program::MAX_INSTRUCTIONS;

/// The event by which a step waits for the stores of the step before.
const STEP_EVENT: u32 = 0;

/// The stream so far.
#[derive(Debug, Default)]
pub(crate) struct Emitter {
    pub(super) commands: Vec<Inst>,
    marks: Vec<NodeMark>,
    registers: Registers,
    started: bool,
}

impl Emitter {
    /// Begins the instructions of a step that belongs to program node `node`. The step's loads start when the last
    /// store of the step before has ended; every buffer on the chip and outside is then free again.
    pub(crate) fn begin(&mut self, node: usize) -> Result<()> {
        let number = u32::try_from(node).map_err(|_| Error::invalid("a program has at most 2^32 nodes"))?;
        if std::mem::replace(&mut self.started, true) {
            self.raw(Inst::new(Opcode::Signal, STEP_EVENT, 0, 0).on(Queue::St))?;
        }
        let first = u32::try_from(self.commands.len()).unwrap_or(u32::MAX);
        self.marks.push(NodeMark { first, node: number });
        self.raw(Inst::new(Opcode::Subgraph, number, 0, 0))?;
        self.registers = Registers::default();
        if self.marks.len() > 1 {
            self.raw(Inst::new(Opcode::Wait, STEP_EVENT, 0, 0).on(Queue::Ld))?;
        }
        Ok(())
    }

    /// Writes an operation; the index of its instruction.
    pub(crate) fn push(&mut self, op: Op) -> Result<usize> {
        let mut inst = op.inst;
        match op.dram {
            DramOperand::None => {}
            DramOperand::A(place) => inst.a = self.dram(place)?,
            DramOperand::B(place) => inst.b = self.dram(place)?,
        }
        for (reg, value) in op.sets {
            self.set(reg, value)?;
        }
        self.raw(inst)
    }

    /// Writes an instruction that reads no register.
    pub(super) fn raw(&mut self, inst: Inst) -> Result<usize> {
        if self.commands.len() >= MAX_INSTRUCTIONS {
            let what = format!("the program needs more than {MAX_INSTRUCTIONS} instructions; give the chip more SRAM");
            return Err(Error::unsupported(Reason::Memory, what));
        }
        self.commands.push(inst);
        Ok(self.commands.len() - 1)
    }

    fn set(&mut self, reg: Reg, value: u32) -> Result<()> {
        if self.registers.get(reg) != value {
            self.registers.set(reg, value);
            self.raw(Inst::set(reg, value))?;
        }
        Ok(())
    }

    fn dram(&mut self, place: Place) -> Result<u32> {
        let too_far = || Error::unsupported(Reason::Memory, "an address is beyond 2^61 bytes");
        let (address, high) = DramAddr::split(place.region, place.offset).ok_or_else(too_far)?;
        self.set(Reg::Dhi, high)?;
        Ok(address.bits())
    }

    /// The finished commands and the node ranges.
    pub(crate) fn finish(mut self) -> Result<(Vec<Inst>, Vec<NodeMark>)> {
        self.raw(Inst::new(Opcode::End, 0, 0, 0))?;
        Ok((self.commands, self.marks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::op::Rows;
    use ottava_npu::isa::{Local, Region};

    #[test]
    fn registers_are_set_once_and_far_addresses_use_dhi() {
        let mut emitter = Emitter::default();
        emitter.begin(3).unwrap();
        let place = Place { region: Region::Const, offset: (5 << 29) + 7, also: None };
        for _ in 0..2 {
            emitter.push(Op::load(place, Local::w(0), Rows { rows: 2, bytes: 3, pitch: 8 })).unwrap();
        }
        let (commands, marks) = emitter.finish().unwrap();
        assert_eq!(marks, [NodeMark { first: 0, node: 3 }]);
        let sets: Vec<u32> = commands.iter().filter(|i| i.op == Opcode::Set).map(|i| i.b).collect();
        assert_eq!(sets, [5, 2, 3, 8], "DHI, ROWS, ROWB, DSTRIDE; LSTRIDE is 0 from the start");
        let loads: Vec<&Inst> = commands.iter().filter(|i| i.op == Opcode::Ld2d).collect();
        assert_eq!((loads.len(), loads[0].a), (2, 3 << 29 | 7));
        assert!(commands.iter().all(|i| i.check().is_ok()));
    }
}
