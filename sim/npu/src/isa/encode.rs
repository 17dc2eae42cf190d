//! Instructions to bytes and back.

use super::{DramAddr, INST_BYTES, Inst, Local, N_EVENTS, Opcode, OperandKind, Queue, Reg, Tokens};
use thiserror::Error;

/// Sixteen bytes that are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum DecodeError {
    #[error("opcode {0:#04x} is unknown")]
    Opcode(u8),
    #[error("bits 2 and 3 of the queue byte {0:#04x} must be zero")]
    QueueByte(u8),
    #[error("{op} cannot wait in queue {queue}")]
    Queue { op: &'static str, queue: &'static str },
    #[error("{op} runs in the command processor and takes no tokens")]
    ControlTokens { op: &'static str },
    #[error("{op} in queue {queue} names a neighbour that the chain ld - ex - vec - st does not have")]
    Neighbour { op: &'static str, queue: &'static str },
    #[error("{op} has no flags {bits:#06x}")]
    Flags { op: &'static str, bits: u16 },
    #[error("operand {operand} of {op} must be zero, found {value:#x}")]
    NotZero { op: &'static str, operand: char, value: u32 },
    #[error("register {0} is unknown")]
    Register(u32),
    #[error("operand {operand} of {op} is no local address: {value:#010x}")]
    Local { op: &'static str, operand: char, value: u32 },
    #[error("operand {operand} of {op} names DRAM region {} of 0..=3", value >> 29)]
    Dram { op: &'static str, operand: char, value: u32 },
    #[error("event {0} of 0..64")]
    Event(u32),
}

impl Inst {
    /// The sixteen bytes.
    pub fn encode(&self) -> [u8; INST_BYTES] {
        let mut bytes = [0; INST_BYTES];
        bytes[0] = self.op as u8;
        bytes[1] = self.queue as u8 | self.tokens.bits() << 4;
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.a.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.b.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.c.to_le_bytes());
        bytes
    }

    /// The instruction of these bytes. Succeeds exactly for what [`Inst::encode`] makes of a valid instruction.
    pub fn decode(bytes: &[u8; INST_BYTES]) -> Result<Self, DecodeError> {
        let op = Opcode::from_code(bytes[0]).ok_or(DecodeError::Opcode(bytes[0]))?;
        if bytes[1] & 0x0C != 0 {
            return Err(DecodeError::QueueByte(bytes[1]));
        }
        let word = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        let inst = Self {
            op,
            queue: Queue::ALL[usize::from(bytes[1] & 3)],
            tokens: Tokens::from_bits(bytes[1] >> 4),
            flags: u16::from_le_bytes([bytes[2], bytes[3]]),
            a: word(4),
            b: word(8),
            c: word(12),
        };
        inst.check()?;
        Ok(inst)
    }

    /// Whether the fields are what the table allows.
    pub fn check(&self) -> Result<(), DecodeError> {
        let info = self.op.info();
        let (op, queue) = (info.name, self.queue.name());
        if info.is_control() && self.tokens != Tokens::NONE {
            return Err(DecodeError::ControlTokens { op });
        }
        if !info.allows(self.queue) {
            return Err(DecodeError::Queue { op, queue });
        }
        let Tokens { pop_prev, pop_next, push_prev, push_next } = self.tokens;
        let no_prev = self.queue == Queue::Ld && (pop_prev || push_prev);
        let no_next = self.queue == Queue::St && (pop_next || push_next);
        if no_prev || no_next {
            return Err(DecodeError::Neighbour { op, queue });
        }
        let unknown = self.flags & !info.flag_mask();
        if unknown != 0 {
            return Err(DecodeError::Flags { op, bits: unknown });
        }
        let fields = [('a', self.a), ('b', self.b), ('c', self.c)];
        fields
            .into_iter()
            .zip(info.operands)
            .try_for_each(|((operand, value), kind)| check_operand(op, operand, value, kind))
    }
}

fn check_operand(op: &'static str, operand: char, value: u32, kind: OperandKind) -> Result<(), DecodeError> {
    let ok = match kind {
        OperandKind::None => value == 0,
        OperandKind::Reg => Reg::from_number(value).is_some(),
        OperandKind::Local => Local::from_bits(value).is_some(),
        OperandKind::Dram => DramAddr::from_bits(value).is_some(),
        OperandKind::Event => value < N_EVENTS,
        OperandKind::Value | OperandKind::Number => true,
    };
    if ok {
        return Ok(());
    }
    Err(match kind {
        OperandKind::Reg => DecodeError::Register(value),
        OperandKind::Local => DecodeError::Local { op, operand, value },
        OperandKind::Dram => DecodeError::Dram { op, operand, value },
        OperandKind::Event => DecodeError::Event(value),
        OperandKind::None | OperandKind::Value | OperandKind::Number => DecodeError::NotZero { op, operand, value },
    })
}
