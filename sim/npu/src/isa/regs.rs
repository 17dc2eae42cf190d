//! The sticky registers: shapes, pitches, quantization parameters and table addresses.

/// How a register's 32 bits read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegKind {
    /// An unsigned number.
    Unsigned,
    /// A signed number, two's complement.
    Signed,
    /// The bits of an f32.
    Float,
    /// A local address.
    Local,
    /// A [`Dtype`] code.
    Dtype,
}

/// One line of the register table.
#[derive(Debug, PartialEq, Eq)]
pub struct RegInfo {
    /// The register.
    pub reg: Reg,
    /// Its name in assembler text.
    pub name: &'static str,
    /// How its bits read.
    pub kind: RegKind,
    /// The value after SUBGRAPH and at the start.
    pub reset: u32,
}

macro_rules! registers {
    ($($reg:ident $number:literal $name:literal $kind:ident $reset:expr, $doc:literal;)*) => {
        /// A register.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Reg {
            $(#[doc = $doc] $reg = $number,)*
        }

        /// Every register, by number without gaps.
        pub const REGS: &[RegInfo] = &[$(RegInfo {
            reg: Reg::$reg, name: $name, kind: RegKind::$kind, reset: $reset,
        },)*];
    };
}

/// -128 as register bits.
const MINUS_128: u32 = (-128_i32).cast_unsigned();

registers! {
    M 0 "M" Unsigned 1, "Rows of a product or of an element-wise operation.";
    N 1 "N" Unsigned 1, "Columns, output channels.";
    K 2 "K" Unsigned 1, "Length of the sums of a product.";
    Ih 3 "IH" Unsigned 1, "Height of the image.";
    Iw 4 "IW" Unsigned 1, "Width of the image.";
    Ic 5 "IC" Unsigned 1, "Channels of the image.";
    Kh 6 "KH" Unsigned 1, "Height of the window.";
    Kw 7 "KW" Unsigned 1, "Width of the window.";
    Sh 8 "SH" Unsigned 1, "Vertical step of the window.";
    Sw 9 "SW" Unsigned 1, "Horizontal step of the window.";
    Dh 10 "DH" Unsigned 1, "Vertical distance of taps.";
    Dw 11 "DW" Unsigned 1, "Horizontal distance of taps.";
    Pt 12 "PT" Signed 0, "Rows of padding above the image; negative: the first window begins inside.";
    Pl 13 "PL" Signed 0, "Columns of padding left of the image.";
    Pb 14 "PB" Signed 0, "Rows of padding below (averages that count padding).";
    Pr 15 "PR" Signed 0, "Columns of padding right (averages that count padding).";
    Padv 16 "PADV" Signed 0, "The byte of LD_IM2COL outside the image.";
    Oh 17 "OH" Unsigned 1, "Height of the output.";
    Ow 18 "OW" Unsigned 1, "Width of the output.";
    Rows 19 "ROWS" Unsigned 1, "Rows of a transfer.";
    Rowb 20 "ROWB" Unsigned 1, "Bytes of a row of a transfer.";
    Dstride 21 "DSTRIDE" Unsigned 0, "DRAM bytes from row to row (LD_IM2COL: from pixel to pixel); 0: dense.";
    Lstride 22 "LSTRIDE" Unsigned 0, "Local distance from row to row, bytes or elements; 0: dense.";
    DtypeA 23 "DTYPE_A" Dtype 0, "Type of the first operand.";
    DtypeW 24 "DTYPE_W" Dtype 0, "Type of the weights or of the second operand.";
    DtypeO 25 "DTYPE_O" Dtype 0, "Type of the output.";
    Za 26 "ZA" Signed 0, "Zero point of the first operand.";
    Zw 27 "ZW" Signed 0, "Zero point of the weights.";
    Zo 28 "ZO" Signed 0, "Zero point of the output.";
    ClampLo 29 "CLAMP_LO" Signed MINUS_128, "The least output value.";
    ClampHi 30 "CLAMP_HI" Signed 127, "The greatest output value.";
    RqMode 31 "RQ_MODE" Unsigned 1, "1 fp32_rne, 2 q31_double, 3 q31_single.";
    RqTable 32 "RQ_TABLE" Local 0, "The requantizer's table.";
    Lut 33 "LUT" Local 0, "The table of LUT8, LUT16 and SOFTMAX.";
    Groups 34 "GROUPS" Unsigned 1, "Input channels of DWCONV.";
    PitchA 35 "PITCH_A" Unsigned 0, "Distance of rows or pixels of the first operand; 0: dense.";
    PitchW 36 "PITCH_W" Unsigned 0, "Distance of rows or taps of the second operand; 0: dense.";
    PitchO 37 "PITCH_O" Unsigned 0, "Distance of rows or pixels of the output; 0: dense.";
    Sa 38 "SA" Float 0x3F80_0000, "Scale of the first operand.";
    Sb 39 "SB" Float 0x3F80_0000, "Scale of the second operand.";
    So 40 "SO" Float 0x3F80_0000, "Scale of the output.";
    Zb 41 "ZB" Signed 0, "Zero point of the second operand.";
    Dhi 42 "DHI" Unsigned 0, "Multiples of 2^29 bytes added to DRAM addresses.";
}

impl Reg {
    /// The register of this number.
    pub fn from_number(number: u32) -> Option<Self> {
        REGS.get(usize::try_from(number).ok()?).map(|info| info.reg)
    }

    /// The register of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        REGS.iter().find(|info| info.name == name).map(|info| info.reg)
    }

    /// The table line.
    pub fn info(self) -> &'static RegInfo {
        &REGS[self as usize]
    }
}

/// The register file of the command processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers([u32; REGS.len()]);

impl Default for Registers {
    fn default() -> Self {
        Self(std::array::from_fn(|i| REGS[i].reset))
    }
}

impl Registers {
    /// The raw bits.
    pub fn get(&self, reg: Reg) -> u32 {
        self.0[reg as usize]
    }

    /// The value of a signed register.
    pub fn signed(&self, reg: Reg) -> i32 {
        self.get(reg).cast_signed()
    }

    /// The value of a float register.
    pub fn float(&self, reg: Reg) -> f32 {
        f32::from_bits(self.get(reg))
    }

    /// Writes a register.
    pub fn set(&mut self, reg: Reg, value: u32) {
        self.0[reg as usize] = value;
    }
}

/// Element types by their register codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are the types")]
pub enum Dtype {
    S8 = 0,
    U8 = 1,
    S4 = 2,
    S16 = 3,
    F16 = 4,
    Bf16 = 5,
    F32 = 6,
}

impl Dtype {
    /// The types in the order of their codes.
    pub const ALL: [Self; 7] = [Self::S8, Self::U8, Self::S4, Self::S16, Self::F16, Self::Bf16, Self::F32];

    /// The type of this code.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The name in assembler text.
    pub const fn name(self) -> &'static str {
        ["s8", "u8", "s4", "s16", "f16", "bf16", "f32"][self as usize]
    }

    /// The range of an integer type; `None` for the floats.
    pub const fn range(self) -> Option<(i32, i32)> {
        match self {
            Self::S8 => Some((-128, 127)),
            Self::U8 => Some((0, 255)),
            Self::S4 => Some((-8, 7)),
            Self::S16 => Some((-32768, 32767)),
            Self::F16 | Self::Bf16 | Self::F32 => None,
        }
    }

    /// Bytes of an element; nibbles count as one.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::S8 | Self::U8 | Self::S4 => 1,
            Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
        }
    }
}
