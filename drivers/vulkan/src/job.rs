//! A submission, checked and recorded, ready to be handed to the device.

use crate::buffer::VulkanBuffer;
use crate::engine::Core;
use crate::executable::VulkanExecutable;
use crate::fence::VulkanFence;
use crate::gpu::{Few, Gpu};
use crate::moves;
use crate::record::Commands;
use ash::vk;
use ottava_gpu::engine::{Profiles, check_bindings, check_copy, check_distinct, check_range};
use ottava_hal::device::Command;
use ottava_hal::{Binding, Buffer, Error, Executable, Fence, Result, TensorType};
use std::sync::Arc;
use std::time::Instant;

/// A part of a buffer of this device.
#[derive(Clone)]
pub(crate) struct Part {
    buffer: Arc<dyn Buffer>,
    raw: vk::Buffer,
    pub id: u64,
    pub offset: usize,
    pub len: usize,
}

/// One command, recorded, with what it uses.
pub(crate) struct Work {
    pub commands: Arc<Commands>,
    /// What the commands touch; the outputs are the last.
    pub parts: Few<Part>,
    pub outputs: usize,
    pub executable: Option<Arc<dyn Executable>>,
}

/// Timelines with values.
pub(crate) type Points = Few<(Arc<VulkanFence>, u64)>;

/// A submission in a queue.
pub(crate) struct Job {
    pub id: u64,
    pub lane: usize,
    pub works: smallvec::SmallVec<[Work; 2]>,
    pub waits: Points,
    pub signals: Points,
    pub deadline: Option<Instant>,
    pub profile: Option<Arc<Profiles>>,
    /// Injected faults have been looked at.
    pub struck: bool,
    /// It starts no sooner (an injected delay).
    pub not_before: Option<Instant>,
    /// A bit of its result is flipped (an injected fault); its signals wait for that.
    pub flip: Option<u64>,
}

impl Job {
    /// `None` while something is awaited; else whether all came. A job with a deadline waits for values that are
    /// reached, any other also for those that the device will bring.
    pub(crate) fn outcome(&self) -> Option<Result<()>> {
        for (fence, value) in &self.waits {
            match fence.outlook(*value) {
                Some(Ok(false)) => {}
                Some(Ok(true)) if self.deadline.is_none() => {}
                Some(Err(e)) => return Some(Err(e)),
                _ => return None,
            }
        }
        Some(Ok(()))
    }

    /// Tells everyone how it ended.
    pub(crate) fn finish(&self, result: &Result<()>) {
        for (fence, value) in &self.signals {
            match result {
                Ok(()) => fence.reach(*value),
                Err(e) => fence.break_off(e.clone()),
            }
        }
    }

    /// Flips one bit of what the last command writes.
    pub(crate) fn flip_bit(&self, seed: u64) -> Result<()> {
        let to = self.works.last().and_then(|w| w.parts[w.parts.len() - w.outputs..].iter().find(|p| p.len > 0));
        let Some(to) = to else { return Ok(()) };
        let bit = seed % (to.len as u64 * 8);
        let (at, mut byte) = (to.offset + (bit / 8) as usize, [0]);
        to.buffer.read(at, &mut byte)?;
        byte[0] ^= 1 << (bit % 8);
        to.buffer.write(at, &byte)
    }
}

/// The timelines of a submission as those of this device.
pub(crate) fn points(list: &[(Arc<dyn Fence>, u64)], gpu: &Arc<Gpu>) -> Result<Points> {
    let own = |(fence, value): &(Arc<dyn Fence>, u64)| {
        let foreign = || Error::invalid("a timeline of another device, or from before a reset; make it on this device");
        let found = find_fence(fence).filter(|f| f.is_of(gpu)).ok_or_else(foreign)?;
        Ok((found, *value))
    };
    list.iter().map(own).collect()
}

fn find_fence(fence: &Arc<dyn Fence>) -> Option<Arc<VulkanFence>> {
    fence.as_any().downcast_ref::<VulkanFence>()?.myself()
}

impl Work {
    /// Checks a command and finds or makes its recording.
    pub(crate) fn new(core: &Core, lane: usize, command: &Command, timed: bool) -> Result<Self> {
        let gpu = &core.gpu;
        match command {
            Command::Dispatch { executable, inputs, outputs } => {
                let exe = own_executable(executable.as_ref(), gpu)?;
                let ins = parts(inputs, exe.inputs(), "input", gpu)?;
                let outs = parts(outputs, exe.outputs(), "output", gpu)?;
                check_distinct(inputs, outputs)?;
                let commands = if timed { exe.timed(lane, &ins, &outs) } else { exe.recording(lane, &ins, &outs) }?;
                let executable = Some(Arc::clone(executable));
                Ok(Self { commands, outputs: outs.len(), parts: ins.into_iter().chain(outs).collect(), executable })
            }
            Command::Copy { from, to } => {
                check_copy(from, to)?;
                let (from, to) = (Part::of(from, gpu)?, Part::of(to, gpu)?);
                let key = (lane, [(from.id, from.offset), (to.id, to.offset)], to.len, None);
                let commands = core.moves.lock().get_or(key, || moves::copied(gpu, &from, &to).map(Arc::new))?;
                Ok(Self { commands, parts: [from, to].into_iter().collect(), outputs: 1, executable: None })
            }
            Command::Fill { to, pattern } => {
                let to = Part::of(to, gpu)?;
                let key = (lane, [(to.id, to.offset); 2], to.len, Some(*pattern));
                let make = || moves::filled(gpu, &core.scratch[lane], &to, *pattern).map(Arc::new);
                let commands = core.moves.lock().get_or(key, make)?;
                Ok(Self { commands, parts: [to].into_iter().collect(), outputs: 1, executable: None })
            }
        }
    }
}

/// What a recorded copy or fill is known by: lane, buffers and offsets, length, pattern of a fill.
pub(crate) type MoveKey = (usize, [(u64, usize); 2], usize, Option<u32>);

impl Part {
    fn of(binding: &Binding, gpu: &Arc<Gpu>) -> Result<Self> {
        let buffer = binding.buffer.as_any().downcast_ref::<VulkanBuffer>();
        let buffer = buffer.filter(|b| Arc::ptr_eq(b.gpu(), gpu));
        let foreign = || Error::invalid("a buffer of another device, or from before a reset; allocate it again");
        let buffer = buffer.ok_or_else(foreign)?;
        check_range(binding)?;
        let (id, raw) = (buffer.id, buffer.raw());
        Ok(Self { buffer: Arc::clone(&binding.buffer), raw, id, offset: binding.offset, len: binding.len })
    }

    /// Handle, first byte, and the bytes that commands may touch there: whole words, which every buffer has.
    pub(crate) fn place(&self) -> (vk::Buffer, u64, u64) {
        (self.raw, self.offset as u64, (self.len as u64).next_multiple_of(4))
    }
}

fn own_executable<'e>(executable: &'e dyn Executable, gpu: &Arc<Gpu>) -> Result<&'e VulkanExecutable> {
    let exe = executable.as_any().downcast_ref::<VulkanExecutable>();
    let foreign = || Error::invalid("an executable of another device, or from before a reset; compile it again");
    exe.filter(|e| Arc::ptr_eq(e.gpu(), gpu)).ok_or_else(foreign)
}

/// The bindings of one side, checked, as parts.
fn parts(bindings: &[Binding], types: &[TensorType], what: &str, gpu: &Arc<Gpu>) -> Result<Few<Part>> {
    let alignment = usize::try_from(gpu.found.traits.alignment).unwrap_or(usize::MAX);
    check_bindings(bindings, types, what, alignment)?;
    let one = |(i, b)| Part::of(b, gpu).map_err(|e| Error::invalid(format!("{what} {i}: {e}")));
    bindings.iter().enumerate().map(one).collect()
}
