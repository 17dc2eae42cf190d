//! Reading what a driver returns. Pointers are checked for NULL, lengths and strides for sense and against limits, texts
//! for UTF-8; what a pointer points to is the driver's word.
//!
//! Values are copied out at once and with unaligned reads: nothing here keeps a reference into a driver's memory.

use ottava_abi::{Plain, Slice, Str};

/// Longest text that is read.
const MAX_TEXT: u64 = 64 * 1024;
/// Longest name that is shown, in bytes.
const MAX_NAME: usize = 64;
/// End of a name that was cut.
const CUT: &str = "...";

fn bytes_of(text: Str) -> Result<Vec<u8>, String> {
    if text.len == 0 {
        return Ok(Vec::new());
    }
    if text.ptr.is_null() {
        return Err(format!("a text of {} bytes is NULL", text.len));
    }
    if text.len > MAX_TEXT {
        return Err(format!("a text has {} bytes, at most {MAX_TEXT} are read", text.len));
    }
    let mut bytes = vec![0; text.len as usize];
    // SAFETY: the pointer is not NULL and the driver says that `len` bytes can be read there; the vector has as many.
    unsafe { std::ptr::copy_nonoverlapping(text.ptr, bytes.as_mut_ptr(), bytes.len()) };
    Ok(bytes)
}

/// A text, which must be UTF-8.
pub(crate) fn text(text: Str) -> Result<String, String> {
    String::from_utf8(bytes_of(text)?).map_err(|_| "a text is not UTF-8".into())
}

/// A name as it is shown: control characters are escaped, and what is longer than [`MAX_NAME`] is cut.
pub(crate) fn name(text: &str) -> String {
    let plain = printable(text);
    if plain.len() <= MAX_NAME {
        return plain;
    }
    let room = MAX_NAME - CUT.len();
    let end = (0..=room).rev().find(|&i| plain.is_char_boundary(i)).unwrap_or(0);
    format!("{}{CUT}", &plain[..end])
}

/// A text with its control characters escaped: it cannot move the cursor of a terminal, nor break a line of a report.
pub(crate) fn printable(text: &str) -> String {
    let one = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().map(one).collect()
}

/// A text for a log: whatever is wrong with it is replaced.
pub(crate) fn lossy(text: Str) -> String {
    bytes_of(text).map_or_else(|e| format!("({e})"), |b| String::from_utf8_lossy(&b).into_owned())
}

/// The elements of an array of at most `max` elements.
pub(crate) fn elements<T: Plain>(slice: Slice<T>, max: u64) -> Result<Vec<T>, String> {
    if slice.len == 0 {
        return Ok(Vec::new());
    }
    if slice.ptr.is_null() {
        return Err(format!("an array of {} elements is NULL", slice.len));
    }
    if slice.len > max {
        return Err(format!("an array has {} elements, at most {max} are read", slice.len));
    }
    let stride = slice.stride as usize;
    if stride < size_of::<T>() {
        return Err(format!("the stride of an array is {stride}, an element has {} bytes", size_of::<T>()));
    }
    let first = slice.ptr.cast::<u8>();
    // SAFETY: the driver says that `len` elements, `stride` bytes apart, can be read; any bit pattern is a plain value.
    let one = |i: usize| unsafe { first.add(i * stride).cast::<T>().read_unaligned() };
    Ok((0..slice.len as usize).map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_checked() {
        assert_eq!(text(Str::new("größe")), Ok("größe".into()));
        assert_eq!(text(Str { ptr: std::ptr::null(), len: 0 }), Ok(String::new()));
        assert!(text(Str { ptr: std::ptr::null(), len: 3 }).unwrap_err().contains("NULL"));
        assert!(text(Str { ptr: b"x".as_ptr(), len: u64::MAX }).unwrap_err().contains("at most"));
        let latin1 = [0xe9u8];
        let latin1 = Str { ptr: latin1.as_ptr(), len: 1 };
        assert!(text(latin1).is_err());
        assert_eq!(lossy(latin1), "\u{fffd}");
    }

    #[test]
    fn names_are_short_and_printable() {
        assert_eq!(name("größe npu-0"), "größe npu-0");
        assert_eq!(name("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(name(&"x".repeat(64)), "x".repeat(64));
        let long = name(&"ö".repeat(40));
        assert!(long.len() <= 64 && long.starts_with("ööö") && long.ends_with("ö..."), "{long}");
    }

    #[test]
    fn arrays_follow_their_stride() {
        let numbers = [1u32, 9, 2, 9, 3, 9];
        let every_second = Slice { ptr: numbers.as_ptr(), len: 3, stride: 8, pad: 0 };
        assert_eq!(elements(every_second, 3), Ok(vec![1, 2, 3]));
        assert!(elements(every_second, 2).unwrap_err().contains("at most 2"));
        assert!(elements(Slice { stride: 3, ..every_second }, 3).unwrap_err().contains("stride"));
        assert!(elements(Slice { ptr: std::ptr::null::<u32>(), ..every_second }, 3).unwrap_err().contains("NULL"));
        assert_eq!(elements(Slice { len: 0, ..every_second }, 0), Ok(vec![]));
    }
}
