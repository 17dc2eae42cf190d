//! Calls of a library's tables that the host's adapter never makes: arguments that are NULL, structs of other sizes,
//! extensions that nobody has.
//!
//! Unsafe code is allowed here because the other side is a foreign library; each block says what the contract promises.
#![allow(unsafe_code)]

use ottava_abi::{Device, DeviceInfoV1, ErrorV1, ExtV1, KeyValueV1, Slice, Str, text_of};
use ottava_loader::raw::RawTables;
use std::ptr::{null_mut, without_provenance_mut};

/// What a call said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    /// The returned code.
    pub code: i32,
    /// The code in the error struct.
    pub in_error: i32,
    /// The words in the error struct.
    pub words: String,
}

fn said(code: i32, err: &ErrorV1) -> Said {
    Said { code, in_error: err.code, words: text_of(&err.message) }
}

/// Room behind a struct that is longer than the host knows.
const LONGER: usize = 64;

/// A struct of device information with room behind it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Long {
    info: DeviceInfoV1,
    behind: [u8; LONGER],
}

/// An extension of the driver.
pub(crate) fn driver_extension(t: &RawTables, name: &'static str) -> (i32, ExtV1) {
    let mut out = ExtV1::blank();
    // SAFETY: the context is the driver's own, the name and `out` live during the call.
    let code = unsafe { (t.driver.query_extension)(t.driver.ctx, Str::new(name), &mut out) };
    (code, out)
}

/// The number of devices: the first call of two.
pub(crate) fn count(t: &RawTables) -> (Said, u32) {
    let (mut n, mut err) = (0, ErrorV1::blank());
    // SAFETY: no room is offered, and `n` and `err` live during the call.
    let code = unsafe { (t.driver.enumerate)(t.driver.ctx, 0, null_mut(), &mut n, &mut err) };
    (said(code, &err), n)
}

/// Devices into room for `cap`, whose elements say that they have `size` bytes. At least one element is really there.
pub(crate) fn enumerate(t: &RawTables, cap: u32, size: u32) -> (Said, u32, Vec<DeviceInfoV1>) {
    let mut room = vec![DeviceInfoV1 { size, ..DeviceInfoV1::blank() }; cap.max(1) as usize];
    let (mut n, mut err) = (0, ErrorV1::blank());
    // SAFETY: there are `cap` elements; a driver that honours a smaller `size` writes less of each.
    let code = unsafe { (t.driver.enumerate)(t.driver.ctx, cap, room.as_mut_ptr(), &mut n, &mut err) };
    (said(code, &err), n, room)
}

/// One device into an element that is longer than this version of the contract; whether the room behind it is untouched.
pub(crate) fn enumerate_longer(t: &RawTables) -> (Said, bool) {
    let size = (size_of::<DeviceInfoV1>() + LONGER) as u32;
    let mut room = Long { info: DeviceInfoV1 { size, ..DeviceInfoV1::blank() }, behind: [0xa5; LONGER] };
    let (mut n, mut err) = (0, ErrorV1::blank());
    let first = (&raw mut room).cast::<DeviceInfoV1>();
    // SAFETY: there is one element with as many bytes as it says.
    let code = unsafe { (t.driver.enumerate)(t.driver.ctx, 1, first, &mut n, &mut err) };
    (said(code, &err), room.behind == [0xa5; LONGER])
}

/// Enumerates with nowhere to put the count.
pub(crate) fn enumerate_without_count(t: &RawTables) -> Said {
    let mut err = ErrorV1::blank();
    // SAFETY: the contract says that pointers are checked; no memory is offered.
    let code = unsafe { (t.driver.enumerate)(t.driver.ctx, 0, null_mut(), null_mut(), &mut err) };
    said(code, &err)
}

/// Opens a device with nowhere to put it.
pub(crate) fn open_nowhere(t: &RawTables, uuid: &[u8; 16]) -> Said {
    let mut err = ErrorV1::blank();
    let options: Slice<KeyValueV1> = Slice::borrowed(&[]);
    // SAFETY: the contract says that pointers are checked; the uuid lives during the call.
    let code = unsafe { (t.driver.open)(t.driver.ctx, uuid, options, null_mut(), &mut err) };
    said(code, &err)
}

/// An open device of raw tables, closed when it is dropped.
pub(crate) struct RawDevice<'t> {
    tables: &'t RawTables,
    device: *mut Device,
}

impl<'t> RawDevice<'t> {
    /// Opens a device.
    pub(crate) fn open(tables: &'t RawTables, uuid: &[u8; 16]) -> Result<Self, Said> {
        let (mut device, mut err) = (null_mut(), ErrorV1::blank());
        let options: Slice<KeyValueV1> = Slice::borrowed(&[]);
        // SAFETY: everything that is passed lives during the call.
        let code = unsafe { (tables.driver.open)(tables.driver.ctx, uuid, options, &mut device, &mut err) };
        if code == ottava_abi::status::OK && !device.is_null() {
            return Ok(Self { tables, device });
        }
        Err(said(code, &err))
    }

    /// An extension of the device.
    pub(crate) fn extension(&self, name: &'static str) -> (i32, ExtV1) {
        let mut out = ExtV1::blank();
        // SAFETY: the device is open; the name and `out` live during the call.
        let code = unsafe { (self.tables.device.query_extension)(self.device, Str::new(name), &mut out) };
        (code, out)
    }

    /// Asks for a timeline with nowhere to put it.
    pub(crate) fn queue_nowhere(&self) -> Said {
        let mut err = ErrorV1::blank();
        // SAFETY: the device is open; the contract says that pointers are checked.
        let code = unsafe { (self.tables.device.queue_create)(self.device, 0, null_mut(), &mut err) };
        said(code, &err)
    }

    /// Compiles NULL.
    pub(crate) fn compile_nothing(&self) -> Said {
        let (mut exec, mut err) = (without_provenance_mut(1), ErrorV1::blank());
        let (program, opts) = (std::ptr::null(), std::ptr::null());
        // SAFETY: the device is open; the contract says that pointers are checked.
        let code = unsafe { (self.tables.device.compile)(self.device, program, opts, &mut exec, &mut err) };
        said(code, &err)
    }
}

impl Drop for RawDevice<'_> {
    fn drop(&mut self) {
        // SAFETY: it was opened by `open` and is closed once.
        unsafe { (self.tables.device.close)(self.device) };
    }
}
