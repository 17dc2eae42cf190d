//! Element types as numbers: each is widened to a type in which an operator is written once.
//!
//! * (C1) f16 and bf16 are computed in f32 and rounded once per operator; f32 and f64 in themselves.
//! * (C2) integers are computed in i128, which holds every operand and result, and wrap when they are narrowed.

use half::{bf16, f16};
use ottava_hal::Element;

/// A type that operators compute in: `f32`, `f64` or `i128`.
pub trait Compute: Copy + PartialOrd {
    /// The number zero.
    const ZERO: Self;
    /// Whether quotients are truncated.
    const IS_INTEGER: bool;
    /// Sum.
    fn add(self, other: Self) -> Self;
    /// Difference.
    fn sub(self, other: Self) -> Self;
    /// Product.
    fn mul(self, other: Self) -> Self;
    /// `self * factor + term`; of floats rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;
    /// Quotient; of integers truncated, and 0 for a divisor of 0 (callers refuse it).
    fn div(self, other: Self) -> Self;
    /// Remainder with the sign of `self`; of integers 0 for a divisor of 0.
    fn rem(self, other: Self) -> Self;
    /// Whether this is a NaN.
    fn is_nan(self) -> bool;
    /// A small count as a number.
    fn from_count(n: usize) -> Self;
    /// Truncated and saturated to a count.
    fn to_count(self) -> usize;
}

macro_rules! compute_float {
    ($($f:ty),*) => { $(impl Compute for $f {
        const ZERO: Self = 0.0;
        const IS_INTEGER: bool = false;
        fn add(self, other: Self) -> Self { self + other }
        fn sub(self, other: Self) -> Self { self - other }
        fn mul(self, other: Self) -> Self { self * other }
        fn mul_add(self, factor: Self, term: Self) -> Self { <$f>::mul_add(self, factor, term) }
        fn div(self, other: Self) -> Self { self / other }
        fn rem(self, other: Self) -> Self { self % other }
        fn is_nan(self) -> bool { self != self }
        fn from_count(n: usize) -> Self { n as $f }
        fn to_count(self) -> usize { self as usize }
    })* };
}

compute_float!(f32, f64);

impl Compute for i128 {
    const ZERO: Self = 0;
    const IS_INTEGER: bool = true;

    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn sub(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    fn mul(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }

    fn mul_add(self, factor: Self, term: Self) -> Self {
        self.wrapping_mul(factor).wrapping_add(term)
    }

    fn div(self, other: Self) -> Self {
        self.checked_div(other).unwrap_or(0)
    }

    fn rem(self, other: Self) -> Self {
        self.checked_rem(other).unwrap_or(0)
    }

    fn is_nan(self) -> bool {
        false
    }

    fn from_count(n: usize) -> Self {
        n as i128
    }

    fn to_count(self) -> usize {
        usize::try_from(self.max(0)).unwrap_or(usize::MAX)
    }
}

/// An element type with its computing type.
pub trait Number: Element {
    /// Where operators compute.
    type Wide: Compute;

    /// Exact.
    fn widen(self) -> Self::Wide;

    /// Rounds to nearest even, or wraps.
    fn narrow(wide: Self::Wide) -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => { $(impl Number for $t {
        type Wide = i128;
        fn widen(self) -> i128 { self.into() }
        fn narrow(wide: i128) -> Self { wide as $t }
    })* };
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! floats {
    ($($t:ty, $wide:ty, $narrow:expr);*) => { $(impl Number for $t {
        type Wide = $wide;
        fn widen(self) -> $wide { self.into() }
        fn narrow(wide: $wide) -> Self { $narrow(wide) }
    })* };
}

floats!(f32, f32, std::convert::identity; f64, f64, std::convert::identity; f16, f32, f16::from_f32; bf16, f32, bf16::from_f32);

/// `with_number!(dtype, "Op", T => body)` evaluates `body` with `T` the Rust type of a number type; another type
/// (bool, the nibble types) is an error that names the operator.
macro_rules! with_number {
    ($dtype:expr, $op:expr, $t:ident => $body:expr) => {{
        use ottava_hal::DataType as D;
        match $dtype {
            D::F32 => { type $t = f32; $body }
            D::F64 => { type $t = f64; $body }
            D::F16 => { type $t = half::f16; $body }
            D::BF16 => { type $t = half::bf16; $body }
            integer => $crate::elementwise::number::with_integer!(integer, $op, $t => $body),
        }
    }};
}

/// As [`with_number`], for the integer types alone.
macro_rules! with_integer {
    ($dtype:expr, $op:expr, $t:ident => $body:expr) => {{
        use ottava_hal::DataType as D;
        match $dtype {
            D::S8 => {
                type $t = i8;
                $body
            }
            D::U8 => {
                type $t = u8;
                $body
            }
            D::S16 => {
                type $t = i16;
                $body
            }
            D::U16 => {
                type $t = u16;
                $body
            }
            D::S32 => {
                type $t = i32;
                $body
            }
            D::U32 => {
                type $t = u32;
                $body
            }
            D::S64 => {
                type $t = i64;
                $body
            }
            D::U64 => {
                type $t = u64;
                $body
            }
            other => Err($crate::elementwise::number::wrong_dtype($op, other)),
        }
    }};
}

pub(crate) use {with_integer, with_number};

/// The error of an operator that does not take an element type.
pub fn wrong_dtype(op: &str, found: ottava_hal::DataType) -> ottava_hal::Error {
    ottava_hal::Error::unsupported(ottava_hal::Reason::Dtype, format!("{op} is not defined on {found}"))
}
