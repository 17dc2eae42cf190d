//! Texts, slices, handles, errors and extensions: what the tables are made of.
//!
//! Texts and slices borrow: they are valid as long as the page of the function or struct says that holds them, which is
//! at least until the call returns.

use crate::table::tables;
use core::ffi::c_void;

/// A character of a fixed array: UTF-8, filled up with zeros. `char` in C.
pub type Char = u8;

tables! {
    /// UTF-8 text without a terminating zero. An empty text may have a NULL pointer.
    data Str = "ottava_str" {
        /// First byte.
        ptr: *const Char,
        /// Number of bytes.
        len: u64,
    }

    /// Elements to read. Element `i` begins `i * stride` bytes after `ptr`; a reader uses the stride, never its own size.
    data Slice<T> = "ottava_slice" {
        /// First element; may be NULL if `len` is 0.
        ptr: *const T,
        /// Number of elements.
        len: u64,
        /// Bytes from one element to the next.
        stride: u32,
        /// Zero.
        pad: u32,
    }

    /// Elements to write.
    data SliceMut<T> = "ottava_slice_mut" {
        /// First element; may be NULL if `len` is 0.
        ptr: *mut T,
        /// Number of elements.
        len: u64,
        /// Bytes from one element to the next.
        stride: u32,
        /// Zero.
        pad: u32,
    }

    /// An error. The caller provides the memory and fills `size` and `kind`; whoever fails fills the rest.
    data ErrorV1 = "ottava_error_v1", kind ERROR {
        /// `sizeof(ottava_error_v1)`.
        size: u32,
        /// `OTTAVA_KIND_ERROR`.
        kind: u32,
        /// The status code that the call returned.
        code: i32,
        /// `OTTAVA_ERROR_*`.
        flags: u32,
        /// Id of the node that is concerned, else `OTTAVA_INDEX_NONE`.
        node: u32,
        /// `OTTAVA_REASON_*` of an UNSUPPORTED, else 0.
        reason: u32,
        /// A number of the vendor's own.
        vendor_code: i64,
        /// What happened, in words. Never empty for a code other than OK.
        message: [Char; 256],
    }

    /// An extension that was asked for by name.
    data ExtV1 = "ottava_ext_v1", kind EXT {
        /// `sizeof(ottava_ext_v1)`.
        size: u32,
        /// `OTTAVA_KIND_EXT`.
        kind: u32,
        /// The extension's table, which lives as long as the driver.
        table: *const c_void,
        /// abi_stable's layout of the table, or NULL.
        rust_layout: *const c_void,
        /// The extension's hash (`OTTAVA_<NAME>_HASH`).
        layout_hash: u64,
    }
}

macro_rules! handles {
    ($($(#[doc = $doc:literal])* $name:ident = $c:literal;)*) => {
        $(
            $(#[doc = $doc])*
            #[repr(C)]
            #[derive(Debug)]
            #[cfg_attr(feature = "rust-door", derive(abi_stable::StableAbi))]
            pub struct $name {
                opaque: [u8; 0],
            }
        )*

        /// Name in C and documentation of every opaque handle.
        pub const HANDLES: &[(&str, &[&str])] = &[$(($c, &[$($doc),*])),*];
    };
}

handles! {
    /// An open device: from `open` until `close`.
    Device = "ottava_device";
    /// Memory of a device: from `alloc` or `import_host` until `buffer_release`.
    Buffer = "ottava_buffer";
    /// A compiled program, immutable: from `compile` or `deserialize` until `exec_release`.
    Exec = "ottava_exec";
    /// A queue: from `queue_create` until `queue_release`.
    Queue = "ottava_queue";
    /// A timeline: from `fence_create` until `fence_release`.
    Fence = "ottava_fence";
}

/// The callback of `fence_notify`, called once, from any thread. It must not call the driver.
///
/// A struct of its own because abi_stable does not describe functions that take functions.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "rust-door", derive(abi_stable::StableAbi))]
pub struct NotifyFn {
    /// Receives the caller's pointer, and OK or the code with which the timeline failed.
    pub call: unsafe extern "C" fn(user: *mut c_void, code: i32),
}

impl Str {
    /// A text of the program's lifetime.
    pub const fn new(text: &'static str) -> Self {
        Self::borrowed(text)
    }

    /// A view of `text`; the caller keeps it alive as long as the receiver may read it.
    pub const fn borrowed(text: &str) -> Self {
        Self { ptr: text.as_ptr(), len: text.len() as u64 }
    }
}

impl<T: Copy> Slice<T> {
    /// A view of `elements`; the caller keeps them alive as long as the receiver may read them.
    pub const fn borrowed(elements: &[T]) -> Self {
        Self { ptr: elements.as_ptr(), len: elements.len() as u64, stride: size_of::<T>() as u32, pad: 0 }
    }
}

impl<T: Copy> SliceMut<T> {
    /// A view of `elements` for writing; the caller keeps them alive as long as the receiver may write them.
    pub const fn borrowed(elements: &mut [T]) -> Self {
        Self { ptr: elements.as_mut_ptr(), len: elements.len() as u64, stride: size_of::<T>() as u32, pad: 0 }
    }
}

/// Copies `text` into a fixed array, cut at a character's boundary so that a zero remains; says whether it was cut.
pub fn copy_text<const N: usize>(to: &mut [Char; N], text: &str) -> bool {
    let room = N.saturating_sub(1);
    let mut len = text.len().min(room);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    to.fill(0);
    to[..len].copy_from_slice(&text.as_bytes()[..len]);
    len < text.len()
}

/// The text of a fixed array up to its first zero; bytes that are not UTF-8 are replaced.
pub fn text_of(from: &[Char]) -> String {
    let end = from.iter().position(|&b| b == 0).unwrap_or(from.len());
    String::from_utf8_lossy(&from[..end]).into_owned()
}

impl ErrorV1 {
    /// Fills in everything but the prefix.
    pub fn set(&mut self, code: i32, message: &str) {
        self.code = code;
        self.node = crate::constants::index::NONE;
        self.reason = 0;
        self.vendor_code = 0;
        let cut = copy_text(&mut self.message, message);
        self.flags = if cut { crate::constants::error_flag::TRUNCATED } else { 0 };
    }

    /// The message.
    pub fn text(&self) -> String {
        text_of(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters_and_end_in_zero() {
        let mut to = [0xffu8; 4];
        assert!(copy_text(&mut to, "abü"));
        assert_eq!((to, text_of(&to).as_str()), ([b'a', b'b', 0, 0], "ab"));
        assert!(!copy_text(&mut to, "ab"));
        assert_eq!(text_of(b"full"), "full");
    }

    #[test]
    fn a_long_message_is_flagged() {
        let mut e = ErrorV1::blank();
        e.set(crate::constants::status::INTERNAL, &"x".repeat(300));
        assert_eq!((e.text().len(), e.flags), (255, crate::constants::error_flag::TRUNCATED));
        assert_eq!((e.size as usize, e.kind), (size_of::<ErrorV1>(), 4));
    }
}
