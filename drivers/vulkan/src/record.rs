//! Recorded command buffers. Each has a pool of its own, so that recording and freeing need no lock.
//!
//! Every recording begins with a barrier that orders it behind all that was submitted to its lane before, and ends with
//! one that shows its results to the host. It may be submitted again while an earlier run of it is in flight.

use crate::gpu::Gpu;
use ash::vk;
use ottava_hal::Result;
use std::sync::Arc;

/// A recorded command buffer and what belongs to it.
pub(crate) struct Commands {
    gpu: Arc<Gpu>,
    pool: vk::CommandPool,
    pub buffer: vk::CommandBuffer,
    /// The pool of its descriptor sets; null where it has none.
    pub descriptors: vk::DescriptorPool,
    /// Its timestamps; null where it takes none.
    pub queries: vk::QueryPool,
}

const WORK: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);
const WRITES: vk::AccessFlags =
    vk::AccessFlags::from_raw(vk::AccessFlags::SHADER_WRITE.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw());
const READS: vk::AccessFlags =
    vk::AccessFlags::from_raw(vk::AccessFlags::SHADER_READ.as_raw() | vk::AccessFlags::TRANSFER_READ.as_raw());

impl Commands {
    /// Records what `f` says.
    pub(crate) fn record(
        gpu: &Arc<Gpu>,
        f: impl FnOnce(&ash::Device, vk::CommandBuffer) -> Result<()>,
    ) -> Result<Self> {
        let mut commands = Self::empty(gpu)?;
        commands.fill(f)?;
        Ok(commands)
    }

    /// Nothing yet.
    pub(crate) fn empty(gpu: &Arc<Gpu>) -> Result<Self> {
        let raw = &gpu.raw;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(gpu.found.traits.family);
        // SAFETY: the structure lives during the call.
        let pool = unsafe { raw.create_command_pool(&info, None) }.map_err(|e| gpu.error("a command pool", e))?;
        let mut commands = Self {
            gpu: Arc::clone(gpu),
            pool,
            buffer: vk::CommandBuffer::null(),
            descriptors: vk::DescriptorPool::null(),
            queries: vk::QueryPool::null(),
        };
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is this thread's.
        let made = unsafe { raw.allocate_command_buffers(&info) }.map_err(|e| gpu.error("a command buffer", e))?;
        commands.buffer = made.first().copied().unwrap_or_default();
        Ok(commands)
    }

    /// Records into it, once.
    pub(crate) fn fill(&mut self, f: impl FnOnce(&ash::Device, vk::CommandBuffer) -> Result<()>) -> Result<()> {
        let (gpu, buffer) = (&self.gpu, self.buffer);
        let raw = &gpu.raw;
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        // SAFETY: the command buffer is new and nobody else knows it.
        unsafe { raw.begin_command_buffer(buffer, &info) }.map_err(|e| gpu.error("a command buffer", e))?;
        barrier(raw, buffer);
        f(raw, buffer)?;
        let shown = vk::MemoryBarrier::default().src_access_mask(WRITES).dst_access_mask(vk::AccessFlags::HOST_READ);
        // SAFETY: the command buffer is being recorded.
        unsafe {
            let flags = vk::DependencyFlags::empty();
            raw.cmd_pipeline_barrier(buffer, WORK, vk::PipelineStageFlags::HOST, flags, &[shown], &[], &[]);
            raw.end_command_buffer(buffer).map_err(|e| gpu.error("a command buffer", e))
        }
    }
}

/// Orders what follows behind all that came before.
pub(crate) fn barrier(raw: &ash::Device, commands: vk::CommandBuffer) {
    let both = vk::MemoryBarrier::default().src_access_mask(WRITES).dst_access_mask(READS | WRITES);
    // SAFETY: the command buffer is being recorded.
    unsafe { raw.cmd_pipeline_barrier(commands, WORK, WORK, vk::DependencyFlags::empty(), &[both], &[], &[]) };
}

/// Copies bytes from one buffer to another; the ranges are inside and do not overlap.
pub(crate) fn copy(
    raw: &ash::Device,
    commands: vk::CommandBuffer,
    from: (vk::Buffer, u64),
    to: (vk::Buffer, u64),
    len: u64,
) {
    if len == 0 {
        return;
    }
    let region = vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size: len };
    // SAFETY: the command buffer is being recorded; the caller has checked the ranges.
    unsafe { raw.cmd_copy_buffer(commands, from.0, to.0, &[region]) };
}

impl Drop for Commands {
    fn drop(&mut self) {
        // SAFETY: submissions hold their recordings, so it is not in flight; null handles are ignored.
        unsafe {
            self.gpu.raw.destroy_query_pool(self.queries, None);
            self.gpu.raw.destroy_descriptor_pool(self.descriptors, None);
            self.gpu.raw.destroy_command_pool(self.pool, None);
        }
    }
}
