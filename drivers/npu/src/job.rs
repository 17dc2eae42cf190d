//! A submission, checked and ready to run.

use crate::buffer::{Generation, NpuBuffer};
use crate::executable::{Clock, NpuExecutable};
use crate::fence::Waits;
use ottava_hal::device::{Command, NodeTime, Profile};
use ottava_hal::{Binding, Buffer, Error, Executable, Fence, Result, TensorType};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Profiles that nobody has taken are dropped beyond this number, oldest first.
const KEPT_PROFILES: usize = 64;

/// Profiles of a queue's finished submissions.
#[derive(Default)]
pub(crate) struct Profiles(Mutex<VecDeque<(u64, Profile)>>);

impl Profiles {
    /// Keeps a profile.
    pub(crate) fn put(&self, id: u64, profile: Profile) {
        let mut kept = self.0.lock();
        if kept.len() == KEPT_PROFILES {
            kept.pop_front();
        }
        kept.push_back((id, profile));
    }

    /// Takes a profile.
    pub(crate) fn take(&self, id: u64) -> Option<Profile> {
        let mut kept = self.0.lock();
        let i = kept.iter().position(|(found, _)| *found == id)?;
        kept.remove(i).map(|(_, profile)| profile)
    }
}

/// A submission in a queue.
pub(crate) struct Job {
    pub id: u64,
    pub commands: Vec<Work>,
    pub waits: Arc<Waits>,
    pub signals: Vec<(Arc<dyn Fence>, u64)>,
    pub deadline: Option<Instant>,
    pub profile: Option<Arc<Profiles>>,
}

impl Job {
    /// Tells everyone how it ended.
    pub(crate) fn finish(&self, result: &Result<()>) {
        for (fence, value) in &self.signals {
            match result {
                // A timeline that someone else moved or failed keeps what it has.
                Ok(()) => drop(fence.signal(*value)),
                Err(e) => fence.fail(e.clone()),
            }
        }
    }
}

/// A part of a buffer of this device.
#[derive(Clone)]
pub(crate) struct Part {
    buffer: Arc<dyn Buffer>,
    offset: usize,
    len: usize,
}

/// A command whose objects are known to be of this device and to fit.
pub(crate) enum Work {
    Dispatch { executable: Arc<dyn Executable>, inputs: Vec<Part>, outputs: Vec<Part> },
    Copy { from: Part, to: Part },
    Fill { to: Part, pattern: u32 },
}

impl Work {
    /// Checks a command.
    pub(crate) fn check(command: &Command, generation: &Arc<Generation>) -> Result<Self> {
        match command {
            Command::Dispatch { executable, inputs, outputs } => {
                let exe = npu_executable(executable.as_ref(), generation)?;
                let ins = parts(inputs, exe.inputs(), "input", generation)?;
                let outs = parts(outputs, exe.outputs(), "output", generation)?;
                check_distinct(&ins, &outs)?;
                Ok(Self::Dispatch { executable: Arc::clone(executable), inputs: ins, outputs: outs })
            }
            Command::Copy { from, to } if from.len != to.len => {
                Err(Error::invalid(format!("a copy from {} bytes to {}", from.len, to.len)))
            }
            Command::Copy { from, to } => {
                Ok(Self::Copy { from: Part::of(from, generation)?, to: Part::of(to, generation)? })
            }
            Command::Fill { to, pattern } => Ok(Self::Fill { to: Part::of(to, generation)?, pattern: *pattern }),
        }
    }

    /// Runs the command; the modelled time it takes.
    pub(crate) fn run(&self, times: Option<&mut Vec<NodeTime>>, clock: Clock) -> Result<Duration> {
        match self {
            Self::Dispatch { executable, inputs, outputs } => {
                let exe = executable.as_any().downcast_ref::<NpuExecutable>();
                let exe = exe.ok_or_else(|| Error::invalid("the executable belongs to another device"))?;
                exe.run(inputs, outputs, times, clock).map(|cycles| exe.modelled(cycles))
            }
            Self::Copy { from, to } => {
                to.write(&from.read()?)?;
                Ok(Duration::ZERO)
            }
            Self::Fill { to, pattern } => {
                let pattern = pattern.to_le_bytes();
                to.host()?.with_bytes_mut(to.offset, to.len, |bytes| {
                    bytes.iter_mut().zip(pattern.iter().cycle()).for_each(|(b, p)| *b = *p);
                })?;
                Ok(Duration::ZERO)
            }
        }
    }

    /// Flips one bit of what the command writes, chosen by the seed.
    pub(crate) fn flip_bit(&self, seed: u64) -> Result<()> {
        let to = match self {
            Self::Dispatch { outputs, .. } => outputs.iter().find(|p| p.len > 0),
            Self::Copy { to, .. } | Self::Fill { to, .. } => Some(to),
        };
        let Some(to) = to.filter(|p| p.len > 0) else { return Ok(()) };
        let bit = seed % (to.len as u64 * 8);
        to.host()?.with_bytes_mut(to.offset, to.len, |bytes| bytes[(bit / 8) as usize] ^= 1 << (bit % 8))
    }
}

impl Part {
    fn of(binding: &Binding, generation: &Arc<Generation>) -> Result<Self> {
        let buffer = binding.buffer.as_any().downcast_ref::<NpuBuffer>();
        let buffer = buffer.ok_or_else(|| Error::invalid("a buffer of another device"))?;
        if !Arc::ptr_eq(&buffer.generation, generation) {
            return Err(Error::invalid("a buffer of another device, or from before a reset; allocate it again"));
        }
        let end = binding.offset.checked_add(binding.len).filter(|&e| e <= buffer.len());
        if end.is_none() {
            let (offset, len, has) = (binding.offset, binding.len, buffer.len());
            return Err(Error::invalid(format!("bytes {offset}+{len} are outside a buffer of {has}")));
        }
        Ok(Self { buffer: Arc::clone(&binding.buffer), offset: binding.offset, len: binding.len })
    }

    fn host(&self) -> Result<&ottava_hal::host::HostBuffer> {
        let buffer = self.buffer.as_any().downcast_ref::<NpuBuffer>();
        Ok(&buffer.ok_or_else(|| Error::invalid("a buffer of another device"))?.host)
    }

    /// A copy of the bytes.
    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        self.host()?.with_bytes(self.offset, self.len, <[u8]>::to_vec)
    }

    /// Copies the bytes to `to`, which has as many.
    pub(crate) fn read_into(&self, to: &mut [u8]) -> Result<()> {
        self.host()?.read(self.offset, to)
    }

    /// Writes the bytes.
    pub(crate) fn write(&self, from: &[u8]) -> Result<()> {
        self.host()?.write(self.offset, from)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let same = std::ptr::addr_eq(Arc::as_ptr(&self.buffer), Arc::as_ptr(&other.buffer));
        same && self.offset < other.offset + other.len && other.offset < self.offset + self.len
    }
}

fn npu_executable<'e>(executable: &'e dyn Executable, generation: &Arc<Generation>) -> Result<&'e NpuExecutable> {
    let exe = executable.as_any().downcast_ref::<NpuExecutable>();
    let foreign = || Error::invalid("an executable of another device, or from before a reset; compile it again");
    exe.filter(|e| Arc::ptr_eq(e.generation(), generation)).ok_or_else(foreign)
}

fn parts(bindings: &[Binding], types: &[TensorType], what: &str, generation: &Arc<Generation>) -> Result<Vec<Part>> {
    if bindings.len() != types.len() {
        let (found, expected) = (bindings.len(), types.len());
        return Err(Error::invalid(format!("{found} {what} bindings, the executable has {expected} {what}s")));
    }
    let one = |(i, (b, ty)): (usize, (&Binding, &TensorType))| {
        if ty.byte_len() != Some(b.len) {
            return Err(Error::invalid(format!("{what} {i}: {} bytes bound, {ty} needs {:?}", b.len, ty.byte_len())));
        }
        Part::of(b, generation).map_err(|e| Error::invalid(format!("{what} {i}: {e}")))
    };
    bindings.iter().zip(types).enumerate().map(one).collect()
}

/// An output does not overlap anything else that is bound.
fn check_distinct(ins: &[Part], outs: &[Part]) -> Result<()> {
    for (i, out) in outs.iter().enumerate() {
        if outs[i + 1..].iter().chain(ins).any(|other| other.overlaps(out)) {
            return Err(Error::invalid(format!("the memory of output {i} is bound twice; give it bytes of its own")));
        }
    }
    Ok(())
}
