//! Rust types that are tensor elements, and checked conversions between them.

use crate::DataType;
use half::{bf16, f16};

/// A Rust type that is stored as a [`DataType`]. `bool` and the nibble types have no own Rust type: booleans are bytes
/// 0 and 1 ([`u8`] view), nibbles are unpacked by [`crate::Tensor::to_ints`].
pub trait Element: bytemuck::Pod + Send + Sync + PartialEq + std::fmt::Debug {
    /// The element type of a tensor made from a slice of `Self`.
    const TYPE: DataType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => { $(impl Element for $rust { const TYPE: DataType = DataType::$dtype; })* };
}

elements! {
    i8 => S8, u8 => U8, i16 => S16, u16 => U16, i32 => S32, u32 => U32, i64 => S64, u64 => U64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64,
}

/// Sign-extends the 4-bit value in the low nibble.
pub(crate) fn nibble_s4(nibble: u8) -> i64 {
    i64::from(((nibble << 4) as i8) >> 4)
}

/// Packs integers two per byte, low nibble first; the last high nibble is zero when the count is odd.
pub fn pack_nibbles(values: &[i64]) -> Vec<u8> {
    values
        .chunks(2)
        .map(|pair| {
            let high = pair.get(1).map_or(0, |v| (*v as u8) << 4);
            (pair[0] as u8 & 0x0f) | high
        })
        .collect()
}
