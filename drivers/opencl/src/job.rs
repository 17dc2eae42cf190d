//! The commands of a submission, checked and ready to run.

use crate::buffer::ClBuffer;
use crate::executable::ClExecutable;
use crate::shared::Shared;
use ottava_gpu::engine::{check_bindings, check_copy, check_distinct, check_range};
use ottava_hal::device::Command;
use ottava_hal::{Binding, Buffer, Error, Executable, Result};
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
                let alignment = shared.found.traits.alignment;
                check_bindings(inputs, exe.inputs(), "input", alignment)?;
                check_bindings(outputs, exe.outputs(), "output", alignment)?;
                check_distinct(inputs, outputs)?;
                let bound = |all: &[Binding]| all.iter().map(|b| Bound::of(b, shared)).collect::<Result<_>>();
                let (inputs, outputs) = (bound(inputs)?, bound(outputs)?);
                Ok(Self::Dispatch { executable: Arc::clone(executable), inputs, outputs })
            }
            Command::Copy { from, to } => {
                check_copy(from, to)?;
                Ok(Self::Copy { from: Bound::of(from, shared)?, to: Bound::of(to, shared)? })
            }
            Command::Fill { to, pattern } => {
                check_range(to)?;
                Ok(Self::Fill { to: Bound::of(to, shared)?, pattern: *pattern })
            }
        }
    }

    /// Where the command writes.
    pub(crate) fn written(&self) -> &[Bound] {
        match self {
            Self::Dispatch { outputs, .. } => outputs,
            Self::Copy { to, .. } | Self::Fill { to, .. } => std::slice::from_ref(to),
        }
    }

    /// What the command reads.
    pub(crate) fn read(&self) -> &[Bound] {
        match self {
            Self::Dispatch { inputs, .. } => inputs,
            Self::Copy { from, .. } => std::slice::from_ref(from),
            Self::Fill { .. } => &[],
        }
    }
}

/// An executable of this driver.
pub(crate) fn own(executable: &dyn Executable) -> Result<&ClExecutable> {
    let exe = executable.as_any().downcast_ref::<ClExecutable>();
    exe.ok_or_else(|| Error::invalid("the executable belongs to another device"))
}

impl Bound {
    /// A binding whose range has been checked.
    fn of(binding: &Binding, shared: &Arc<Shared>) -> Result<Self> {
        let buffer = binding.buffer.as_any().downcast_ref::<ClBuffer>();
        let buffer = buffer.ok_or_else(|| Error::invalid("a buffer of another device"))?;
        if !buffer.is_of(shared) {
            return Err(Error::invalid("a buffer of another device, or from before a reset; allocate it again"));
        }
        Ok(Self { buffer: Arc::clone(&binding.buffer), offset: binding.offset, len: binding.len })
    }

    /// The buffer as what it is.
    pub(crate) fn buffer(&self) -> Result<&ClBuffer> {
        let buffer = self.buffer.as_any().downcast_ref::<ClBuffer>();
        buffer.ok_or_else(|| Error::invalid("a buffer of another device"))
    }
}
