//! A submission as the plain arrays that a driver reads. Everything the driver would have to trust is checked here: whose
//! objects they are, whether they are valid, sizes, offsets, overlaps.
//!
//! The arrays are kept by the queue and reused, so that a steady state allocates nothing.

use super::buffer::AbiBuffer;
use super::device::Shared;
use super::executable::{AbiExecutable, IoRule};
use super::fence::AbiFence;
use crate::clock;
use ottava_abi::types::Buffer as RawBuffer;
use ottava_abi::{BindingV1, CommandV1, FencePointV1, Slice, SubmitV1, command, submit_flag};
use ottava_hal::{Binding, Command, Error, Executable, Fence, Result, Submission};
use std::fmt::{self, Display};
use std::sync::Arc;

/// The arrays of one submission. They hold addresses of objects that the submission holds.
#[derive(Default)]
pub(crate) struct Scratch {
    commands: Vec<CommandV1>,
    bindings: Vec<BindingV1>,
    waits: Vec<FencePointV1>,
    signals: Vec<FencePointV1>,
}

// SAFETY: the pointers are used only during the call that has filled the arrays, while the submission is borrowed.
unsafe impl Send for Scratch {}

/// The buffer of a binding, checked.
fn buffer(shared: &Arc<Shared>, b: &Binding, what: impl Display) -> Result<*mut RawBuffer> {
    let own = b.buffer.as_any().downcast_ref::<AbiBuffer>().filter(|o| o.is_of(shared));
    let own = own.ok_or_else(|| Error::invalid(format!("{what} is no buffer of device `{}`", shared.info.id)))?;
    own.check_range(b.offset, b.len)?;
    own.handle()
}

fn binding(shared: &Arc<Shared>, b: &Binding, rule: &IoRule, what: Place) -> Result<BindingV1> {
    let raw = buffer(shared, b, what)?;
    if b.len != rule.bytes {
        return Err(Error::invalid(format!("{what}: {} bytes are bound, {} are needed", b.len, rule.bytes)));
    }
    if !b.offset.is_multiple_of(rule.alignment) {
        let (offset, alignment) = (b.offset, rule.alignment);
        return Err(Error::invalid(format!("{what}: the offset {offset} is not a multiple of {alignment}")));
    }
    Ok(BindingV1 { buffer: raw, offset: b.offset as u64, len: b.len as u64 })
}

fn overlap(a: &BindingV1, b: &BindingV1) -> bool {
    let both = a.len > 0 && b.len > 0 && a.buffer == b.buffer;
    both && a.offset < b.offset.saturating_add(b.len) && b.offset < a.offset.saturating_add(a.len)
}

/// What an output binds belongs to it alone.
fn check_distinct(bindings: &[BindingV1], n_inputs: usize) -> Result<()> {
    for (i, output) in bindings.iter().enumerate().skip(n_inputs) {
        if bindings.iter().enumerate().any(|(k, other)| k != i && overlap(output, other)) {
            let i = i - n_inputs;
            return Err(Error::invalid(format!("the bytes of output {i} are bound twice; give it bytes of its own")));
        }
    }
    Ok(())
}

impl Scratch {
    /// Fills the arrays of commands.
    pub fn commands(&mut self, shared: &Arc<Shared>, s: &Submission) -> Result<()> {
        self.commands.clear();
        self.bindings.clear();
        self.waits.clear();
        self.signals.clear();
        for c in &s.commands {
            let raw = match c {
                Command::Dispatch { executable, inputs, outputs } => {
                    self.dispatch(shared, executable.as_ref(), inputs, outputs)?
                }
                Command::Copy { from, to } => copy(shared, from, to)?,
                Command::Fill { to, pattern } => fill(shared, to, *pattern)?,
            };
            self.commands.push(raw);
        }
        self.link_bindings();
        Ok(())
    }

    fn dispatch(
        &mut self,
        shared: &Arc<Shared>,
        executable: &dyn Executable,
        inputs: &[Binding],
        outputs: &[Binding],
    ) -> Result<CommandV1> {
        let own = executable.as_any().downcast_ref::<AbiExecutable>().filter(|e| e.is_of(shared));
        let foreign = || Error::invalid(format!("the executable is not one of device `{}`", shared.info.id));
        let exe = own.ok_or_else(foreign)?;
        let (n_in, n_out) = (executable.inputs().len(), executable.outputs().len());
        if (inputs.len(), outputs.len()) != (n_in, n_out) {
            let found = format!("{} inputs and {} outputs are bound", inputs.len(), outputs.len());
            return Err(Error::invalid(format!("{found}, the executable has {n_in} and {n_out}")));
        }
        let first = self.bindings.len();
        for (i, (b, rule)) in inputs.iter().chain(outputs).zip(exe.rules()).enumerate() {
            self.bindings.push(binding(shared, b, rule, Place { i, n_in })?);
        }
        check_distinct(&self.bindings[first..], n_in)?;
        // The address of the bindings follows when all of them are there; see `link_bindings`.
        let bindings = Slice { ptr: std::ptr::null(), len: (n_in + n_out) as u64, ..Slice::borrowed(&[]) };
        Ok(CommandV1 { op: command::DISPATCH, exec: exe.handle()?, bindings, ..CommandV1::blank() })
    }

    /// Gives each dispatch the address of its bindings, which follow each other in the order of the commands.
    fn link_bindings(&mut self) {
        let mut rest = self.bindings.as_slice();
        for c in self.commands.iter_mut().filter(|c| c.op == command::DISPATCH) {
            let (own, others) = rest.split_at(c.bindings.len as usize);
            c.bindings = Slice::borrowed(own);
            rest = others;
        }
    }

    /// Fills the arrays of timelines, which must be the device's own.
    pub fn fences(&mut self, shared: &Arc<Shared>, s: &Submission) -> Result<()> {
        for (fence, value) in &s.waits {
            let fence = own_fence(shared, fence.as_ref())?.handle();
            self.waits.push(FencePointV1 { fence, value: *value });
        }
        for (fence, value) in &s.signals {
            self.signal(own_fence(shared, fence.as_ref())?, *value);
        }
        Ok(())
    }

    /// One more timeline to signal.
    pub fn signal(&mut self, fence: &AbiFence, value: u64) {
        fence.promise(value);
        self.signals.push(FencePointV1 { fence: fence.handle(), value });
    }

    /// The struct for the driver. It points into `self`.
    pub fn as_abi(&self, s: &Submission, submission: &mut u64) -> SubmitV1 {
        SubmitV1 {
            commands: Slice::borrowed(&self.commands),
            waits: Slice::borrowed(&self.waits),
            signals: Slice::borrowed(&self.signals),
            deadline_ns: s.deadline.map_or(0, clock::ns_of),
            flags: if s.profile { submit_flag::PROFILE } else { 0 },
            submission,
            ..SubmitV1::blank()
        }
    }
}

/// Names a binding in an error.
#[derive(Clone, Copy)]
struct Place {
    i: usize,
    n_in: usize,
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.i < self.n_in { write!(f, "input {}", self.i) } else { write!(f, "output {}", self.i - self.n_in) }
    }
}

fn own_fence<'a>(shared: &Arc<Shared>, fence: &'a dyn Fence) -> Result<&'a AbiFence> {
    let own = fence.as_any().downcast_ref::<AbiFence>().filter(|f| f.is_of(shared));
    let help = "a fence of another device needs a proxy on this one";
    let foreign = || Error::invalid(format!("a timeline is not one of device `{}`; {help}", shared.info.id));
    own.ok_or_else(foreign)
}

fn copy(shared: &Arc<Shared>, from: &Binding, to: &Binding) -> Result<CommandV1> {
    let (src, dst) = (buffer(shared, from, "the source")?, buffer(shared, to, "the destination")?);
    if from.len != to.len {
        return Err(Error::invalid(format!("a copy from {} bytes to {}", from.len, to.len)));
    }
    let part = |buffer, b: &Binding| BindingV1 { buffer, offset: b.offset as u64, len: b.len as u64 };
    let (a, b) = (part(src, from), part(dst, to));
    if overlap(&a, &b) {
        return Err(Error::invalid("source and destination of a copy overlap"));
    }
    let (src_off, dst_off, len) = (a.offset, b.offset, a.len);
    Ok(CommandV1 { op: command::COPY, src, src_off, dst, dst_off, len, ..CommandV1::blank() })
}

fn fill(shared: &Arc<Shared>, to: &Binding, pattern: u32) -> Result<CommandV1> {
    let dst = buffer(shared, to, "the destination")?;
    let (dst_off, len) = (to.offset as u64, to.len as u64);
    Ok(CommandV1 { op: command::FILL, dst, dst_off, len, pattern, ..CommandV1::blank() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(buffer: usize, offset: u64, len: u64) -> BindingV1 {
        BindingV1 { buffer: std::ptr::without_provenance_mut(buffer), offset, len }
    }

    #[test]
    fn only_common_bytes_overlap() {
        assert!(overlap(&part(1, 0, 8), &part(1, 7, 1)));
        assert!(!overlap(&part(1, 0, 8), &part(1, 8, 8)));
        assert!(!overlap(&part(1, 0, 8), &part(2, 0, 8)));
        assert!(!overlap(&part(1, 0, 0), &part(1, 0, 8)));
    }

    #[test]
    fn inputs_may_share_and_outputs_may_not() {
        let bindings = [part(1, 0, 8), part(1, 0, 8), part(2, 0, 8), part(2, 8, 8)];
        assert!(check_distinct(&bindings, 2).is_ok());
        let e = check_distinct(&[part(1, 0, 8), part(1, 4, 8)], 1).unwrap_err();
        assert!(e.to_string().contains("output 0 are bound twice"), "{e}");
    }
}
