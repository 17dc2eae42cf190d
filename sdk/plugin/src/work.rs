//! Queues and submissions.
//!
//! On a device that finishes inside `submit`, the kit gives each submission a timeline of its own, so that a failure of
//! the work, which such a device reports there, becomes the answer of `submit`.

use crate::device::{DeviceHandle, ExecHandle, hand_out, handle, on_device, release};
use crate::fences::FenceHandle;
use crate::guard::{Items, check_out, read};
use crate::memory::BufferHandle;
use crate::profile::{Names, Profiles};
use ottava_abi::{
    BindingV1, CommandV1, Device, ErrorV1, FencePointV1, Queue, Slice, SubmitV1, command, priority, submit_flag,
};
use ottava_hal::device::Command;
use ottava_hal::host::HostFence;
use ottava_hal::{Binding, Error, Fence, Result, Submission};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A queue of a device.
pub(crate) struct QueueHandle {
    pub(crate) queue: Arc<dyn ottava_hal::Queue>,
    pub(crate) profiles: Mutex<Profiles>,
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
        hand_out(out, QueueHandle { queue: d.device.create_queue()?, profiles: Mutex::default() });
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
        // SAFETY: what a submission refers to is the host's and lives during the call.
        let (work, names) = unsafe { submission(d, &s)? };
        let id = if d.device.info().sync_only { run(queue, work)? } else { queue.queue.submit(&work)? };
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

/// Submits to a device that is done when it returns; a failure of the work is an error.
fn run(queue: &QueueHandle, mut work: Submission) -> Result<u64> {
    let done = Arc::new(HostFence::new(0));
    work.signals.push((done.clone(), 1));
    let id = queue.queue.submit(&work)?;
    done.wait(1, Duration::MAX)?;
    Ok(id)
}

/// A submission in the words of the driver contract.
///
/// # Safety
/// Every slice and handle in it is valid during the call.
unsafe fn submission(d: &DeviceHandle, s: &SubmitV1) -> Result<(Submission, Names)> {
    if d.device.info().sync_only && (s.waits.len > 0 || s.signals.len > 0) {
        return Err(Error::invalid(
            "this device has no fences; the host waits before it submits and signals afterwards",
        ));
    }
    let profile = s.flags & submit_flag::PROFILE != 0 && d.profiling.load(Ordering::Relaxed);
    let mut names = Names::new();
    let mut work = Submission { profile, deadline: deadline(d, s.deadline_ns), ..Submission::default() };
    // SAFETY: the caller's promise.
    unsafe {
        for c in Items::new(s.commands, "commands")?.iter() {
            work.commands.push(command(&c, if profile { Some(&mut names) } else { None })?);
        }
        work.waits = points(s.waits, "waits")?;
        work.signals = points(s.signals, "signals")?;
    }
    Ok((work, names))
}

/// A time of the host's clock as a time of ours.
fn deadline(d: &DeviceHandle, deadline_ns: u64) -> Option<Instant> {
    let host = &d.cx.host;
    // SAFETY: the host's table is valid until `shutdown`.
    let left = || deadline_ns.saturating_sub(unsafe { (host.now_ns)(host.user) });
    (deadline_ns != 0).then(|| Instant::now().checked_add(Duration::from_nanos(left()))).flatten()
}

/// # Safety
/// The fences are fences of the device.
unsafe fn points(list: Slice<FencePointV1>, what: &str) -> Result<Vec<(Arc<dyn Fence>, u64)>> {
    let point = |p: FencePointV1| {
        // SAFETY: the caller's promise.
        let fence: &FenceHandle = unsafe { handle(p.fence, what)? };
        Ok((Arc::clone(&fence.fence), p.value))
    };
    // SAFETY: the caller's promise.
    unsafe { Items::new(list, what)? }.iter().map(point).collect()
}

/// # Safety
/// The handles are handles of the device.
unsafe fn command(c: &CommandV1, names: Option<&mut Names>) -> Result<Command> {
    // SAFETY: the caller's promise.
    let part = |buffer, offset, len| unsafe { binding(&BindingV1 { buffer, offset, len }) };
    match c.op {
        // SAFETY: the caller's promise.
        command::DISPATCH => unsafe { dispatch(c, names) },
        command::COPY => Ok(Command::Copy { from: part(c.src, c.src_off, c.len)?, to: part(c.dst, c.dst_off, c.len)? }),
        command::FILL => Ok(Command::Fill { to: part(c.dst, c.dst_off, c.len)?, pattern: c.pattern }),
        other => Err(Error::invalid(format!("command {other}"))),
    }
}

/// # Safety
/// As [`command`].
unsafe fn dispatch(c: &CommandV1, names: Option<&mut Names>) -> Result<Command> {
    // SAFETY: the caller's promise.
    let exec: &ExecHandle = unsafe { handle(c.exec, "exec")? };
    // SAFETY: the caller's promise.
    let bindings = unsafe { Items::new(c.bindings, "bindings")? };
    if bindings.len() != exec.n_bindings() {
        let (found, expected) = (bindings.len(), exec.n_bindings());
        return Err(Error::invalid(format!("{found} bindings, the executable has {expected} inputs and outputs")));
    }
    // SAFETY: the caller's promise.
    let mut inputs = bindings.iter().map(|b| unsafe { binding(&b) }).collect::<Result<Vec<_>>>()?;
    let outputs = inputs.split_off(exec.n_inputs());
    if let Some(names) = names {
        names.push(Arc::clone(&exec.node_ids));
    }
    Ok(Command::Dispatch { executable: Arc::clone(&exec.exec), inputs, outputs })
}

/// # Safety
/// As [`command`].
unsafe fn binding(b: &BindingV1) -> Result<Binding> {
    // SAFETY: the caller's promise.
    let buffer: &BufferHandle = unsafe { handle(b.buffer, "the buffer of a binding")? };
    let size = buffer.buffer.len() as u64;
    if b.offset.checked_add(b.len).is_none_or(|end| end > size) {
        return Err(Error::invalid(format!("bytes {}+{} are outside a buffer of {size}", b.offset, b.len)));
    }
    // Both are at most the length of a buffer in memory.
    Ok(Binding { buffer: Arc::clone(&buffer.buffer), offset: b.offset as usize, len: b.len as usize })
}
