//! Element types. The numbers are those of the plugin ABI and never change.

use std::fmt;
use std::str::FromStr;

/// The type of one tensor element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
#[allow(missing_docs)] // The variants are their own documentation: sign, width, kind.
pub enum DataType {
    S4 = 1,
    U4 = 2,
    S8 = 3,
    U8 = 4,
    S16 = 5,
    U16 = 6,
    S32 = 7,
    S64 = 8,
    F16 = 9,
    BF16 = 10,
    F32 = 11,
    Bool = 12,
    F64 = 13,
    U32 = 14,
    U64 = 15,
}

use DataType::*;

impl DataType {
    /// Every type, in the order of the ABI numbers.
    pub const ALL: [Self; 15] = [S4, U4, S8, U8, S16, U16, S32, S64, F16, BF16, F32, Bool, F64, U32, U64];

    /// Bits per element (4 for the packed nibble types).
    pub const fn bits(self) -> usize {
        match self {
            S4 | U4 => 4,
            S8 | U8 | Bool => 8,
            S16 | U16 | F16 | BF16 => 16,
            S32 | U32 | F32 => 32,
            S64 | U64 | F64 => 64,
        }
    }

    /// Bytes that `n` elements take; nibbles are packed two per byte, the last one padded. `None` on overflow.
    pub fn byte_len(self, n: usize) -> Option<usize> {
        match self {
            S4 | U4 => n.checked_add(1).map(|m| m / 2),
            _ => n.checked_mul(self.bits() / 8),
        }
    }

    /// The ABI number's type.
    pub fn from_u32(value: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|t| *t as u32 == value)
    }

    /// `f16`, `bf16`, `f32`, `f64`.
    pub const fn is_float(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64)
    }

    /// Any integer type; `bool` is not one.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, Bool)
    }

    /// Signed integers and floats.
    pub const fn is_signed(self) -> bool {
        matches!(self, S4 | S8 | S16 | S32 | S64) || self.is_float()
    }

    /// Smallest and largest integer of a type of at most 32 bits; `None` for floats, bool and 64-bit types.
    pub const fn int_range(self) -> Option<(i64, i64)> {
        Some(match self {
            S4 => (-8, 7),
            U4 => (0, 15),
            S8 => (-128, 127),
            U8 => (0, 255),
            S16 => (-32768, 32767),
            U16 => (0, 65535),
            S32 => (i32::MIN as i64, i32::MAX as i64),
            U32 => (0, u32::MAX as i64),
            _ => return None,
        })
    }

    /// Range of a quantized storage as `i32` (`lo`, `hi`): the integer types of at most 16 bits, and s32.
    pub fn storage_range(self) -> Option<(i32, i32)> {
        match self {
            U32 => None,
            _ => self.int_range().map(|(lo, hi)| (lo as i32, hi as i32)),
        }
    }

    /// The project's name of the type: `s8`, `bf16`, `bool`, ...
    pub const fn name(self) -> &'static str {
        match self {
            S4 => "s4",
            U4 => "u4",
            S8 => "s8",
            U8 => "u8",
            S16 => "s16",
            U16 => "u16",
            S32 => "s32",
            S64 => "s64",
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            Bool => "bool",
            F64 => "f64",
            U32 => "u32",
            U64 => "u64",
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DataType {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|t| t.name() == s).ok_or_else(|| format!("unknown element type `{s}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_round_trip() {
        for t in DataType::ALL {
            assert_eq!(t.name().parse::<DataType>(), Ok(t));
            assert_eq!(DataType::from_u32(t as u32), Some(t));
        }
        assert_eq!(DataType::from_u32(0), None);
        assert!("int8".parse::<DataType>().is_err());
    }

    #[test]
    fn nibbles_are_packed_and_padded() {
        assert_eq!(S4.byte_len(5), Some(3));
        assert_eq!(F64.byte_len(usize::MAX), None);
    }
}
