//! Buffers: bytes under a lock, counted against the device's memory.

use crate::{Behaviour, Core};
use ottava_hal::host::HostMemory;
use ottava_hal::{Binding, Buffer, BufferDesc, Error, Result, Status};
use parking_lot::RwLock;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where the bytes are.
enum Storage {
    Owned(Vec<u8>),
    Lent(Box<dyn HostMemory>),
}

/// A buffer of the device.
pub struct FaultyBuffer {
    pub(crate) core: Arc<Core>,
    pub(crate) generation: u64,
    storage: RwLock<Storage>,
    /// Size in bytes.
    pub size: usize,
    /// Bytes of the device's memory that it counts for.
    pub counted: u64,
}

impl FaultyBuffer {
    /// A buffer of zeros that counts for `counted` bytes of the device's memory.
    pub fn owned(core: &Arc<Core>, size: usize, counted: u64) -> Result<Self> {
        let mut bytes = Vec::new();
        let no_memory = |_| Error::failed(Status::OutOfHostMemory, format!("cannot allocate {size} bytes"));
        bytes.try_reserve_exact(size).map_err(no_memory)?;
        bytes.resize(size, 0);
        Ok(Self::of(core, Storage::Owned(bytes), size, counted))
    }

    /// A buffer of the caller's memory.
    pub fn lent(core: &Arc<Core>, memory: Box<dyn HostMemory>) -> Self {
        let size = memory.bytes().len();
        Self::of(core, Storage::Lent(memory), size, 0)
    }

    fn of(core: &Arc<Core>, storage: Storage, size: usize, counted: u64) -> Self {
        let generation = core.generation();
        Self { core: Arc::clone(core), generation, storage: RwLock::new(storage), size, counted }
    }

    fn behaviour(&self) -> &Behaviour {
        &self.core.behaviour
    }

    /// The device's part.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Whether the memory is the caller's.
    pub fn is_lent(&self) -> bool {
        matches!(*self.storage.read(), Storage::Lent(_))
    }

    /// Takes the bytes away, whoever owns them.
    pub fn take(&self) -> Box<dyn std::any::Any> {
        Box::new(std::mem::replace(&mut *self.storage.write(), Storage::Owned(Vec::new())))
    }

    /// A range that is inside.
    pub fn range(&self, offset: usize, len: usize) -> Result<Range<usize>> {
        let end = offset.checked_add(len).filter(|&e| e <= self.size);
        let outside = || Error::invalid(format!("bytes {offset}+{len} are outside a buffer of {}", self.size));
        Ok(offset..end.ok_or_else(outside)?)
    }

    /// Shows all bytes.
    pub fn see<T>(&self, see: impl FnOnce(&[u8]) -> T) -> T {
        match &*self.storage.read() {
            Storage::Owned(bytes) => see(bytes),
            Storage::Lent(memory) => see(memory.bytes()),
        }
    }

    /// Lends all bytes.
    pub fn change<T>(&self, change: impl FnOnce(&mut [u8]) -> T) -> T {
        match &mut *self.storage.write() {
            Storage::Owned(bytes) => change(bytes),
            Storage::Lent(memory) => change(memory.bytes_mut()),
        }
    }
}

impl Drop for FaultyBuffer {
    fn drop(&mut self) {
        (self.core.behaviour.free)(self);
    }
}

impl Buffer for FaultyBuffer {
    fn len(&self) -> usize {
        (self.behaviour().len)(self)
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        (self.behaviour().read)(self, offset, to)
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        (self.behaviour().write)(self, offset, from)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Zeroed memory, if the device has enough.
pub(crate) fn alloc(core: &Arc<Core>, desc: &BufferDesc) -> Result<FaultyBuffer> {
    if !desc.alignment.is_power_of_two() {
        return Err(Error::invalid(format!("alignment {} is not a power of two", desc.alignment)));
    }
    core.take_memory(desc.bytes as u64)?;
    FaultyBuffer::owned(core, desc.bytes, desc.bytes as u64).inspect_err(|_| {
        core.used.fetch_sub(desc.bytes as u64, Ordering::Relaxed);
    })
}

/// Whether memory of the caller can be used.
pub(crate) fn import_ok(bytes: &[u8], desc: &BufferDesc) -> Result<()> {
    if bytes.len() != desc.bytes {
        return Err(Error::invalid(format!("{} bytes are lent, {} are described", bytes.len(), desc.bytes)));
    }
    if bytes.as_ptr().align_offset(8) != 0 {
        return Err(Error::invalid("imported memory is not aligned to 8 bytes"));
    }
    Ok(())
}

/// Gives the memory back.
pub(crate) fn free(buffer: &FaultyBuffer) {
    buffer.core.used.fetch_sub(buffer.counted, Ordering::Relaxed);
}

/// Size in bytes.
pub(crate) fn len(buffer: &FaultyBuffer) -> usize {
    buffer.size
}

/// Copies from the buffer.
pub(crate) fn read(buffer: &FaultyBuffer, offset: usize, to: &mut [u8]) -> Result<()> {
    let range = buffer.range(offset, to.len())?;
    buffer.see(|bytes| to.copy_from_slice(&bytes[range]));
    Ok(())
}

/// Copies into the buffer.
pub(crate) fn write(buffer: &FaultyBuffer, offset: usize, from: &[u8]) -> Result<()> {
    let range = buffer.range(offset, from.len())?;
    buffer.change(|bytes| bytes[range].copy_from_slice(from));
    Ok(())
}

/// The buffer of a binding that was checked.
pub fn of(binding: &Binding) -> Result<&FaultyBuffer> {
    let foreign = || Error::invalid("a buffer of another device");
    binding.buffer.as_any().downcast_ref::<FaultyBuffer>().ok_or_else(foreign)
}

/// Copies between parts of buffers that do not overlap.
pub(crate) fn copy(from: &Binding, to: &Binding) -> Result<()> {
    let mut bytes = vec![0; from.len];
    read(of(from)?, from.offset, &mut bytes)?;
    write(of(to)?, to.offset, &bytes)
}

/// Fills a part with a pattern.
pub(crate) fn fill(to: &Binding, pattern: u32) -> Result<()> {
    let pattern = pattern.to_le_bytes();
    let bytes: Vec<u8> = pattern.iter().copied().cycle().take(to.len).collect();
    write(of(to)?, to.offset, &bytes)
}
