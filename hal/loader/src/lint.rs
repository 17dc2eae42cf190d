//! Checks a driver's tables before anything in them is used: addresses, sizes, kinds, and no function is NULL.
//!
//! The tables are copied: what was checked is what is called, whatever the driver does to its own memory later.

use crate::refusal::{Refusal, Result};
use ottava_abi::{DeviceVtblV1, DriverV1, Table, first_null, status};

/// A driver's tables, checked.
#[derive(Clone, Copy)]
pub(crate) struct Tables {
    /// Functions of the driver.
    pub driver: DriverV1,
    /// Functions of its devices.
    pub device: DeviceVtblV1,
}

fn mismatch<T: Table>(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(status::LAYOUT_MISMATCH, format!("{}: {what}", T::NAME))
}

/// Copies a table out of a driver's memory.
///
/// # Safety
/// If `table` is not NULL and aligned, its first 8 bytes can be read; if these are the prefix of `T`, all of it can be.
pub(crate) unsafe fn copy<T: Table + Copy>(table: *const T) -> Result<T> {
    if table.is_null() {
        return Err(Refusal::new(status::NULL_ENTRY, format!("the table {} is NULL", T::NAME)));
    }
    if !table.is_aligned() {
        return Err(mismatch::<T>(format_args!("the address {table:p} is not aligned")));
    }
    // SAFETY: the caller says that the prefix can be read.
    let [size, kind] = unsafe { table.cast::<[u32; 2]>().read() };
    if (size as usize, kind) != (size_of::<T>(), T::KIND) {
        let expected = (size_of::<T>(), T::KIND);
        return Err(mismatch::<T>(format_args!("size and kind are {:?}, expected {expected:?}", (size, kind))));
    }
    // SAFETY: the prefix is that of a `T`, so all of it can be read, as the caller says.
    if let Some(field) = unsafe { first_null(table) } {
        return Err(Refusal::new(status::NULL_ENTRY, format!("{}.{field} is NULL", T::NAME)));
    }
    // SAFETY: it can be read, and no function pointer in it is NULL.
    Ok(unsafe { table.read() })
}

/// Checks and copies the tables of a driver.
///
/// # Safety
/// As for [`copy`], for the driver's table and the device table that it points to.
pub(crate) unsafe fn tables(table: *const DriverV1) -> Result<Tables> {
    // SAFETY: the caller's word.
    let driver = unsafe { copy(table)? };
    // SAFETY: the caller's word.
    let device = unsafe { copy(driver.device)? };
    Ok(Tables { driver, device })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_abi::TestHooksV1;

    /// A table as numbers: size and kind, then two functions.
    fn refusal(words: [u64; 3]) -> Refusal {
        // SAFETY: the words have the size and alignment of the table.
        unsafe { copy(words.as_ptr().cast::<TestHooksV1>()) }.unwrap_err()
    }

    #[test]
    fn what_is_wrong_is_named() {
        let prefix = u64::from(TestHooksV1::KIND) << 32 | size_of::<TestHooksV1>() as u64;
        assert_eq!(size_of::<TestHooksV1>(), 24);
        let r = refusal([prefix, 0, 1]);
        assert_eq!((r.code, r.reason.as_str()), (status::NULL_ENTRY, "ottava_test_hooks_v1.inject is NULL"));
        assert!(refusal([prefix, 1, 0]).reason.contains("clear is NULL"));
        assert!(refusal([prefix + 8, 1, 1]).reason.contains("size and kind are (32, 110), expected (24, 110)"));
        // SAFETY: neither pointer is read.
        let by_address = |p: usize| unsafe { copy(p as *const TestHooksV1) }.unwrap_err().reason;
        assert!(by_address(0).contains("is NULL") && by_address(12).contains("not aligned"));
    }
}
