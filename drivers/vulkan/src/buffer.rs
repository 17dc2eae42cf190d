//! Buffers of the contract: mapped, staged, or memory that the host lent.

use crate::gpu::Gpu;
use crate::memory::{Memory, Use};
use crate::transfers::Transfers;
use ash::vk;
use ottava_hal::host::HostMemory;
use ottava_hal::{Buffer, BufferDesc, Error, Result};
use parking_lot::RwLock;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

/// So many bytes are faster copied by the device and read from the copy than read through no cache.
const MANY_BYTES: usize = 16 << 10;

/// How the host gets at the bytes.
enum Host {
    /// Where the bytes are, and what reads many of them where the mapping is slow to read.
    Mapped(NonNull<u8>, Option<Arc<Transfers>>),
    Staged(Arc<Transfers>),
    Lent(Box<dyn HostMemory>),
}

// SAFETY: the pointer is into memory that the buffer owns; the lock around it orders the host's accesses, fences those
// of the device.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

/// A buffer of a device.
pub(crate) struct VulkanBuffer {
    /// Unique on its device, and never used again.
    pub id: u64,
    // Lent memory is given back after the device has let go of it: fields are dropped in this order.
    memory: Memory,
    host: RwLock<Host>,
    len: usize,
}

impl VulkanBuffer {
    /// Allocates zeroed memory.
    pub(crate) fn new(gpu: &Arc<Gpu>, transfers: &Arc<Transfers>, desc: &BufferDesc, staged: bool) -> Result<Self> {
        let purpose = if staged { Use::Device } else { Use::Data };
        let memory = Memory::new(gpu, desc.bytes as u64, purpose)?;
        let host = match memory.mapped() {
            Some(at) => {
                // SAFETY: the mapping has the buffer's size, and nobody else knows it.
                unsafe { at.as_ptr().write_bytes(0, memory.bytes as usize) };
                Host::Mapped(at, (!memory.cached).then(|| Arc::clone(transfers)))
            }
            None => {
                transfers.clear(memory.buffer)?;
                Host::Staged(Arc::clone(transfers))
            }
        };
        Ok(Self { id: gpu.next_id(), host: RwLock::new(host), memory, len: desc.bytes })
    }

    /// Uses memory that the host lends, where it lies.
    pub(crate) fn lent(gpu: &Arc<Gpu>, mut lent: Box<dyn HostMemory>) -> Result<Self> {
        let bytes = lent.bytes_mut();
        let (start, len) = (bytes.as_mut_ptr(), bytes.len());
        if len == 0 {
            return Err(Error::invalid("memory without bytes cannot be imported"));
        }
        // SAFETY: whoever lends memory keeps it where it is as long as the buffer lives, which holds it.
        let memory = unsafe { Memory::import(gpu, start, len)? };
        Ok(Self { id: gpu.next_id(), host: RwLock::new(Host::Lent(lent)), memory, len })
    }

    /// The device's handle.
    pub(crate) fn raw(&self) -> vk::Buffer {
        self.memory.buffer
    }

    /// The device.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        self.memory.gpu()
    }

    fn check(&self, offset: usize, len: usize) -> Result<()> {
        let end = offset.checked_add(len).filter(|&e| e <= self.len);
        let outside = || Error::invalid(format!("bytes {offset}+{len} are outside a buffer of {}", self.len));
        end.map(drop).ok_or_else(outside)
    }
}

impl Buffer for VulkanBuffer {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.check(offset, to.len())?;
        match &*self.host.read() {
            Host::Mapped(_, Some(transfers)) if to.len() >= MANY_BYTES => transfers.read(self.raw(), offset as u64, to),
            Host::Mapped(at, _) => {
                // SAFETY: the range is inside the mapping; the lock keeps writers of the host away, and the caller
                // reads only what a fence has said to be finished.
                unsafe { to.as_mut_ptr().copy_from_nonoverlapping(at.as_ptr().add(offset), to.len()) };
                Ok(())
            }
            Host::Staged(transfers) => transfers.read(self.raw(), offset as u64, to),
            Host::Lent(memory) => {
                to.copy_from_slice(&memory.bytes()[offset..offset + to.len()]);
                Ok(())
            }
        }
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.check(offset, from.len())?;
        match &mut *self.host.write() {
            Host::Mapped(at, _) => {
                // SAFETY: the range is inside the mapping; the lock is held for writing.
                unsafe { at.as_ptr().add(offset).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
                Ok(())
            }
            Host::Staged(transfers) => transfers.write(self.raw(), offset as u64, from),
            Host::Lent(memory) => {
                memory.bytes_mut()[offset..offset + from.len()].copy_from_slice(from);
                Ok(())
            }
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
