//! Extensions by name, and the two small ones: `ottava.test_hooks/1` and `ottava.describe/1`.

use crate::device::{DeviceHandle, ExecHandle, handle, on_device};
use crate::driver::{DriverCx, find, on_driver};
use crate::guard::{check_out, check_prefix, fill, fill_bytes, text};
use crate::profile;
use ottava_abi::{
    DESCRIBE_HASH, DESCRIBE_NAME, DescribeV1, Device, ErrorV1, Exec, ExecKernelV1, ExtV1, PROFILE_HASH, PROFILE_NAME,
    Str, TEST_HOOKS_HASH, TEST_HOOKS_NAME, Table, TestHooksV1,
};
use ottava_hal::fault::{Fault, FaultKind};
use ottava_hal::{DeviceInfo, Error, Result, Status};
use std::ffi::c_void;
use std::fmt::Write;

/// Extensions of the driver.
pub(crate) fn of_driver(name: Str, out: *mut ExtV1) -> Result<()> {
    answer(name, out, &[(DESCRIBE_NAME, std::ptr::from_ref(&DESCRIBE).cast(), DESCRIBE_HASH)])
}

/// Extensions of a device.
pub(crate) fn of_device(name: Str, out: *mut ExtV1) -> Result<()> {
    let tables = [
        (PROFILE_NAME, std::ptr::from_ref(&profile::TABLE).cast(), PROFILE_HASH),
        (TEST_HOOKS_NAME, std::ptr::from_ref(&TEST_HOOKS).cast(), TEST_HOOKS_HASH),
        (DESCRIBE_NAME, std::ptr::from_ref(&DESCRIBE).cast(), DESCRIBE_HASH),
    ];
    answer(name, out, &tables)
}

fn answer(name: Str, out: *mut ExtV1, tables: &[(&str, *const c_void, u64)]) -> Result<()> {
    check_out(out, "out")?;
    // SAFETY: the host passes a readable text, and a pointer that is not NULL points to an extension struct.
    let name = unsafe {
        check_prefix(out.cast_const(), "out")?;
        text(name, "name")?
    };
    let found = tables.iter().find(|(n, _, _)| *n == name);
    let (_, table, layout_hash) =
        *found.ok_or_else(|| Error::failed(Status::NotFound, format!("no extension `{name}`")))?;
    // SAFETY: checked above.
    unsafe { out.write(ExtV1 { table, layout_hash, ..ExtV1::blank() }) };
    Ok(())
}

static TEST_HOOKS: TestHooksV1 =
    TestHooksV1 { size: size_of::<TestHooksV1>() as u32, kind: TestHooksV1::KIND, inject, clear };

unsafe extern "C" fn inject(device: *mut Device, fault: u32, after_calls: u64, seed: u64, err: *mut ErrorV1) -> i32 {
    let body = |d: &DeviceHandle| {
        let kind = FaultKind::ALL.into_iter().find(|k| *k as u32 == fault);
        let kind = kind.ok_or_else(|| Error::invalid(format!("fault {fault}")))?;
        d.device.inject(Fault { kind, after_calls, seed })
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("test_hooks.inject", device, err, body) }
}

unsafe extern "C" fn clear(device: *mut Device, err: *mut ErrorV1) -> i32 {
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("test_hooks.clear", device, err, |d| d.device.clear_faults()) }
}

static DESCRIBE: DescribeV1 = DescribeV1 {
    size: size_of::<DescribeV1>() as u32,
    kind: DescribeV1::KIND,
    device_text,
    open_text,
    exec_text,
    exec_kernels,
};

/// Adds a line; a line break in a value would be a line of its own.
fn line(text: &mut String, key: &str, value: impl std::fmt::Display) {
    let value = value.to_string().replace(['\n', '\r'], " ");
    writeln!(text, "{key}={value}").expect("a string takes everything");
}

fn describe(info: &DeviceInfo) -> String {
    let mut text = String::new();
    line(&mut text, "id", &info.id);
    line(&mut text, "isa", &info.isa);
    line(&mut text, "threads", info.threads);
    line(&mut text, "name", &info.name);
    line(&mut text, "hw_rev", info.hw_rev);
    text
}

unsafe extern "C" fn device_text(
    ctx: *mut c_void,
    uuid: *const [u8; 16],
    buf: *mut u8,
    cap: u64,
    len: *mut u64,
    err: *mut ErrorV1,
) -> i32 {
    // SAFETY: the host keeps to the contract of two-call functions.
    let body = |cx: &'static DriverCx| unsafe { fill_bytes(buf, cap, len, describe(&find(cx, uuid)?).as_bytes()) };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_driver("describe.device_text", ctx, err, body) }
}

unsafe extern "C" fn open_text(device: *mut Device, buf: *mut u8, cap: u64, len: *mut u64, err: *mut ErrorV1) -> i32 {
    // SAFETY: the host keeps to the contract of two-call functions.
    let body = |d: &DeviceHandle| unsafe { fill_bytes(buf, cap, len, describe(d.device.info()).as_bytes()) };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("describe.open_text", device, err, body) }
}

unsafe extern "C" fn exec_text(
    device: *mut Device,
    exec: *mut Exec,
    buf: *mut u8,
    cap: u64,
    len: *mut u64,
    err: *mut ErrorV1,
) -> i32 {
    let body = |_: &DeviceHandle| {
        // SAFETY: the host passes NULL or an executable of this device.
        let exec: &ExecHandle = unsafe { handle(exec, "exec")? };
        let mut text = String::new();
        line(&mut text, "arena_bytes", exec.exec.arena_bytes());
        // SAFETY: the host keeps to the contract of two-call functions.
        unsafe { fill_bytes(buf, cap, len, text.as_bytes()) }
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("describe.exec_text", device, err, body) }
}

unsafe extern "C" fn exec_kernels(
    device: *mut Device,
    exec: *mut Exec,
    cap: u32,
    out: *mut ExecKernelV1,
    count: *mut u32,
    err: *mut ErrorV1,
) -> i32 {
    let body = |_: &DeviceHandle| {
        // SAFETY: the host passes NULL or an executable of this device.
        let exec: &ExecHandle = unsafe { handle(exec, "exec")? };
        let kernel = |(node, kernel): &(String, String)| ExecKernelV1 {
            node: Str::borrowed(node),
            kernel: Str::borrowed(kernel),
            ..ExecKernelV1::blank()
        };
        let all: Vec<_> = exec.kernels.iter().map(kernel).collect();
        // SAFETY: the host keeps to the contract of two-call functions.
        unsafe { fill(cap, out, count, &all) }
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("describe.exec_kernels", device, err, body) }
}
