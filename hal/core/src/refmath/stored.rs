//! The integer types that rows are made of.

/// An integer storage type, so that a row function serves every storage without allocation.
pub trait Stored: Copy + Into<i32> {
    /// The value `v`, which the caller has clamped to the range of the type; other values keep their low bits.
    fn from_i32(v: i32) -> Self;
}

macro_rules! stored {
    ($($t:ty),*) => { $(impl Stored for $t {
        #[inline]
        fn from_i32(v: i32) -> Self {
            v as $t
        }
    })* };
}

stored!(i8, u8, i16, u16, i32);
