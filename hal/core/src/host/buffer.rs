//! Buffers in host memory: owned, or memory of the caller that a device was handed.

use crate::{Buffer, BufferDesc, Error, Result, Status};
use parking_lot::RwLock;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Memory that someone else owns and lends to a buffer; see [`crate::Device::import_host`].
pub trait HostMemory: Send + Sync {
    /// The bytes; always the same range of memory.
    fn bytes(&self) -> &[u8];

    /// The same bytes for writing.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// Where the bytes of a buffer are.
pub(super) enum Storage {
    Owned { words: Vec<u64>, len: usize },
    Lent(Box<dyn HostMemory>),
}

impl Storage {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Owned { words, len } => &bytemuck::cast_slice::<u64, u8>(words)[..*len],
            Self::Lent(memory) => memory.bytes(),
        }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Owned { words, len } => &mut bytemuck::cast_slice_mut::<u64, u8>(words)[..*len],
            Self::Lent(memory) => memory.bytes_mut(),
        }
    }
}

/// A buffer in host memory, aligned to 64 bytes or less as the allocator gives (8 at least).
pub struct HostBuffer {
    pub(super) storage: RwLock<Storage>,
    len: usize,
}

impl HostBuffer {
    /// Allocates zeroed memory.
    pub fn new(desc: &BufferDesc) -> Result<Self> {
        let n_words = desc.bytes.div_ceil(8);
        let mut words = Vec::new();
        let no_memory = |_| Error::failed(Status::OutOfHostMemory, format!("cannot allocate {} bytes", desc.bytes));
        words.try_reserve_exact(n_words).map_err(no_memory)?;
        words.resize(n_words, 0);
        Ok(Self { storage: RwLock::new(Storage::Owned { words, len: desc.bytes }), len: desc.bytes })
    }

    /// Uses memory of the caller, which must be aligned to 8 bytes.
    pub fn lent(memory: Box<dyn HostMemory>) -> Result<Self> {
        let bytes = memory.bytes();
        if !bytes.as_ptr().cast::<u64>().is_aligned() {
            return Err(Error::invalid("imported memory is not aligned to 8 bytes"));
        }
        let len = bytes.len();
        Ok(Self { storage: RwLock::new(Storage::Lent(memory)), len })
    }

    pub(super) fn range(&self, offset: usize, len: usize) -> Result<Range<usize>> {
        let end = offset.checked_add(len).filter(|&e| e <= self.len);
        let outside = || Error::invalid(format!("bytes {offset}+{len} are outside a buffer of {}", self.len));
        Ok(offset..end.ok_or_else(outside)?)
    }

    /// Shows the bytes of a range to `f` while the buffer is locked for reading.
    pub fn with_bytes<T>(&self, offset: usize, len: usize, f: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let range = self.range(offset, len)?;
        Ok(f(&self.storage.read().bytes()[range]))
    }

    /// Lends the bytes of a range to `f` while the buffer is locked for writing.
    pub fn with_bytes_mut<T>(&self, offset: usize, len: usize, f: impl FnOnce(&mut [u8]) -> T) -> Result<T> {
        let range = self.range(offset, len)?;
        Ok(f(&mut self.storage.write().bytes_mut()[range]))
    }
}

impl Buffer for HostBuffer {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.with_bytes(offset, to.len(), |bytes| to.copy_from_slice(bytes))
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.with_bytes_mut(offset, from.len(), |bytes| bytes.copy_from_slice(from))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Allocates a [`HostBuffer`]; what [`crate::Device::alloc`] of a host device returns.
pub fn alloc(desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
    Ok(Arc::new(HostBuffer::new(desc)?))
}

/// Wraps memory of the caller; what [`crate::Device::import_host`] of a host device returns.
pub fn import(memory: Box<dyn HostMemory>) -> Result<Arc<dyn Buffer>> {
    Ok(Arc::new(HostBuffer::lent(memory)?))
}
