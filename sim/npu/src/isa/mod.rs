//! The instruction set: sixteen bytes per instruction, one table line per instruction.
//!
//! [`table`] is the only place that lists instructions; encoder, decoder, assembler, disassembler and verifier read
//! it. [`regs`] lists the sticky registers, [`addr`] the local and DRAM addresses, [`container`] the file.
//!
//! **Instruction.** Little-endian `u8 opcode; u8 q; u16 flags; u32 a; u32 b; u32 c`. `q`: bits 0-1 the queue (LD 0, EX 1,
//! VEC 2, ST 3), bits 2-3 zero, bits 4-7 the tokens pop_prev, pop_next, push_prev, push_next. An operand, flag or token
//! that an instruction does not have is zero; anything else is a decoding error.
//!
//! **Registers.** SET, SUBGRAPH and END belong to the command processor: they carry no tokens and run in stream order
//! while instructions are decoded. Every other instruction captures the registers it reads when it is decoded, so a
//! later SET never changes an instruction that waits in a queue. SUBGRAPH gives all registers their reset values.
//!
//! **Queues and tokens.** The queues form the chain LD - EX - VEC - ST. Each neighbouring pair has a forward counter
//! ("ready") and a backward counter ("free"), both 0 at the start, capacity 15. An instruction starts when it is at the
//! head of its queue, every pop finds a token (pop_prev: forward from the queue before, pop_next: backward from the queue
//! behind) and every push finds room; its pushes (push_next: forward, push_prev: backward) are visible when it ends. NOP
//! carries tokens and does nothing else. Anything that is not a neighbour uses events: SIGNAL adds one to
//! counter e, WAIT takes one; one queue signals an event and one queue waits for it. Events 32.. are device fences:
//! the host signals before the run, and sees after it, what the other side of the fence needs.
//!
//! **Data.** Activations are NHWC in DRAM and row-major (pixel, channel) in a scratchpad. Weights are `[K][N]`, the
//! output channel contiguous, with K in the order (kh, kw, input channel). Accumulators are i32 elements addressed by
//! element. A table of the requantizer has twelve bytes per channel: `i32 bias, u32 multiplier, i32 shift`
//! (`fp32_rne`: the bits of the f32 and shift 0; Q31 modes: M and s), bias added before the multiplication. Tables are
//! bytes in a scratchpad, loaded like any data. Padding is a tap that contributes nothing (DWCONV, POOL) or the byte
//! PADV (LD_IM2COL), which the compiler sets to the input's zero point.

pub mod addr;
pub mod container;
mod encode;
pub mod regs;
pub mod table;
#[cfg(test)]
mod tests;

pub use addr::{DramAddr, Local, Region, Space};
pub use container::{ContainerError, NodeMark, Stream};
pub use encode::DecodeError;
pub use regs::{Dtype, Reg, RegKind, Registers};
pub use table::{OpInfo, Opcode, OperandKind, flags, vector_op_names};

/// Bytes of one instruction.
pub const INST_BYTES: usize = 16;
/// Tokens that one counter holds.
pub const TOKEN_CAPACITY: u32 = 15;
/// Number of events.
pub const N_EVENTS: u32 = 64;
/// The first event that is a device fence.
pub const FIRST_FENCE_EVENT: u32 = 32;
/// Bytes of one channel in a table of the requantizer.
pub const RQ_ENTRY_BYTES: u32 = 12;

/// One of the four in-order queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Queue {
    /// Loads.
    Ld = 0,
    /// The array.
    Ex = 1,
    /// The vector unit.
    Vec = 2,
    /// Stores.
    St = 3,
}

impl Queue {
    /// The chain, in order.
    pub const ALL: [Self; 4] = [Self::Ld, Self::Ex, Self::Vec, Self::St];

    /// The position in the chain.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in assembler text.
    pub const fn name(self) -> &'static str {
        ["ld", "ex", "vec", "st"][self as usize]
    }
}

/// The token bits of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tokens {
    /// Take a ready token of the queue before.
    pub pop_prev: bool,
    /// Take a free token of the queue behind.
    pub pop_next: bool,
    /// Give a free token to the queue before.
    pub push_prev: bool,
    /// Give a ready token to the queue behind.
    pub push_next: bool,
}

impl Tokens {
    /// No token at all.
    pub const NONE: Self = Self { pop_prev: false, pop_next: false, push_prev: false, push_next: false };

    /// The four bits, pop_prev lowest.
    pub const fn bits(self) -> u8 {
        self.pop_prev as u8 | (self.pop_next as u8) << 1 | (self.push_prev as u8) << 2 | (self.push_next as u8) << 3
    }

    /// The tokens of the four low bits.
    pub const fn from_bits(bits: u8) -> Self {
        Self { pop_prev: bits & 1 != 0, pop_next: bits & 2 != 0, push_prev: bits & 4 != 0, push_next: bits & 8 != 0 }
    }
}

/// One instruction, fields as encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inst {
    /// What it does.
    pub op: Opcode,
    /// Where it waits; LD for SET, SUBGRAPH and END.
    pub queue: Queue,
    /// Tokens taken before and given after.
    pub tokens: Tokens,
    /// Flag bits of the opcode, see [`flags`].
    pub flags: u16,
    /// First operand.
    pub a: u32,
    /// Second operand.
    pub b: u32,
    /// Third operand.
    pub c: u32,
}

impl Inst {
    /// An instruction in the first queue that its opcode allows, without tokens and flags.
    pub fn new(op: Opcode, a: u32, b: u32, c: u32) -> Self {
        let queue = Queue::ALL.into_iter().find(|q| op.info().allows(*q)).unwrap_or(Queue::Ld);
        Self { op, queue, tokens: Tokens::NONE, flags: 0, a, b, c }
    }

    /// `SET reg, value`.
    pub fn set(reg: Reg, value: u32) -> Self {
        Self::new(Opcode::Set, reg as u32, value, 0)
    }

    /// The same instruction in another queue.
    #[must_use]
    pub fn on(mut self, queue: Queue) -> Self {
        self.queue = queue;
        self
    }

    /// The same instruction with flags added.
    #[must_use]
    pub fn with(mut self, flags: u16) -> Self {
        self.flags |= flags;
        self
    }

    /// Takes a ready token of the queue before.
    #[must_use]
    pub fn pop_prev(mut self) -> Self {
        self.tokens.pop_prev = true;
        self
    }

    /// Takes a free token of the queue behind.
    #[must_use]
    pub fn pop_next(mut self) -> Self {
        self.tokens.pop_next = true;
        self
    }

    /// Gives a free token to the queue before.
    #[must_use]
    pub fn push_prev(mut self) -> Self {
        self.tokens.push_prev = true;
        self
    }

    /// Gives a ready token to the queue behind.
    #[must_use]
    pub fn push_next(mut self) -> Self {
        self.tokens.push_next = true;
        self
    }
}
