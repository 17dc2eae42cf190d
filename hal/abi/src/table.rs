//! One definition per table: from each follow the `#[repr(C)]` struct, its abi_stable layout, and the description that
//! layout hashes, the C header, the frozen snapshots and the loader's NULL check are made of.
//!
//! The canonical text of a table is `name{field:type@offset,...}`: the C name, then each field with its type as written
//! in this crate (white space is dropped except for one space between two words) and its offset in bytes. Its hash is
//! FNV-1a with 64 bits.

/// A field of a table.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Name, the same in Rust and C.
    pub name: &'static str,
    /// Type as written in this crate.
    pub ty: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Lines of documentation.
    pub doc: &'static [&'static str],
}

impl Field {
    /// Whether the field is a function pointer, which is never NULL in a frozen table.
    pub fn is_function(&self) -> bool {
        self.ty.starts_with("unsafe extern")
    }
}

/// A struct that crosses the plugin boundary. Implemented by this crate's macro alone.
pub trait Table: Sized + sealed::Sealed {
    /// Name in C.
    const NAME: &'static str;
    /// Value of the `kind` field; 0 for a struct without the `{ size, kind }` prefix.
    const KIND: u32;
    /// Lines of documentation.
    const DOC: &'static [&'static str];
    /// Fields in order.
    const FIELDS: &'static [Field];
    /// Hash of the canonical text.
    const HASH: u64 = canonical_hash(Self::NAME, Self::FIELDS);
}

pub(crate) mod sealed {
    /// Keeps descriptions and structs together: only the macro of this crate writes them.
    pub trait Sealed {}
}

/// Types for which all-zero bytes are a value: numbers, pointers, and arrays and structs of them.
///
/// # Safety
/// All-zero bytes must be a valid value of the type.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: every bit pattern of a number is a value.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8, u32, u64, i32, i64, f32, f64);
// SAFETY: a null pointer is a value of a raw pointer type.
unsafe impl<T> Plain for *const T {}
// SAFETY: a null pointer is a value of a raw pointer type.
unsafe impl<T> Plain for *mut T {}
// SAFETY: an array of zero values is all zeros.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Fails to compile where a field of a data struct is not [`Plain`].
pub(crate) const fn assert_plain<T: Plain>() {}

/// The name of the first function pointer of `table` that is NULL.
///
/// To be asked before a `&T` is made of a foreign table: a reference to a table with a NULL function is undefined.
///
/// # Safety
/// `table` points to `size_of::<T>()` readable bytes, aligned for `T`.
pub unsafe fn first_null<T: Table>(table: *const T) -> Option<&'static str> {
    let null = |f: &&Field| {
        // SAFETY: the offset is that of a pointer-sized field of `T`, which the caller says is readable.
        f.is_function() && unsafe { table.cast::<u8>().add(f.offset).cast::<*const u8>().read() }.is_null()
    };
    T::FIELDS.iter().find(null).map(|f| f.name)
}

/// Start value of FNV-1a with 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
/// Multiplier of FNV-1a with 64 bits.
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

const fn fnv_byte(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(FNV_PRIME)
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Adds a text; of white space only one space between two words counts.
const fn fnv_text(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let (mut i, mut last) = (0, 0);
    while i < bytes.len() {
        let byte = bytes[i];
        if !byte.is_ascii_whitespace() {
            let gap = i > 0 && bytes[i - 1].is_ascii_whitespace();
            if gap && is_word(last) && is_word(byte) {
                hash = fnv_byte(hash, b' ');
            }
            hash = fnv_byte(hash, byte);
            last = byte;
        }
        i += 1;
    }
    hash
}

const fn fnv_decimal(hash: u64, value: usize) -> u64 {
    let hash = if value >= 10 { fnv_decimal(hash, value / 10) } else { hash };
    fnv_byte(hash, b'0' + (value % 10) as u8)
}

/// The hash of a table's canonical text.
pub const fn canonical_hash(name: &str, fields: &[Field]) -> u64 {
    let mut hash = fnv_byte(fnv_text(FNV_OFFSET, name), b'{');
    let mut i = 0;
    while i < fields.len() {
        if i > 0 {
            hash = fnv_byte(hash, b',');
        }
        hash = fnv_byte(fnv_text(hash, fields[i].name), b':');
        hash = fnv_byte(fnv_text(hash, fields[i].ty), b'@');
        hash = fnv_decimal(hash, fields[i].offset);
        i += 1;
    }
    fnv_byte(hash, b'}')
}

/// The hash of several tables: FNV-1a over the little-endian bytes of their hashes, in order.
pub const fn set_hash(hashes: &[u64]) -> u64 {
    let (mut hash, mut i) = (FNV_OFFSET, 0);
    while i < hashes.len() {
        let bytes = hashes[i].to_le_bytes();
        let mut k = 0;
        while k < 8 {
            hash = fnv_byte(hash, bytes[k]);
            k += 1;
        }
        i += 1;
    }
    hash
}

/// Defines tables. `data` structs hold plain data and get `blank()`; `calls` structs hold functions.
macro_rules! tables {
    ($(
        $(#[doc = $doc:literal])*
        $mode:ident $name:ident $(<$g:ident>)? = $c:literal $(, kind $kind:ident)? {
            $( $(#[doc = $fdoc:literal])* $field:ident : $ty:ty, )*
        }
    )*) => { $(
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        #[cfg_attr(feature = "rust-door", derive(abi_stable::StableAbi))]
        pub struct $name $(<$g>)? {
            $( $(#[doc = $fdoc])* pub $field: $ty, )*
        }

        impl $(<$g>)? $crate::table::sealed::Sealed for $name $(<$g>)? {}

        impl $(<$g>)? $crate::table::Table for $name $(<$g>)? {
            const NAME: &'static str = $c;
            const KIND: u32 = 0 $( + $crate::constants::kind::$kind )?;
            const DOC: &'static [&'static str] = &[$($doc),*];
            const FIELDS: &'static [$crate::table::Field] = &[
                $( $crate::table::Field {
                    name: stringify!($field),
                    ty: stringify!($ty),
                    offset: core::mem::offset_of!(Self, $field),
                    size: size_of::<$ty>(),
                    doc: &[$($fdoc),*],
                }, )*
            ];
        }

        $crate::table::tables!(@$mode $name $(<$g>)? [$($kind)?] $($ty,)*);
    )* };
    (@calls $name:ident [$($kind:ident)?] $($ty:ty,)*) => {};
    (@data $name:ident $(<$g:ident>)? [$($kind:ident)?] $($ty:ty,)*) => {
        // SAFETY: `blank` checks at compile time that every field is plain.
        unsafe impl $(<$g: Copy>)? $crate::table::Plain for $name $(<$g>)? {}

        impl $(<$g: Copy>)? $name $(<$g>)? {
            /// All zero, with `size` and `kind` filled in where the struct has them.
            pub const fn blank() -> Self {
                $( $crate::table::assert_plain::<$ty>(); )*
                // SAFETY: every field is plain, so all zeros are a value.
                #[allow(unused_mut)]
                let mut value: Self = unsafe { core::mem::zeroed() };
                $(
                    value.size = size_of::<Self>() as u32;
                    value.kind = $crate::constants::kind::$kind;
                )?
                value
            }
        }
    };
}
pub(crate) use tables;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_is_the_published_one() {
        assert_eq!(fnv_text(FNV_OFFSET, ""), 0xcbf29ce484222325);
        assert_eq!(fnv_text(FNV_OFFSET, "a"), 0xaf63dc4c8601ec8c);
        assert_eq!(fnv_text(FNV_OFFSET, "foobar"), 0x85944171f73967e8);
    }

    #[test]
    fn white_space_does_not_count_except_between_words() {
        let spaced = fnv_text(FNV_OFFSET, "* mut  T ,u32");
        assert_eq!(spaced, fnv_text(FNV_OFFSET, "*mut T, u32"));
        assert_ne!(spaced, fnv_text(FNV_OFFSET, "*mutT,u32"));
    }

    #[test]
    fn the_text_holds_names_types_and_offsets() {
        let fields = [
            Field { name: "a", ty: "u32", offset: 0, size: 4, doc: &[] },
            Field { name: "b", ty: "*const u8", offset: 16, size: 8, doc: &[] },
        ];
        assert_eq!(canonical_hash("t", &fields), fnv_text(FNV_OFFSET, "t{a:u32@0,b:*const u8@16}"));
    }
}
