//! The edge of every exported function: arguments are checked, panics are caught, errors become [`ErrorV1`].
//!
//! What cannot be checked is whether a pointer that is not NULL points to memory; that is the host's promise and the one
//! reason for `unsafe` here. Everything that memory says (sizes, kinds, lengths, texts) is checked.

use ottava_abi::{ErrorV1, Slice, Str, Table, error_flag, status};
use ottava_hal::{Error, Result, Status};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the body of an exported function and returns its status code. A panic poisons: later calls are refused.
///
/// # Safety
/// `err` is NULL or points to memory for an [`ErrorV1`].
pub(crate) unsafe fn guard(
    name: &str,
    poisoned: Option<&AtomicBool>,
    err: *mut ErrorV1,
    body: impl FnOnce() -> Result<()>,
) -> i32 {
    // SAFETY: the caller says that `err` is NULL or readable.
    if !err.is_null() && unsafe { check_prefix(err.cast_const(), "err") }.is_err() {
        return status::INVALID_ARGUMENT;
    }
    let result = match poisoned {
        Some(flag) if flag.load(Ordering::SeqCst) => {
            Err(Error::failed(Status::Panic, format!("{name}: the device has panicked before; close and open it")))
        }
        _ => catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
            if let Some(flag) = poisoned {
                flag.store(true, Ordering::SeqCst);
            }
            Err(Error::failed(Status::Panic, format!("the driver panicked in `{name}`: {}", words_of(payload))))
        }),
    };
    match result {
        Ok(()) => status::OK,
        Err(error) => {
            // SAFETY: `err` is NULL or, as checked above, an error struct that the caller lets us write.
            if let Some(err) = unsafe { err.as_mut() } {
                report(err, &error);
            }
            error.status() as i32
        }
    }
}

/// Runs the body of a function that returns nothing; a panic is logged and goes no further.
pub(crate) fn guard_void(name: &str, body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        let words = words_of(payload);
        tracing::error!("the driver panicked in `{name}`: {words}");
    }
}

/// The words of a panic. The payload itself is leaked: its destructor is the driver's and may panic too.
fn words_of(payload: Box<dyn std::any::Any + Send>) -> String {
    let words = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "without words".to_owned(),
    };
    std::mem::forget(payload);
    words
}

/// Fills an error struct.
fn report(err: &mut ErrorV1, error: &Error) {
    let text = match error {
        Error::Invalid(what) | Error::Unsupported { what, .. } | Error::Failed { what, .. } => what.as_str(),
    };
    err.set(error.status() as i32, if text.is_empty() { "the driver gave no words" } else { text });
    match error {
        Error::Unsupported { reason, .. } => err.reason = *reason as u32,
        Error::Failed { transient: true, .. } => err.flags |= error_flag::TRANSIENT,
        _ => {}
    }
}

/// Checks `{ size, kind }` of a struct that was passed by pointer.
///
/// # Safety
/// `ptr` is NULL or points to a struct that begins with its size and kind.
pub(crate) unsafe fn check_prefix<T: Table>(ptr: *const T, what: &str) -> Result<()> {
    if ptr.is_null() {
        return Err(Error::invalid(format!("{what} is NULL")));
    }
    if !ptr.is_aligned() {
        return Err(Error::invalid(format!("{what} is not aligned")));
    }
    // SAFETY: not NULL, aligned, and the caller says that it begins with two numbers of 32 bits.
    let [size, kind] = unsafe { ptr.cast::<[u32; 2]>().read() };
    if size as usize != size_of::<T>() || kind != T::KIND {
        let (expected, name) = (size_of::<T>(), T::NAME);
        return Err(Error::invalid(format!(
            "{what} says size {size} and kind {kind}; {name} has size {expected} and kind {}",
            T::KIND
        )));
    }
    Ok(())
}

/// A copy of a struct that was passed by pointer, its prefix checked.
///
/// # Safety
/// As [`check_prefix`], and the struct is as large as its size says.
pub(crate) unsafe fn read<T: Table + Copy>(ptr: *const T, what: &str) -> Result<T> {
    // SAFETY: the caller's promise.
    unsafe { check_prefix(ptr, what)? };
    // SAFETY: the prefix says that it is a whole `T`.
    Ok(unsafe { ptr.read() })
}

/// Checks a pointer for results before the work that makes them.
pub(crate) fn check_out<T>(ptr: *mut T, what: &str) -> Result<()> {
    if ptr.is_null() || !ptr.is_aligned() {
        return Err(Error::invalid(format!("{what} is NULL or not aligned")));
    }
    Ok(())
}

/// A text.
///
/// # Safety
/// A pointer that is not NULL points to `len` bytes that live and do not change during `'a`.
pub(crate) unsafe fn text<'a>(s: Str, what: &str) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { bytes(s.ptr, s.len, what)? };
    std::str::from_utf8(bytes).map_err(|_| Error::invalid(format!("{what} is not UTF-8")))
}

/// Bytes.
///
/// # Safety
/// A pointer that is not NULL points to `len` bytes that live and do not change during `'a`.
pub(crate) unsafe fn bytes<'a>(ptr: *const u8, len: u64, what: &str) -> Result<&'a [u8]> {
    let n = usize::try_from(len).ok().filter(|n| *n <= isize::MAX as usize);
    let n = n.ok_or_else(|| Error::invalid(format!("{what} has {len} bytes")))?;
    match (n, ptr.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Error::invalid(format!("{what} is NULL but has {len} bytes"))),
        // SAFETY: not NULL, and the caller says that `len` bytes are there.
        _ => Ok(unsafe { std::slice::from_raw_parts(ptr, n) }),
    }
}

/// The elements of a foreign slice, read by its stride.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Items<'a, T> {
    ptr: *const u8,
    len: usize,
    stride: usize,
    _elements: std::marker::PhantomData<&'a T>,
}

impl<T: Copy> Items<'_, T> {
    /// Checks a slice: NULL, length, stride, alignment.
    ///
    /// # Safety
    /// A pointer that is not NULL points to `len` elements, `stride` bytes apart, that live and do not change during the
    /// lifetime that the caller chooses.
    pub(crate) unsafe fn new(slice: Slice<T>, what: &str) -> Result<Self> {
        let (ptr, stride) = (slice.ptr.cast::<u8>(), slice.stride as usize);
        let len =
            usize::try_from(slice.len).map_err(|_| Error::invalid(format!("{what} has {} elements", slice.len)))?;
        if len > 0 {
            let fits = stride >= size_of::<T>() && stride % align_of::<T>() == 0;
            let whole = len.checked_mul(stride).is_some_and(|n| n <= isize::MAX as usize);
            if ptr.is_null() || !slice.ptr.is_aligned() || !fits || !whole {
                return Err(Error::invalid(format!(
                    "{what}: pointer {ptr:p}, {len} elements of stride {stride} is no array"
                )));
            }
        }
        Ok(Self { ptr, len, stride, _elements: std::marker::PhantomData })
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Element `i`.
    pub(crate) fn get(&self, i: usize) -> Option<T> {
        // SAFETY: the index is inside, and `new` has checked stride and alignment of an array that its caller vouches for.
        (i < self.len).then(|| unsafe { self.ptr.add(i * self.stride).cast::<T>().read() })
    }

    /// `count` elements from `first`.
    pub(crate) fn range(&self, first: u32, count: u32) -> Option<impl ExactSizeIterator<Item = T>> {
        let (first, count) = (first as usize, count as usize);
        let end = first.checked_add(count).filter(|e| *e <= self.len)?;
        let items = *self;
        // SAFETY: as in `get`: every index is below the length.
        Some((first..end).map(move |i| unsafe { items.ptr.add(i * items.stride).cast::<T>().read() }))
    }

    /// All elements.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = T> {
        let items = *self;
        // SAFETY: as in `get`: every index is below the length.
        (0..self.len).map(move |i| unsafe { items.ptr.add(i * items.stride).cast::<T>().read() })
    }
}

/// Answers a two-call function: the count, and the elements if there is room.
///
/// # Safety
/// `count` is NULL or writable, `out` is NULL or points to `cap` structs with their prefixes filled in.
pub(crate) unsafe fn fill<T: Table + Copy>(cap: u32, out: *mut T, count: *mut u32, elements: &[T]) -> Result<()> {
    check_out(count, "count")?;
    let n = u32::try_from(elements.len()).map_err(|_| Error::failed(Status::Internal, "too many elements"))?;
    // SAFETY: checked above.
    unsafe { count.write(n) };
    if cap == 0 {
        return Ok(());
    }
    if cap < n {
        let what = format!("room for {cap} elements, {n} are needed");
        return Err(Error::failed(Status::BufferTooSmall, what));
    }
    check_out(out, "out")?;
    for (i, element) in elements.iter().enumerate() {
        // SAFETY: `i` is below `cap`, and the caller says that as many structs are there.
        let to = unsafe { out.add(i) };
        // SAFETY: `to` is inside the array; its prefix is filled in or this says so.
        unsafe { check_prefix(to.cast_const(), "an element of out")? };
        // SAFETY: as above.
        unsafe { to.write(*element) };
    }
    Ok(())
}

/// Answers a two-call function of bytes.
///
/// # Safety
/// `len` is NULL or writable, `buf` is NULL or points to `cap` bytes.
pub(crate) unsafe fn fill_bytes(buf: *mut u8, cap: u64, len: *mut u64, content: &[u8]) -> Result<()> {
    check_out(len, "len")?;
    let n = content.len() as u64;
    // SAFETY: checked above.
    unsafe { len.write(n) };
    if cap == 0 {
        return Ok(());
    }
    if cap < n {
        return Err(Error::failed(Status::BufferTooSmall, format!("room for {cap} bytes, {n} are needed")));
    }
    check_out(buf, "buf")?;
    // SAFETY: the caller says that `cap` bytes are there, which is enough; our content is not the host's buffer.
    unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), buf, content.len()) };
    Ok(())
}
