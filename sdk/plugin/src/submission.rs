//! A submission in the words of the driver contract.
//!
//! Its lists are kept from one submission to the next, so that a steady state allocates nothing; the objects that they name
//! are let go when the submission is handed over, because the driver keeps what it needs.
//!
//! A device that finishes inside `submit` reports a failure of the work on a timeline, which has to become the answer of
//! `submit`: such a device signals a timeline of the kit's own.

use crate::device::{DeviceHandle, ExecHandle, handle};
use crate::fences::FenceHandle;
use crate::guard::Items;
use crate::memory::BufferHandle;
use crate::profile::Names;
use ottava_abi::{BindingV1, CommandV1, FencePointV1, Slice, SubmitV1, command, submit_flag};
use ottava_hal::device::Command;
use ottava_hal::host::HostFence;
use ottava_hal::{Binding, Error, Fence, Queue, Result, Submission};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The lists of a submission.
#[derive(Default)]
pub(crate) struct Scratch {
    work: Submission,
    names: Names,
    /// Empty lists of bindings.
    spare: Vec<Vec<Binding>>,
    /// The timeline of a device that finishes inside `submit`, and where it stands.
    done: Option<(Arc<HostFence>, u64)>,
}

impl Scratch {
    /// Submits; the queue's number of the submission. On a device that finishes inside `submit`, a failure of the work
    /// is an error.
    ///
    /// # Safety
    /// Every slice and handle of the submission is valid during the call.
    pub(crate) unsafe fn submit(&mut self, d: &DeviceHandle, queue: &dyn Queue, s: &SubmitV1) -> Result<u64> {
        // SAFETY: the caller's promise.
        unsafe { self.fill(d, s)? };
        if !d.device.info().sync_only {
            return queue.submit(&self.work);
        }
        let (done, value) = self.done.take().map_or_else(|| (Arc::new(HostFence::new(0)), 1), |(f, v)| (f, v + 1));
        self.work.signals.push((done.clone(), value));
        let id = queue.submit(&self.work)?;
        done.wait(value, Duration::MAX)?;
        // A timeline that has failed, or may still be signalled, is not used again.
        self.done = Some((done, value));
        Ok(id)
    }

    /// Lets go of what the submission named; returns the names of its nodes, if it was profiled.
    pub(crate) fn clear(&mut self) -> Names {
        for command in self.work.commands.drain(..) {
            if let Command::Dispatch { inputs, outputs, .. } = command {
                for mut list in [inputs, outputs] {
                    list.clear();
                    self.spare.push(list);
                }
            }
        }
        self.work.waits.clear();
        self.work.signals.clear();
        std::mem::take(&mut self.names)
    }

    /// # Safety
    /// As [`Self::submit`].
    unsafe fn fill(&mut self, d: &DeviceHandle, s: &SubmitV1) -> Result<()> {
        if d.device.info().sync_only && (s.waits.len > 0 || s.signals.len > 0) {
            return Err(Error::invalid(
                "this device has no fences; the host waits before it submits and signals afterwards",
            ));
        }
        self.work.profile = s.flags & submit_flag::PROFILE != 0 && d.profiling.load(Ordering::Relaxed);
        self.work.deadline = deadline(d, s.deadline_ns);
        // SAFETY: the caller's promise.
        unsafe {
            for c in Items::new(s.commands, "commands")?.iter() {
                let command = if c.op == command::DISPATCH { self.dispatch(&c)? } else { transfer(&c)? };
                self.work.commands.push(command);
            }
            points(s.waits, "waits", &mut self.work.waits)?;
            points(s.signals, "signals", &mut self.work.signals)
        }
    }

    /// # Safety
    /// As [`transfer`].
    unsafe fn dispatch(&mut self, c: &CommandV1) -> Result<Command> {
        // SAFETY: the caller's promise.
        let exec: &ExecHandle = unsafe { handle(c.exec, "exec")? };
        // SAFETY: the caller's promise.
        let bindings = unsafe { Items::new(c.bindings, "bindings")? };
        if bindings.len() != exec.n_bindings() {
            let (found, expected) = (bindings.len(), exec.n_bindings());
            return Err(Error::invalid(format!("{found} bindings, the executable has {expected} inputs and outputs")));
        }
        let (mut inputs, mut outputs) = (self.spare.pop().unwrap_or_default(), self.spare.pop().unwrap_or_default());
        for (i, b) in bindings.iter().enumerate() {
            let list = if i < exec.n_inputs() { &mut inputs } else { &mut outputs };
            // SAFETY: the caller's promise.
            list.push(unsafe { binding(&b)? });
        }
        if self.work.profile {
            self.names.push(Arc::clone(&exec.node_ids));
        }
        Ok(Command::Dispatch { executable: Arc::clone(&exec.exec), inputs, outputs })
    }
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
unsafe fn points(list: Slice<FencePointV1>, what: &str, to: &mut Vec<(Arc<dyn Fence>, u64)>) -> Result<()> {
    // SAFETY: the caller's promise.
    for p in unsafe { Items::new(list, what)? }.iter() {
        // SAFETY: the caller's promise.
        let fence: &FenceHandle = unsafe { handle(p.fence, what)? };
        to.push((Arc::clone(&fence.fence), p.value));
    }
    Ok(())
}

/// A copy or fill.
///
/// # Safety
/// The handles are handles of the device.
unsafe fn transfer(c: &CommandV1) -> Result<Command> {
    // SAFETY: the caller's promise.
    let part = |buffer, offset, len| unsafe { binding(&BindingV1 { buffer, offset, len }) };
    match c.op {
        command::COPY => Ok(Command::Copy { from: part(c.src, c.src_off, c.len)?, to: part(c.dst, c.dst_off, c.len)? }),
        command::FILL => Ok(Command::Fill { to: part(c.dst, c.dst_off, c.len)?, pattern: c.pattern }),
        other => Err(Error::invalid(format!("command {other}"))),
    }
}

/// # Safety
/// As [`transfer`].
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
