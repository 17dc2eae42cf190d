//! Timelines. On devices that finish inside `submit` every function says UNSUPPORTED: the host has timelines of its own.

use crate::device::{DeviceHandle, hand_out, handle, on_device, release};
use crate::guard::check_out;
use ottava_abi::{Device, ErrorV1, Fence, NotifyFn, status};
use ottava_hal::fence::Notify;
use ottava_hal::{Error, Reason, Result, Status};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// A timeline of a device.
pub(crate) struct FenceHandle {
    pub(crate) fence: Arc<dyn ottava_hal::Fence>,
}

/// Refuses on devices without timelines.
pub(crate) fn has_fences(d: &DeviceHandle) -> Result<()> {
    let what = || format!("device `{}` finishes inside submit and has no fences", d.device.info().id);
    if d.device.info().sync_only { Err(Error::unsupported(Reason::Other, what())) } else { Ok(()) }
}

/// Runs a function on a timeline.
///
/// # Safety
/// `device` is NULL or an open device, `fence` NULL or a fence of it; `err` is NULL or an error struct.
unsafe fn on_fence(
    name: &str,
    device: *mut Device,
    fence: *mut Fence,
    err: *mut ErrorV1,
    body: impl FnOnce(&Arc<dyn ottava_hal::Fence>) -> Result<()>,
) -> i32 {
    let body = |d: &DeviceHandle| {
        has_fences(d)?;
        // SAFETY: the caller's promise.
        let fence: &FenceHandle = unsafe { handle(fence, "fence")? };
        body(&fence.fence)
    };
    // SAFETY: the caller's promise.
    unsafe { on_device(name, device, err, body) }
}

pub(crate) unsafe extern "C" fn fence_create(
    device: *mut Device,
    initial: u64,
    out: *mut *mut Fence,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        has_fences(d)?;
        check_out(out, "out")?;
        hand_out(out, FenceHandle { fence: d.device.create_fence(initial)? });
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("fence_create", device, err, body) }
}

pub(crate) unsafe extern "C" fn fence_release(_device: *mut Device, fence: *mut Fence) {
    // SAFETY: the host releases a fence once and does not use it again.
    unsafe { release::<_, FenceHandle>("fence_release", fence) };
}

pub(crate) unsafe extern "C" fn fence_query(
    device: *mut Device,
    fence: *mut Fence,
    value: *mut u64,
    failure: *mut i32,
) -> i32 {
    let body = |fence: &Arc<dyn ottava_hal::Fence>| {
        check_out(value, "value")?;
        check_out(failure, "failure")?;
        let (reached, code) = match fence.query() {
            Ok(reached) => (reached, status::OK),
            Err(e) => (0, e.status() as i32),
        };
        // SAFETY: checked above.
        unsafe { value.write(reached) };
        // SAFETY: checked above.
        unsafe { failure.write(code) };
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_fence("fence_query", device, fence, std::ptr::null_mut(), body) }
}

pub(crate) unsafe extern "C" fn fence_wait(
    device: *mut Device,
    fence: *mut Fence,
    value: u64,
    timeout_ns: u64,
    err: *mut ErrorV1,
) -> i32 {
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_fence("fence_wait", device, fence, err, |f| f.wait(value, Duration::from_nanos(timeout_ns))) }
}

pub(crate) unsafe extern "C" fn fence_signal(
    device: *mut Device,
    fence: *mut Fence,
    value: u64,
    err: *mut ErrorV1,
) -> i32 {
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_fence("fence_signal", device, fence, err, |f| f.signal(value)) }
}

pub(crate) unsafe extern "C" fn fence_fail(
    device: *mut Device,
    fence: *mut Fence,
    code: i32,
    err: *mut ErrorV1,
) -> i32 {
    let body = |fence: &Arc<dyn ottava_hal::Fence>| {
        let status = Status::ALL.into_iter().find(|s| *s as i32 == code);
        let status = status.ok_or_else(|| Error::invalid(format!("{code} is no code of a failure")))?;
        fence.fail(Error::failed(status, "failed by the host"));
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_fence("fence_fail", device, fence, err, body) }
}

/// The host's callback.
struct Callback {
    done: NotifyFn,
    user: *mut c_void,
}

// SAFETY: the host promises that the callback may be called from any thread with its pointer.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

impl Notify for Callback {
    fn notified(&self, _: u64, result: Result<()>) {
        let code = result.map_or_else(|e| e.status() as i32, |()| status::OK);
        // SAFETY: the driver contract says once per request, which is what the host expects.
        unsafe { (self.done.call)(self.user, code) };
    }
}

pub(crate) unsafe extern "C" fn fence_notify(
    device: *mut Device,
    fence: *mut Fence,
    value: u64,
    done: NotifyFn,
    user: *mut c_void,
    err: *mut ErrorV1,
) -> i32 {
    let body = |fence: &Arc<dyn ottava_hal::Fence>| {
        fence.notify(value, Arc::new(Callback { done, user }), 0);
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_fence("fence_notify", device, fence, err, body) }
}
