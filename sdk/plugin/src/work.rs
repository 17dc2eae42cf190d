//! Queues.

use crate::device::{DeviceHandle, hand_out, handle, on_device, release};
use crate::guard::{check_out, read};
use crate::profile::Profiles;
use crate::submission::Scratch;
use ottava_abi::{Device, ErrorV1, Queue, SubmitV1, priority};
use ottava_hal::Error;
use parking_lot::Mutex;
use std::sync::Arc;

/// A queue of a device.
pub(crate) struct QueueHandle {
    pub(crate) queue: Arc<dyn ottava_hal::Queue>,
    pub(crate) profiles: Mutex<Profiles>,
    /// What submissions are built in, while none is being built.
    scratch: Mutex<Option<Box<Scratch>>>,
}

pub(crate) unsafe extern "C" fn queue_create(
    device: *mut Device,
    level: u32,
    out: *mut *mut Queue,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        check_out(out, "out")?;
        if level > priority::HIGH {
            return Err(Error::invalid(format!("priority {level}; there are 0 to {}", priority::HIGH)));
        }
        let queue = d.device.create_queue()?;
        hand_out(out, QueueHandle { queue, profiles: Mutex::default(), scratch: Mutex::default() });
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("queue_create", device, err, body) }
}

pub(crate) unsafe extern "C" fn queue_release(_device: *mut Device, queue: *mut Queue) {
    // SAFETY: the host releases a queue once and does not use it again.
    unsafe { release::<_, QueueHandle>("queue_release", queue) };
}

pub(crate) unsafe extern "C" fn submit(
    device: *mut Device,
    queue: *mut Queue,
    submit: *const SubmitV1,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        // SAFETY: the host passes NULL or a queue of this device.
        let queue: &QueueHandle = unsafe { handle(queue, "queue")? };
        // SAFETY: the host passes NULL or a submission.
        let s = unsafe { read(submit, "submit")? };
        if !s.submission.is_null() {
            check_out(s.submission, "submission")?;
        }
        // No lock is held while the driver works; a second caller, against the contract, makes lists of its own.
        let mut scratch = queue.scratch.lock().take().unwrap_or_default();
        // SAFETY: what a submission refers to is the host's and lives during the call.
        let submitted = unsafe { scratch.submit(d, queue.queue.as_ref(), &s) };
        let names = scratch.clear();
        *queue.scratch.lock() = Some(scratch);
        let id = submitted?;
        if !names.is_empty() {
            queue.profiles.lock().submitted(id, names);
        }
        if !s.submission.is_null() {
            // SAFETY: the host passes NULL or a place for a number; its alignment is checked above.
            unsafe { s.submission.write(id) };
        }
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("submit", device, err, body) }
}
