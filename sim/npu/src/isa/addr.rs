//! Local and DRAM addresses.

/// An on-chip memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Scratchpad of the activations, by byte.
    A,
    /// Scratchpad of the weights and tables, by byte.
    W,
    /// The accumulators, by element.
    Acc,
}

impl Space {
    /// The name in assembler text and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::W => "W",
            Self::Acc => "acc",
        }
    }
}

/// A local address: bit 31 accumulator, bit 30 accumulate on write, bit 29 full-width read, bit 28 W scratchpad, the low
/// 24 bits byte or element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    /// The memory.
    pub space: Space,
    /// Add to what is there (accumulators).
    pub accumulate: bool,
    /// Read the accumulators as i32 instead of through the requantizer.
    pub full_width: bool,
    /// Byte or element, below 2^24.
    pub offset: u32,
}

const ACC: u32 = 1 << 31;
const ADD: u32 = 1 << 30;
const FULL: u32 = 1 << 29;
const W: u32 = 1 << 28;
/// Offsets have 24 bits.
pub const LOCAL_MASK: u32 = (1 << 24) - 1;

impl Local {
    /// Byte `offset` of the activations' scratchpad.
    pub const fn a(offset: u32) -> Self {
        Self { space: Space::A, accumulate: false, full_width: false, offset }
    }

    /// Byte `offset` of the weights' scratchpad.
    pub const fn w(offset: u32) -> Self {
        Self { space: Space::W, ..Self::a(offset) }
    }

    /// Accumulator `offset`, overwritten on write, requantized on read.
    pub const fn acc(offset: u32) -> Self {
        Self { space: Space::Acc, ..Self::a(offset) }
    }

    /// Accumulator `offset`, added to on write.
    pub const fn acc_add(offset: u32) -> Self {
        Self { accumulate: true, ..Self::acc(offset) }
    }

    /// Accumulator `offset`, read as i32.
    pub const fn acc_full(offset: u32) -> Self {
        Self { full_width: true, ..Self::acc(offset) }
    }

    /// The encoded address.
    pub const fn bits(self) -> u32 {
        let space = match self.space {
            Space::A => 0,
            Space::W => W,
            Space::Acc => ACC,
        };
        let add = if self.accumulate { ADD } else { 0 };
        let full = if self.full_width { FULL } else { 0 };
        space | add | full | (self.offset & LOCAL_MASK)
    }

    /// The address of these bits; `None` for a combination without meaning: bits 24 to 27 set, accumulator and W
    /// together, or a mode of the accumulators on a scratchpad.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        let space = match (bits & ACC != 0, bits & W != 0) {
            (false, false) => Space::A,
            (false, true) => Space::W,
            (true, false) => Space::Acc,
            (true, true) => return None,
        };
        let is_acc = bits & ACC != 0;
        if bits & 0x0F00_0000 != 0 || (!is_acc && bits & (ADD | FULL) != 0) {
            return None;
        }
        let (accumulate, full_width) = (bits & ADD != 0, bits & FULL != 0);
        Some(Self { space, accumulate, full_width, offset: bits & LOCAL_MASK })
    }
}

/// What the outer end of a transfer names: a DRAM region, which the host binds to memory for each run, or one of the
/// chip's own scratchpads. A transfer between two places of the chip is a *move*: it takes no part of the memory bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Region {
    /// Inputs; read only.
    Input = 0,
    /// Outputs.
    Output = 1,
    /// Intermediate tensors.
    Scratch = 2,
    /// Weights, biases and tables; read only.
    Const = 3,
    /// The scratchpad of the activations.
    A = 4,
    /// The scratchpad of the weights.
    W = 5,
}

impl Region {
    /// The regions of memory, by number.
    pub const ALL: [Self; 4] = [Self::Input, Self::Output, Self::Scratch, Self::Const];
    /// The regions and the scratchpads, by number.
    pub const ENDS: [Self; 6] = [Self::Input, Self::Output, Self::Scratch, Self::Const, Self::A, Self::W];

    /// The number.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in assembler text and messages.
    pub const fn name(self) -> &'static str {
        ["in", "out", "scratch", "const", "chip.A", "chip.W"][self as usize]
    }

    /// The scratchpad, where it is one.
    pub const fn space(self) -> Option<Space> {
        match self {
            Self::A => Some(Space::A),
            Self::W => Some(Space::W),
            _ => None,
        }
    }

    /// Whether a store may go there.
    pub const fn is_writable(self) -> bool {
        matches!(self, Self::Output | Self::Scratch | Self::A | Self::W)
    }
}

/// The address of a transfer's outer end: the region in the top three bits, a 29-bit offset; DHI extends the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DramAddr {
    /// The region.
    pub region: Region,
    /// Bytes, below 2^29.
    pub offset: u32,
}

impl DramAddr {
    /// Offsets have 29 bits.
    pub const MASK: u32 = (1 << 29) - 1;

    /// An address, and the value of DHI that it needs (0 below 512 MiB); `None` beyond 2^61 bytes.
    pub fn split(region: Region, offset: u64) -> Option<(Self, u32)> {
        let low = (offset & u64::from(Self::MASK)) as u32;
        Some((Self { region, offset: low }, u32::try_from(offset >> 29).ok()?))
    }

    /// The encoded address.
    pub const fn bits(self) -> u32 {
        (self.region as u32) << 29 | (self.offset & Self::MASK)
    }

    /// The address of these bits; `None` for a region number above 5.
    pub fn from_bits(bits: u32) -> Option<Self> {
        let region = *Region::ENDS.get((bits >> 29) as usize)?;
        Some(Self { region, offset: bits & Self::MASK })
    }
}
