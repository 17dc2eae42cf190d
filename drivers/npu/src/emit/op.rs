//! One instruction and the registers it reads.

use ottava_npu::isa::{Dtype, Inst, Local, Opcode, Reg, Region, flags};

/// The outer end of a transfer: a region and a byte in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub region: Region,
    pub offset: u64,
    /// A region and a byte to which a store goes as well.
    pub also: Option<(Region, u64)>,
}

/// Which operand of an instruction is the address outside the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DramOperand {
    None,
    A(Place),
    B(Place),
}

/// One instruction with every register that it reads and that is not at its reset value.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(super) inst: Inst,
    pub(super) dram: DramOperand,
    pub(super) sets: Vec<(Reg, u32)>,
}

/// A two-dimensional transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Number of rows.
    pub rows: usize,
    /// Bytes of each.
    pub bytes: usize,
    /// Bytes from row to row outside the chip.
    pub pitch: usize,
}

impl Rows {
    /// Consecutive bytes.
    pub(crate) fn dense(bytes: usize) -> Self {
        Self { rows: 1, bytes, pitch: bytes }
    }

    fn registers(self, op: Op) -> Op {
        // Rows that follow one another are one long row: fewer, longer bursts.
        let joined = self.rows == 1 || self.pitch == self.bytes;
        let (rows, bytes) = if joined { (1, self.rows * self.bytes) } else { (self.rows, self.bytes) };
        let pitch = if joined { 0 } else { self.pitch };
        op.set(Reg::Rows, rows).set(Reg::Rowb, bytes).set(Reg::Dstride, pitch).set(Reg::Lstride, 0)
    }
}

impl Op {
    /// An instruction without registers.
    pub(crate) fn new(op: Opcode, a: u32, b: u32, c: u32) -> Self {
        Self { inst: Inst::new(op, a, b, c), dram: DramOperand::None, sets: Vec::new() }
    }

    /// Loads rows; they lie dense on the chip.
    pub(crate) fn load(from: Place, to: Local, rows: Rows) -> Self {
        let mut op = rows.registers(Self::new(Opcode::Ld2d, 0, to.bits(), 0));
        op.dram = DramOperand::A(from);
        op
    }

    /// Stores rows that lie dense on the chip.
    pub(crate) fn store(from: Local, to: Place, rows: Rows) -> Self {
        let mut op = rows.registers(Self::new(Opcode::St2d, from.bits(), 0, 0));
        op.dram = DramOperand::B(to);
        op
    }

    /// Stores `rows.rows` rows of accumulators through the requantizer, a byte for each; the rows are never joined,
    /// because the table goes by column.
    pub(crate) fn store_requantized(from: Local, to: Place, rows: Rows) -> Self {
        let mut op = Self::new(Opcode::St2d, from.bits(), 0, 0);
        op.dram = DramOperand::B(to);
        op.set(Reg::Rows, rows.rows).set(Reg::Rowb, rows.bytes).set(Reg::Dstride, rows.pitch).set(Reg::Lstride, 0)
    }

    /// The operation, before it the store to a second place if there is one.
    pub(super) fn with_second_store(self) -> impl Iterator<Item = Self> {
        let second = match self.dram {
            DramOperand::B(Place { also: Some((region, offset)), .. }) => {
                Some(Self { dram: DramOperand::B(Place { region, offset, also: None }), ..self.clone() })
            }
            _ => None,
        };
        second.into_iter().chain([self])
    }

    /// An instruction whose first operand is outside the chip.
    pub(crate) fn from_dram(op: Opcode, from: Place, b: u32, c: u32) -> Self {
        Self { dram: DramOperand::A(from), ..Self::new(op, 0, b, c) }
    }

    /// A register that holds an unsigned number. Lowering has checked that sizes fit 32 bits.
    pub(crate) fn set(mut self, reg: Reg, value: usize) -> Self {
        self.sets.push((reg, u32::try_from(value).unwrap_or(u32::MAX)));
        self
    }

    /// A register that holds a signed number.
    pub(crate) fn int(mut self, reg: Reg, value: i32) -> Self {
        self.sets.push((reg, value.cast_unsigned()));
        self
    }

    /// A register that holds an f32.
    pub(crate) fn float(mut self, reg: Reg, value: f32) -> Self {
        self.sets.push((reg, value.to_bits()));
        self
    }

    /// A register that holds an element type.
    pub(crate) fn dtype(mut self, reg: Reg, value: Dtype) -> Self {
        self.sets.push((reg, value as u32));
        self
    }

    /// A register that holds a local address.
    pub(crate) fn local(mut self, reg: Reg, value: Local) -> Self {
        self.sets.push((reg, value.bits()));
        self
    }

    /// Rows and columns.
    pub(crate) fn size(self, m: usize, n: usize) -> Self {
        self.set(Reg::M, m).set(Reg::N, n)
    }

    /// Adds flags.
    pub(crate) fn flag(mut self, flags: u16) -> Self {
        self.inst = self.inst.with(flags);
        self
    }

    /// Adds the flag ACC where `on`.
    pub(crate) fn accumulate(self, on: bool) -> Self {
        if on { self.flag(flags::ACC) } else { self }
    }
}
