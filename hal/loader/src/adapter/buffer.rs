//! Memory of a device.
//!
//! Where the device can work in imported host memory, a buffer is a block of the host's memory: reading and writing are
//! plain copies. Otherwise the driver allocates, and each read or write maps a range.
//!
//! Whoever submits work waits for its fence before touching the buffer; a program that does not sees torn bytes. Reads and
//! writes of several host threads are ordered by a lock of the buffer.

use super::device::Shared;
use ottava_abi::types::Buffer as RawBuffer;
use ottava_abi::{BufferDescV1, map_mode, usage};
use ottava_hal::host::HostMemory;
use ottava_hal::{Buffer, BufferDesc, Error, Reason, Result, Status};
use parking_lot::RwLock;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

/// Everything that the host does with a buffer.
const USAGE: u64 = usage::INPUT | usage::OUTPUT | usage::CONST | usage::SCRATCH | usage::BRIDGE;

/// A block of host memory.
struct Block {
    ptr: *mut u8,
    layout: Layout,
}

impl Block {
    fn new(bytes: usize, alignment: usize) -> Result<Self> {
        let no_memory = || Error::failed(Status::OutOfHostMemory, format!("cannot allocate {bytes} bytes"));
        // Whole units of the alignment, at least one: devices may touch the padding, and no block is empty.
        let size = bytes.max(1).checked_next_multiple_of(alignment).ok_or_else(no_memory)?;
        let layout = Layout::from_size_align(size, alignment).map_err(|_| no_memory())?;
        // SAFETY: the size is not 0.
        let ptr = unsafe { alloc_zeroed(layout) };
        if ptr.is_null() { Err(no_memory()) } else { Ok(Self { ptr, layout }) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout, and its owner has given the buffer over it back before.
        unsafe { dealloc(self.ptr, self.layout) };
    }
}

/// Where the bytes are, for the host.
enum Access {
    /// At this address, as long as the owner is alive.
    Host { ptr: *mut u8, _owner: Owner },
    /// Nowhere, unless a range is mapped.
    Mapped,
}

/// Who owns imported memory; dropped after the buffer is given back.
#[allow(dead_code)] // The variants are held, never read.
enum Owner {
    Block(Block),
    Lent(Box<dyn HostMemory>),
}

/// A buffer; the handle is given back when it is dropped.
pub(crate) struct AbiBuffer {
    shared: Arc<Shared>,
    raw: *mut RawBuffer,
    len: usize,
    generation: u32,
    lock: RwLock<()>,
    access: Access,
}

// SAFETY: the handle is used only with the driver's thread-safe functions, the host's address only under the lock.
unsafe impl Send for AbiBuffer {}
// SAFETY: as above.
unsafe impl Sync for AbiBuffer {}

impl Drop for AbiBuffer {
    fn drop(&mut self) {
        // SAFETY: the driver returned the handle, and this is the only place that gives it back. Submissions in flight hold
        // the whole buffer (see `retained`), so the memory below is not in use any more.
        unsafe { (self.shared.table().buffer_release)(self.shared.raw, self.raw) };
    }
}

/// The driver's own message about imports is no error: the adapter allocates instead.
fn cannot_import(e: &Error) -> bool {
    e.status() == Status::Unsupported
}

fn describe(shared: &Shared, desc: &BufferDesc) -> Result<BufferDescV1> {
    if !desc.alignment.is_power_of_two() {
        return Err(Error::invalid(format!("the alignment {} of a buffer is no power of two", desc.alignment)));
    }
    let max = shared.info.max_buffer;
    if max != 0 && desc.bytes as u64 > max {
        let what = format!("device `{}` has buffers of at most {max} bytes, {} are wanted", shared.info.id, desc.bytes);
        return Err(Error::unsupported(Reason::Memory, what));
    }
    Ok(BufferDescV1 {
        bytes: desc.bytes as u64,
        memory_type: shared.memory.index,
        alignment: desc.alignment.max(shared.memory.alignment) as u64,
        usage: USAGE,
        ..BufferDescV1::blank()
    })
}

impl AbiBuffer {
    /// Memory filled with zeros.
    pub fn alloc(shared: &Arc<Shared>, desc: &BufferDesc) -> Result<Self> {
        let raw_desc = describe(shared, desc)?;
        if shared.memory.import {
            let block = Block::new(desc.bytes, raw_desc.alignment as usize)?;
            let ptr = block.ptr;
            // SAFETY: the block holds at least as many bytes and outlives the buffer, which owns it.
            let imported = unsafe { import(shared, ptr, desc.bytes, &raw_desc) };
            match imported {
                Ok(raw) => {
                    return Ok(Self::new(shared, raw, desc.bytes, Access::Host { ptr, _owner: Owner::Block(block) }));
                }
                Err(e) if cannot_import(&e) => tracing::debug!("{e}; memory is allocated by the driver instead"),
                Err(e) => return Err(e),
            }
        }
        let mut raw = std::ptr::null_mut();
        shared.call("alloc", |device, err| {
            // SAFETY: the description is valid during the call; the result is checked before it is used.
            unsafe { (shared.table().alloc)(device, &raw_desc, &mut raw, err) }
        })?;
        if raw.is_null() {
            return Err(shared.broken("alloc", "OK without a buffer"));
        }
        Ok(Self::new(shared, raw, desc.bytes, Access::Mapped))
    }

    /// Memory of the caller.
    pub fn import(shared: &Arc<Shared>, mut memory: Box<dyn HostMemory>, desc: &BufferDesc) -> Result<Self> {
        let raw_desc = describe(shared, desc)?;
        let bytes = memory.bytes_mut();
        let (ptr, len) = (bytes.as_mut_ptr(), bytes.len());
        if len != desc.bytes {
            return Err(Error::invalid(format!("{len} bytes are lent for a buffer of {}", desc.bytes)));
        }
        if !(ptr.addr() as u64).is_multiple_of(raw_desc.alignment) {
            let what = format!("the lent memory is not aligned to {} bytes", raw_desc.alignment);
            return Err(Error::invalid(format!("{what}, which device `{}` needs", shared.info.id)));
        }
        // SAFETY: the memory always is this range and outlives the buffer, which owns it from here on.
        let raw = unsafe { import(shared, ptr, len, &raw_desc)? };
        Ok(Self::new(shared, raw, len, Access::Host { ptr, _owner: Owner::Lent(memory) }))
    }

    fn new(shared: &Arc<Shared>, raw: *mut RawBuffer, len: usize, access: Access) -> Self {
        let generation = shared.health.generation();
        Self { shared: shared.clone(), raw, len, generation, lock: RwLock::default(), access }
    }

    /// Whether it was made with this device.
    pub fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// The handle, while it is valid.
    pub fn handle(&self) -> Result<*mut RawBuffer> {
        self.shared.health.check_object(self.generation, "buffer")?;
        Ok(self.raw)
    }

    /// An error if a range is outside.
    pub fn check_range(&self, offset: usize, len: usize) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(Error::invalid(format!("bytes {offset}+{len} are outside a buffer of {}", self.len))),
        }
    }

    /// Calls `f` with the host's address of a range.
    fn with_range(&self, offset: usize, len: usize, mode: u32, f: impl FnOnce(*mut u8)) -> Result<()> {
        self.check_range(offset, len)?;
        let raw = self.handle()?;
        if len == 0 {
            return Ok(());
        }
        if let Access::Host { ptr, .. } = &self.access {
            self.shared.health.check()?;
            // SAFETY: the range is inside the memory that the buffer owns.
            f(unsafe { ptr.add(offset) });
            return Ok(());
        }
        let mut address: *mut c_void = std::ptr::null_mut();
        self.shared.call("map", |device, err| {
            let (offset, len) = (offset as u64, len as u64);
            // SAFETY: the buffer is alive, the range is inside; the result is checked before it is used.
            unsafe { (self.shared.table().map)(device, raw, offset, len, mode, &mut address, err) }
        })?;
        if address.is_null() {
            return Err(self.shared.broken("map", "OK without an address"));
        }
        f(address.cast());
        self.shared.call("unmap", |device, err| {
            // SAFETY: the buffer is alive and mapped.
            unsafe { (self.shared.table().unmap)(device, raw, err) }
        })
    }
}

/// Imports `len` bytes at `ptr`.
///
/// # Safety
/// The memory is valid for reading and writing until the buffer is given back and its work is done.
unsafe fn import(shared: &Shared, ptr: *mut u8, len: usize, desc: &BufferDescV1) -> Result<*mut RawBuffer> {
    let mut raw = std::ptr::null_mut();
    shared.call("import_host", |device, err| {
        // SAFETY: the memory is valid as the caller says, the description during the call; the result is checked below.
        unsafe { (shared.table().import_host)(device, ptr.cast(), len as u64, desc, &mut raw, err) }
    })?;
    if raw.is_null() { Err(shared.broken("import_host", "OK without a buffer")) } else { Ok(raw) }
}

impl Buffer for AbiBuffer {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.shared.timelines.check()?;
        // Ranges of a mapped buffer are mapped one at a time.
        let (_shared, _alone) = match self.access {
            Access::Host { .. } => (Some(self.lock.read()), None),
            Access::Mapped => (None, Some(self.lock.write())),
        };
        // SAFETY: the address is valid for as many bytes, which `to` has; nobody writes to them under the lock.
        self.with_range(offset, to.len(), map_mode::READ, |p| unsafe {
            std::ptr::copy_nonoverlapping(p.cast_const(), to.as_mut_ptr(), to.len());
        })
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        let _alone = self.lock.write();
        // SAFETY: the address is valid for as many bytes, which `from` has; nobody else touches them under the lock.
        self.with_range(offset, from.len(), map_mode::WRITE, |p| unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), p, from.len());
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_zeroed_and_never_empty() {
        for (bytes, alignment) in [(0, 64), (1, 4096), (100, 1)] {
            let block = Block::new(bytes, alignment).unwrap();
            assert_eq!(block.ptr.addr() % alignment, 0);
            assert!(block.layout.size() >= bytes.max(1));
            // SAFETY: the block has at least one byte.
            assert_eq!(unsafe { *block.ptr }, 0);
        }
        assert!(Block::new(usize::MAX, 64).is_err());
        assert!(Block::new(isize::MAX as usize, 1).is_err());
    }
}
