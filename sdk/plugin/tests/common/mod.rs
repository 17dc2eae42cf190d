//! What the tests of the kit share: a host, and how it reads answers.

use ottava_abi::*;
use std::ffi::c_void;

unsafe extern "C" fn log(_: *mut c_void, _: u32, _: Str, _: Str) {}

unsafe extern "C" fn now_ns(_: *mut c_void) -> u64 {
    1_000
}

unsafe extern "C" fn no_extension(_: *mut c_void, _: Str, _: *mut ExtV1) -> i32 {
    status::NOT_FOUND
}

/// A host without options.
pub fn host() -> HostV1 {
    HostV1 {
        size: size_of::<HostV1>() as u32,
        kind: kind::HOST,
        user: std::ptr::null_mut(),
        plugin_dir: Str::new(""),
        abi_minor: 9,
        pad: 0,
        options: Slice::borrowed(&[]),
        log,
        now_ns,
        query_extension: no_extension,
    }
}

/// Turns code and error struct into a result.
pub fn check(code: i32, err: &ErrorV1) -> Result<(), (i32, String)> {
    if code == status::OK {
        return Ok(());
    }
    assert_eq!(err.code, code, "code and struct agree");
    assert!(!err.text().is_empty(), "an error of code {code} without words");
    Err((code, err.text()))
}
