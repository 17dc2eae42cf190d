//! The instruction table: one line per instruction, everything else derives from it.
//!
//! Shapes come from the registers that the last column names; "dense" pitches (0) mean rows that follow one another.

use super::Queue;

/// What an operand field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandKind {
    /// Nothing; the field is zero.
    None,
    /// A register number.
    Reg,
    /// The value of the register in the field before.
    Value,
    /// The outer end of a transfer: an address in DRAM or in a scratchpad.
    Dram,
    /// A local address.
    Local,
    /// A plain number.
    Number,
    /// An event number, 0..64.
    Event,
}

/// One line of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct OpInfo {
    /// The instruction.
    pub op: Opcode,
    /// Its byte.
    pub code: u8,
    /// Its name in assembler text.
    pub name: &'static str,
    /// Queues that may hold it, bit i for queue i; 0: the command processor itself.
    pub queues: u8,
    /// Kinds of a, b and c.
    pub operands: [OperandKind; 3],
    /// Flag names and bits.
    pub flags: &'static [(&'static str, u16)],
    /// The capability group of the container header.
    pub capability: u32,
    /// The name under which the configuration lists its cycles on the vector unit.
    pub cycles: Option<&'static str>,
}

impl OpInfo {
    /// Whether the instruction may wait in `queue`; one of the command processor is encoded as queue LD.
    pub fn allows(&self, queue: Queue) -> bool {
        if self.queues == 0 { queue == Queue::Ld } else { self.queues & (1 << queue.index()) != 0 }
    }

    /// Whether the command processor runs it while decoding.
    pub fn is_control(&self) -> bool {
        self.queues == 0
    }

    /// All flag bits.
    pub fn flag_mask(&self) -> u16 {
        self.flags.iter().fold(0, |mask, (_, bit)| mask | bit)
    }
}

/// Flag bits, by instruction.
pub mod flags {
    /// LD2D: every row reads the same DRAM row.
    pub const BCAST: u16 = 1;
    /// GEMM, DWCONV, REDSUM: add to the accumulators (the same as bit 30 of the address).
    pub const ACC: u16 = 1;
    /// ST2D, REQUANT, RESIDUAL: one table entry per channel instead of one for all.
    pub const PC: u16 = 1;
    /// ST2D, REQUANT, RESIDUAL: the sums have 64 bits, two accumulators each, as GEMM leaves them for s16 rows.
    pub const WIDE: u16 = 2;
    /// With WIDE: the sums fit 32 bits and are rounded as such.
    pub const NARROW: u16 = 4;
    /// ADD, MUL: the zero point is added before rounding (com.microsoft QLinear forms).
    pub const QLIN: u16 = 1;
    /// ADD, SUB, MUL, RESCALE: the TFLite form in the Q31 mode of RQ_MODE. SOFTMAX: TFLite's, without a table.
    pub const TFL: u16 = 2;
    /// Binary operations: every row uses row 0 of the second operand.
    pub const BROW: u16 = 4;
    /// Binary operations: every row uses element 0 of its row of the second operand.
    pub const BELEM: u16 = 8;
    /// CMP: true where equal.
    pub const EQ: u16 = 16;
    /// CMP: true where less.
    pub const LT: u16 = 32;
    /// CMP: true where greater.
    pub const GT: u16 = 64;
    /// POOL: average instead of maximum.
    pub const AVG: u16 = 1;
    /// POOL: an average divides by the taps inside the padded image.
    pub const PAD: u16 = 2;
    /// POOL: TFLite's average of the raw values (equal parameters).
    pub const RAW: u16 = 4;
}

/// Capability groups of the container header.
pub mod caps {
    /// DMA, array and control.
    pub const CORE: u32 = 1;
    /// Depthwise convolution.
    pub const DW: u32 = 2;
    /// Element-wise operations, tables and reductions.
    pub const VEC: u32 = 4;
    /// Pools and transposition.
    pub const POOL: u32 = 8;
    /// Events.
    pub const EVENT: u32 = 16;
    /// All that this machine knows.
    pub const ALL: u32 = 31;
}

macro_rules! instructions {
    ($($op:ident $code:literal $name:literal $queues:expr, [$a:ident $b:ident $c:ident], $flags:expr, $cap:ident,
       $cycles:expr, $doc:literal;)*) => {
        /// An instruction's opcode.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Opcode {
            $(#[doc = $doc] $op = $code,)*
        }

        /// Every instruction, by ascending code.
        pub const OPS: &[OpInfo] = &[$(OpInfo {
            op: Opcode::$op,
            code: $code,
            name: $name,
            queues: $queues,
            operands: [OperandKind::$a, OperandKind::$b, OperandKind::$c],
            flags: $flags,
            capability: caps::$cap,
            cycles: $cycles,
        },)*];
    };
}

const CP: u8 = 0;
const LD: u8 = 1;
const EX: u8 = 2;
const VEC: u8 = 4;
const ST: u8 = 8;
const ANY: u8 = 15;
const SUMS: &[(&str, u16)] = &[("PC", flags::PC), ("WIDE", flags::WIDE), ("NARROW", flags::NARROW)];
const BINARY: &[(&str, u16)] = &[("BROW", flags::BROW), ("BELEM", flags::BELEM)];
const SUBTRACT: &[(&str, u16)] = &[("TFL", flags::TFL), ("BROW", flags::BROW), ("BELEM", flags::BELEM)];
const SCALED: &[(&str, u16)] =
    &[("QLIN", flags::QLIN), ("TFL", flags::TFL), ("BROW", flags::BROW), ("BELEM", flags::BELEM)];
const COMPARE: &[(&str, u16)] =
    &[("BROW", flags::BROW), ("BELEM", flags::BELEM), ("EQ", flags::EQ), ("LT", flags::LT), ("GT", flags::GT)];
const POOLS: &[(&str, u16)] = &[("AVG", flags::AVG), ("PAD", flags::PAD), ("RAW", flags::RAW)];

instructions! {
    Set 0x01 "SET" CP, [Reg Value None], &[], CORE, None, "Register a takes the value b.";
    Subgraph 0x02 "SUBGRAPH" CP, [Number None None], &[], CORE, None, "Resets the registers; marks node range a.";
    Nop 0x03 "NOP" ANY, [None None None], &[], CORE, None, "Carries tokens.";
    Ld2d 0x10 "LD2D" LD, [Dram Local None], &[("BCAST", flags::BCAST)], CORE, None, "ROWS rows of ROWB bytes, DRAM or scratchpad a to local b.";
    LdIm2col 0x11 "LD_IM2COL" LD, [Dram Local Number], &[], CORE, None, "ROWS rows of taps from the image in DRAM or a scratchpad at a to local b, output pixel c first.";
    St2d 0x18 "ST2D" ST, [Local Dram None], SUMS, CORE, None, "ROWS rows of ROWB bytes, local a to DRAM or scratchpad b; accumulators through the requantizer.";
    Preload 0x20 "PRELOAD" EX, [Local None None], &[], CORE, None, "The K x N operand at a becomes the second factor of the GEMMs that follow.";
    Gemm 0x21 "GEMM" EX, [Local Local None], &[("ACC", flags::ACC)], CORE, None, "M x K rows at a times the preloaded operand, to accumulators b; s16 rows: to 64 bits, two accumulators a sum.";
    Dwconv 0x22 "DWCONV" EX | VEC, [Local Local Local], &[("ACC", flags::ACC)], DW, Some("mac"), "Depthwise convolution of image a with weights b to accumulators c.";
    Requant 0x28 "REQUANT" VEC, [Local Local None], SUMS, CORE, Some("requant"), "M x N accumulators a to bytes b.";
    Residual 0x29 "RESIDUAL" VEC, [Local Local Local], SUMS, CORE, Some("residual"), "c = accumulators a, as reals, plus bytes b, quantized.";
    Add 0x30 "ADD" VEC, [Local Local Local], SCALED, VEC, Some("add"), "c = a + b in the parameters of SA ZA, SB ZB, SO ZO.";
    Sub 0x31 "SUB" VEC, [Local Local Local], SUBTRACT, VEC, Some("sub"), "c = a - b.";
    Mul 0x32 "MUL" VEC, [Local Local Local], SCALED, VEC, Some("mul"), "c = a * b.";
    Min 0x33 "MIN" VEC, [Local Local Local], BINARY, VEC, Some("min"), "c = min(a, b) of the integers.";
    Max 0x34 "MAX" VEC, [Local Local Local], BINARY, VEC, Some("max"), "c = max(a, b) of the integers.";
    Shift 0x35 "SHIFT" VEC, [Local Local Number], &[], VEC, Some("shift"), "Accumulators b = a / 2^c, half away from zero.";
    Lut8 0x36 "LUT8" VEC, [Local Local None], &[], VEC, Some("lut8"), "b = table[a], 256 bytes at LUT.";
    Lut16 0x37 "LUT16" VEC, [Local Local None], &[], VEC, Some("lut16"), "b = interpolated table of a, 513 s16 at LUT.";
    Redsum 0x38 "REDSUM" VEC, [Local Local None], &[("ACC", flags::ACC)], VEC, Some("redsum"), "Accumulators b[n] = sum over the M rows of a[m][n] - ZA.";
    Redmax 0x39 "REDMAX" VEC, [Local Local None], &[], VEC, Some("redmax"), "b[n] = maximum over the M rows of a[m][n].";
    Cmp 0x3A "CMP" VEC, [Local Local Local], COMPARE, VEC, Some("cmp"), "c = 1 where a compares to b as EQ, LT, GT say.";
    Cast 0x3B "CAST" VEC, [Local Local None], &[], VEC, Some("cast"), "b = a clamped to CLAMP_LO..CLAMP_HI, in another type.";
    Rescale 0x3C "RESCALE" VEC, [Local Local None], &[("TFL", flags::TFL)], VEC, Some("rescale"), "b = a in other parameters: from SA ZA to SO ZO.";
    Softmax 0x3D "SOFTMAX" VEC, [Local Local None], &[("TFL", flags::TFL)], VEC, Some("softmax"), "Softmax of M rows of N, 256 u32 at LUT.";
    Pool 0x40 "POOL" VEC, [Local Local None], POOLS, POOL, Some("pool"), "Maximum or average of windows of image a.";
    Xpose 0x41 "XPOSE" VEC, [Local Local None], &[], POOL, Some("xpose"), "b[n][m] = a[m][n].";
    Wait 0x50 "WAIT" ANY, [Event None None], &[], EVENT, None, "Takes one signal of event a.";
    Signal 0x51 "SIGNAL" ANY, [Event None None], &[], EVENT, None, "Gives one signal to event a.";
    Irq 0x5E "IRQ" ANY, [None None None], &[], CORE, None, "Tells the host, once everything before it in its queue is done.";
    End 0x5F "END" CP, [None None None], &[], CORE, None, "The end of the stream.";
}

impl Opcode {
    /// The instruction of this byte.
    pub fn from_code(code: u8) -> Option<Self> {
        let at = OPS.binary_search_by_key(&code, |info| info.code).ok()?;
        Some(OPS[at].op)
    }

    /// The instruction of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        OPS.iter().find(|info| info.name == name).map(|info| info.op)
    }

    /// The table line.
    pub fn info(self) -> &'static OpInfo {
        let at = OPS.iter().position(|info| info.op == self).expect("the enum and the table come from the same lines");
        &OPS[at]
    }
}

/// The names that `vector.cycles` of a configuration may list.
pub fn vector_op_names() -> impl Iterator<Item = &'static str> {
    OPS.iter().filter_map(|info| info.cycles)
}
