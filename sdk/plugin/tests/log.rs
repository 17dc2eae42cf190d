//! `tracing` events of a driver reach the host's log until shutdown. One test: the dispatcher is the process's.
#![allow(unsafe_code)] // The tables are called as a host calls them.

mod common;

use common::{check, host};
use ottava_abi::*;
use ottava_hal::{DeviceInfo, DeviceKind, DriverInfo};
use ottava_plugin::kernels::KernelDriver;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::Mutex;

static LINES: Mutex<Vec<(u32, String, String)>> = Mutex::new(Vec::new());

unsafe extern "C" fn keep(user: *mut c_void, level: u32, target: Str, message: Str) {
    assert_eq!(user as usize, 77, "the host's pointer comes back");
    // What the host logs by itself meanwhile must not come in again.
    tracing::warn!("from inside the log");
    let text = |s: Str| {
        // SAFETY: texts are readable during the call.
        String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(s.ptr, s.len as usize) }).into_owned()
    };
    LINES.lock().unwrap().push((level, text(target), text(message)));
}

#[test]
fn events_reach_the_host_until_shutdown() {
    let make = || {
        tracing::info!(answer = 42, name = "x", "made");
        let info = DriverInfo { name: "quiet".into(), vendor: "tests".into(), version: "1".into() };
        KernelDriver::new(info, DeviceInfo::new("quiet", "q", DeviceKind::Dsp), vec![])
    };
    let host = Box::leak(Box::new(HostV1 { log: keep, user: 77 as *mut c_void, ..host() }));
    let (mut out, mut err) = (null(), ErrorV1::blank());
    // SAFETY: a host that keeps to the contract.
    unsafe {
        check(ottava_plugin::private::entry(make, host, &mut out, &mut err), &err).unwrap();
        tracing::trace!(target: "deep", "down");
        ((*out).shutdown)((*out).ctx);
    }
    tracing::error!("too late");
    let lines = LINES.lock().unwrap();
    let expected = [(log_level::INFO, "log", "made answer=42 name=\"x\""), (log_level::TRACE, "deep", "down")];
    assert_eq!(*lines, expected.map(|(level, target, text)| (level, target.to_owned(), text.to_owned())));
}
