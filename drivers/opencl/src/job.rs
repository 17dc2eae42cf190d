//! The commands of a submission, checked and ready to run.

use crate::buffer::ClBuffer;
use crate::executable::ClExecutable;
use crate::shared::Shared;
use ottava_hal::device::Command;
use ottava_hal::{Binding, Buffer, Error, Executable, Result, TensorType};
use std::sync::Arc;

/// A part of a buffer of this device.
#[derive(Clone)]
pub(crate) struct Bound {
    buffer: Arc<dyn Buffer>,
    pub offset: usize,
    pub len: usize,
}

/// A command whose objects are known to be of this device and to fit.
pub(crate) enum Work {
    Dispatch { executable: Arc<dyn Executable>, inputs: Vec<Bound>, outputs: Vec<Bound> },
    Copy { from: Bound, to: Bound },
    Fill { to: Bound, pattern: u32 },
}

impl Work {
    /// Checks a command.
    pub(crate) fn check(command: &Command, shared: &Arc<Shared>) -> Result<Self> {
        match command {
            Command::Dispatch { executable, inputs, outputs } => {
                let exe = own(executable.as_ref()).ok().filter(|e| Arc::ptr_eq(e.shared(), shared));
                let exe = exe.ok_or_else(|| {
                    Error::invalid("an executable of another device, or from before a reset; compile it again")
                })?;
                let ins = bind(inputs, exe.inputs(), "input", shared)?;
                let outs = bind(outputs, exe.outputs(), "output", shared)?;
                check_distinct(&ins, &outs)?;
                Ok(Self::Dispatch { executable: Arc::clone(executable), inputs: ins, outputs: outs })
            }
            Command::Copy { from, to } => {
                if from.len != to.len {
                    return Err(Error::invalid(format!("a copy from {} bytes to {}", from.len, to.len)));
                }
                let (from, to) = (Bound::of(from, shared)?, Bound::of(to, shared)?);
                if from.overlaps(&to) {
                    return Err(Error::invalid("a copy between bytes that overlap"));
                }
                Ok(Self::Copy { from, to })
            }
            Command::Fill { to, pattern } => Ok(Self::Fill { to: Bound::of(to, shared)?, pattern: *pattern }),
        }
    }
}

/// An executable of this driver.
pub(crate) fn own(executable: &dyn Executable) -> Result<&ClExecutable> {
    let exe = executable.as_any().downcast_ref::<ClExecutable>();
    exe.ok_or_else(|| Error::invalid("the executable belongs to another device"))
}

impl Bound {
    fn of(binding: &Binding, shared: &Arc<Shared>) -> Result<Self> {
        let buffer = binding.buffer.as_any().downcast_ref::<ClBuffer>();
        let buffer = buffer.ok_or_else(|| Error::invalid("a buffer of another device"))?;
        if !buffer.is_of(shared) {
            return Err(Error::invalid("a buffer of another device, or from before a reset; allocate it again"));
        }
        let end = binding.offset.checked_add(binding.len).filter(|&e| e <= buffer.len());
        if end.is_none() {
            let (offset, len, has) = (binding.offset, binding.len, buffer.len());
            return Err(Error::invalid(format!("bytes {offset}+{len} are outside a buffer of {has}")));
        }
        Ok(Self { buffer: Arc::clone(&binding.buffer), offset: binding.offset, len: binding.len })
    }

    /// The buffer as what it is.
    pub(crate) fn buffer(&self) -> Result<&ClBuffer> {
        let buffer = self.buffer.as_any().downcast_ref::<ClBuffer>();
        buffer.ok_or_else(|| Error::invalid("a buffer of another device"))
    }

    fn overlaps(&self, other: &Self) -> bool {
        let same = std::ptr::addr_eq(Arc::as_ptr(&self.buffer), Arc::as_ptr(&other.buffer));
        same && self.offset < other.offset + other.len && other.offset < self.offset + self.len
    }
}

fn bind(bindings: &[Binding], types: &[TensorType], what: &str, shared: &Arc<Shared>) -> Result<Vec<Bound>> {
    if bindings.len() != types.len() {
        let (found, expected) = (bindings.len(), types.len());
        return Err(Error::invalid(format!("{found} {what} bindings, the executable has {expected} {what}s")));
    }
    let alignment = shared.found.traits.alignment;
    let one = |(i, (b, ty)): (usize, (&Binding, &TensorType))| {
        if ty.byte_len() != Some(b.len) {
            return Err(Error::invalid(format!("{what} {i}: {} bytes bound, {ty} needs {:?}", b.len, ty.byte_len())));
        }
        if b.offset % alignment != 0 {
            let what = format!("{what} {i}: offset {} is not a multiple of the device's {alignment}", b.offset);
            return Err(Error::invalid(what));
        }
        Bound::of(b, shared).map_err(|e| Error::invalid(format!("{what} {i}: {e}")))
    };
    bindings.iter().zip(types).enumerate().map(one).collect()
}

/// An output does not overlap anything else that is bound.
fn check_distinct(ins: &[Bound], outs: &[Bound]) -> Result<()> {
    for (i, out) in outs.iter().enumerate() {
        if outs[i + 1..].iter().chain(ins).any(|other| other.overlaps(out)) {
            return Err(Error::invalid(format!("the memory of output {i} is bound twice; give it bytes of its own")));
        }
    }
    Ok(())
}
