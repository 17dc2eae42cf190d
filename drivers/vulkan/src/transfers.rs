//! Data between host and buffers that the host cannot reach: through a staging buffer, at once, in the caller's thread.

use crate::gpu::Gpu;
use crate::memory::{Memory, Use};
use crate::record::Commands;
use ash::vk;
use ottava_hal::{Error, Result, Status};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the staging buffer.
const STAGING_BYTES: usize = 4 << 20;

/// The staging buffer of a device; one transfer at a time uses it.
pub(crate) struct Transfers {
    gpu: Arc<Gpu>,
    staging: Mutex<Option<Staging>>,
}

struct Staging {
    gpu: Arc<Gpu>,
    memory: Memory,
    at: NonNull<u8>,
    done: vk::Semaphore,
    count: u64,
}

// SAFETY: the pointer is into the staging buffer's own memory and is used under the lock only.
unsafe impl Send for Staging {}

impl Transfers {
    /// Transfers of a device; the staging buffer is made by the first.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Arc<Self> {
        Arc::new(Self { gpu: Arc::clone(gpu), staging: Mutex::new(None) })
    }

    /// Copies into a buffer. The range has been checked.
    pub(crate) fn write(&self, to: vk::Buffer, offset: u64, from: &[u8]) -> Result<()> {
        self.each(from.len(), |staging, range| {
            let (begin, part) = (range.start as u64, &from[range]);
            // SAFETY: the staging buffer has room for a part, and nobody else uses it.
            unsafe { staging.at.as_ptr().copy_from_nonoverlapping(part.as_ptr(), part.len()) };
            let source = staging.memory.buffer;
            staging.run(|raw, commands| {
                let region = vk::BufferCopy { src_offset: 0, dst_offset: offset + begin, size: part.len() as u64 };
                // SAFETY: commands are being recorded; both ranges are inside their buffers.
                unsafe { raw.cmd_copy_buffer(commands, source, to, &[region]) };
            })
        })
    }

    /// Copies from a buffer. The range has been checked.
    pub(crate) fn read(&self, from: vk::Buffer, offset: u64, to: &mut [u8]) -> Result<()> {
        self.each(to.len(), |staging, range| {
            let (begin, part) = (range.start as u64, &mut to[range]);
            let target = staging.memory.buffer;
            staging.run(|raw, commands| {
                let region = vk::BufferCopy { src_offset: offset + begin, dst_offset: 0, size: part.len() as u64 };
                // SAFETY: commands are being recorded; both ranges are inside their buffers.
                unsafe { raw.cmd_copy_buffer(commands, from, target, &[region]) };
            })?;
            // SAFETY: the copy is done; the part fits the staging buffer.
            unsafe { part.as_mut_ptr().copy_from_nonoverlapping(staging.at.as_ptr(), part.len()) };
            Ok(())
        })
    }

    /// Sets a whole buffer to 0.
    pub(crate) fn clear(&self, to: vk::Buffer) -> Result<()> {
        self.each(1, |staging, _| {
            staging.run(|raw, commands| {
                // SAFETY: commands are being recorded; a whole buffer is always in range.
                unsafe { raw.cmd_fill_buffer(commands, to, 0, vk::WHOLE_SIZE, 0) };
            })
        })
    }

    /// Calls `f` for parts that fit the staging buffer.
    fn each(&self, len: usize, mut f: impl FnMut(&mut Staging, std::ops::Range<usize>) -> Result<()>) -> Result<()> {
        let mut held = self.staging.lock();
        let staging = match &mut *held {
            Some(staging) => staging,
            none => none.insert(Staging::new(&self.gpu)?),
        };
        let mut begin = 0;
        while begin < len {
            let end = len.min(begin + STAGING_BYTES);
            f(staging, begin..end)?;
            begin = end;
        }
        Ok(())
    }
}

impl Staging {
    fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let memory = Memory::new(gpu, STAGING_BYTES as u64, Use::Staging)?;
        let unmapped = || Error::failed(Status::Internal, "the staging buffer is not mapped");
        let at = memory.mapped().ok_or_else(unmapped)?;
        Ok(Self { gpu: Arc::clone(gpu), memory, at, done: gpu.timeline(0)?, count: 0 })
    }

    /// Records, submits and waits.
    fn run(&mut self, record: impl FnOnce(&ash::Device, vk::CommandBuffer)) -> Result<()> {
        let gpu = Arc::clone(&self.gpu);
        let commands = Commands::record(&gpu, |raw, commands| {
            record(raw, commands);
            Ok(())
        })?;
        self.count += 1;
        gpu.submit(0, &[commands.buffer], &[], &[(self.done, self.count)])?;
        // Without a limit: whatever holds the device ends, or the device is lost.
        while !gpu.wait(&[self.done], &[self.count], Duration::from_secs(3600))? {}
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // SAFETY: every transfer has been waited for.
        unsafe { self.gpu.raw.destroy_semaphore(self.done, None) };
    }
}
