//! Buffers of the device with memory of their own.
//!
//! Every buffer can be read, written and copied by commands, and has whole words: its size is rounded up. What the host
//! can reach stays mapped as long as the buffer lives.

use crate::gpu::Gpu;
use crate::ledger::Reservation;
use ash::vk;
use ottava_hal::{Error, Reason, Result, Status};
use std::ptr::NonNull;
use std::sync::Arc;

type Flags = vk::MemoryPropertyFlags;

/// What a buffer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Only commands touch it.
    Device,
    /// Inputs and outputs: mapped where the host reaches the device's main memory.
    Data,
    /// The host writes or reads what commands copy.
    Staging,
}

/// A buffer with its memory.
pub(crate) struct Memory {
    gpu: Arc<Gpu>,
    pub buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: Option<NonNull<u8>>,
    /// The host reads mapped bytes through its caches, that is, fast.
    pub cached: bool,
    pub bytes: u64,
    _reservation: Option<Reservation>,
}

// SAFETY: the pointer is to memory that belongs to this object; who reads or writes through it says why that is no race.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Size of the buffer for so many bytes: whole words, not empty.
fn rounded(bytes: u64) -> Result<u64> {
    let too_large = || Error::failed(Status::OutOfDeviceMemory, format!("no device has {bytes} bytes"));
    Ok(bytes.checked_next_multiple_of(16).ok_or_else(too_large)?.max(16))
}

impl Memory {
    /// Allocates; the bytes may be anything.
    pub(crate) fn new(gpu: &Arc<Gpu>, bytes: u64, purpose: Use) -> Result<Self> {
        let bytes = rounded(bytes)?;
        let most = gpu.found.traits.max_allocation;
        if bytes > most {
            let what = format!("{bytes} bytes wanted, the device's largest buffer has {most}");
            return Err(Error::failed(Status::OutOfDeviceMemory, what));
        }
        let reservation = gpu.ledger.reserve(bytes)?;
        let mut memory = Self::unbound(gpu, bytes, None)?;
        memory._reservation = Some(reservation);
        // SAFETY: a query of a living buffer.
        let needs = unsafe { gpu.raw.get_buffer_memory_requirements(memory.buffer) };
        let (kind, map) = choose(gpu, needs.memory_type_bits, purpose)?;
        let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind);
        memory.allocate(&info)?;
        memory.bind(0)?;
        memory.cached = gpu.memory.memory_types[kind as usize].property_flags.contains(Flags::HOST_CACHED);
        if map {
            memory.map()?;
        }
        Ok(memory)
    }

    /// Uses memory of the host where it lies, if the device can.
    ///
    /// # Safety
    /// The range is memory of this process that stays where it is as long as the buffer lives.
    pub(crate) unsafe fn import(gpu: &Arc<Gpu>, start: *mut u8, len: usize) -> Result<Self> {
        let id = &gpu.found.id;
        let refuse = |what: &str| Error::unsupported(Reason::Memory, format!("device `{id}` cannot use {what}"));
        let (Some(import), Some(page)) = (&gpu.import, gpu.found.traits.import) else {
            return Err(refuse("host memory where it lies"));
        };
        // The device is handed whole pages; it touches only the bytes that are bound.
        let page = usize::try_from(page).map_err(|_| refuse("host memory: its pages are too large"))?;
        let before = start.addr() & (page - 1);
        let total = before.checked_add(len).and_then(|n| n.checked_next_multiple_of(page)).filter(|n| *n > 0);
        let total = total.ok_or_else(|| refuse("a range of that size"))?;
        let base = start.wrapping_sub(before);
        let kind = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let mut of_host = vk::MemoryHostPointerPropertiesEXT::default();
        // SAFETY: the extension is enabled; the pointer is to memory of this process.
        let known = unsafe {
            (import.fp().get_memory_host_pointer_properties_ext)(import.device(), kind, base.cast(), &mut of_host)
        };
        known.result().map_err(|e| refuse(&format!("this memory of the host: {e}")))?;
        let mut memory = Self::unbound(gpu, rounded(len as u64)?.min((total - before) as u64), Some(kind))?;
        // SAFETY: a query of a living buffer.
        let needs = unsafe { gpu.raw.get_buffer_memory_requirements(memory.buffer) };
        let mask = of_host.memory_type_bits & needs.memory_type_bits;
        let coherent = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let kind_of_memory = gpu.memory_type(mask, coherent, Flags::HOST_CACHED);
        let kind_of_memory = kind_of_memory.ok_or_else(|| refuse("memory of this kind where it lies"))?;
        let fits = (before as u64).is_multiple_of(needs.alignment) && before as u64 + needs.size <= total as u64;
        if !fits {
            return Err(refuse(&format!("memory that is not aligned to {} bytes", needs.alignment)));
        }
        let mut pointer = vk::ImportMemoryHostPointerInfoEXT::default().handle_type(kind).host_pointer(base.cast());
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(total as u64)
            .memory_type_index(kind_of_memory)
            .push_next(&mut pointer);
        memory.allocate(&info).map_err(|e| refuse(&format!("this memory of the host: {e}")))?;
        memory.bind(before as u64)?;
        Ok(memory)
    }

    fn unbound(gpu: &Arc<Gpu>, bytes: u64, from: Option<vk::ExternalMemoryHandleTypeFlags>) -> Result<Self> {
        type Usage = vk::BufferUsageFlags;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(from.unwrap_or_default());
        let mut info = vk::BufferCreateInfo::default()
            .size(bytes)
            .usage(Usage::STORAGE_BUFFER | Usage::TRANSFER_SRC | Usage::TRANSFER_DST)
            .sharing_mode(vk::SharingMode::EXCLUSIVE);
        if from.is_some() {
            info = info.push_next(&mut external);
        }
        // SAFETY: the structures live during the call.
        let buffer = unsafe { gpu.raw.create_buffer(&info, None) }.map_err(|e| gpu.error("a buffer", e))?;
        let memory = vk::DeviceMemory::null();
        Ok(Self { gpu: Arc::clone(gpu), buffer, memory, mapped: None, cached: false, bytes, _reservation: None })
    }

    fn allocate(&mut self, info: &vk::MemoryAllocateInfo<'_>) -> Result<()> {
        // SAFETY: type and size are those that the device asked for.
        let memory = unsafe { self.gpu.raw.allocate_memory(info, None) };
        self.memory = memory.map_err(|e| self.gpu.error(&format!("{} bytes of memory", self.bytes), e))?;
        Ok(())
    }

    fn bind(&self, offset: u64) -> Result<()> {
        // SAFETY: both are of this device and unbound; the offset has the alignment that the buffer asked for.
        let bound = unsafe { self.gpu.raw.bind_buffer_memory(self.buffer, self.memory, offset) };
        bound.map_err(|e| self.gpu.error("memory of a buffer", e))
    }

    fn map(&mut self) -> Result<()> {
        // SAFETY: the memory is of a type that the host reaches and is mapped once.
        let at = unsafe { self.gpu.raw.map_memory(self.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
        self.mapped = NonNull::new(at.map_err(|e| self.gpu.error("memory of a buffer", e))?.cast());
        Ok(())
    }

    /// Where the host reaches the bytes.
    pub(crate) fn mapped(&self) -> Option<NonNull<u8>> {
        self.mapped
    }

    /// The device.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }
}

/// The type of memory, and whether it is mapped.
fn choose(gpu: &Gpu, mask: u32, purpose: Use) -> Result<(u32, bool)> {
    let reached = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
    let none = || Error::failed(Status::OutOfDeviceMemory, "the device has no memory of the wanted kind");
    if purpose == Use::Staging {
        let kind = gpu.memory_type(mask, reached, Flags::HOST_CACHED);
        return kind.map(|k| (k, true)).ok_or_else(none);
    }
    if purpose == Use::Data
        && let Some(kind) = gpu.memory_type(mask, reached | Flags::DEVICE_LOCAL, Flags::HOST_CACHED)
        && is_main(gpu, kind)
    {
        return Ok((kind, true));
    }
    let kind = gpu.memory_type(mask, Flags::empty(), Flags::DEVICE_LOCAL);
    kind.map(|k| (k, false)).ok_or_else(none)
}

/// Whether a type lies in the device's largest memory: a small window through which the host sees a part of it does not.
fn is_main(gpu: &Gpu, kind: u32) -> bool {
    let heap = gpu.memory.memory_types[kind as usize].heap_index as usize;
    gpu.memory.memory_heaps[heap].size >= gpu.found.traits.memory
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: submissions hold what they use, so none uses the buffer any more; freeing memory unmaps it.
        unsafe {
            self.gpu.raw.destroy_buffer(self.buffer, None);
            self.gpu.raw.free_memory(self.memory, None);
        }
    }
}
