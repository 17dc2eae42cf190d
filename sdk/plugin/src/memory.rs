//! Buffers: memory that host and device share where the device works in host memory, copies elsewhere.
//!
//! On a native device `alloc` allocates here and lends the memory to the driver, as `import_host` lends the host's. Both
//! know the address, so `map` is free. A buffer of another device has no address; `map` reads into a copy and `unmap`
//! writes it back.

use crate::device::{DeviceHandle, hand_out, handle, on_device, release};
use crate::guard::{check_out, read};
use ottava_abi::{Buffer, BufferDescV1, Device, ErrorV1, map_mode};
use ottava_hal::device::LinkMode;
use ottava_hal::host::HostMemory;
use ottava_hal::{BufferDesc, Error, Result, Status};
use parking_lot::Mutex;
use std::alloc::Layout;
use std::ffi::c_void;
use std::sync::Arc;

/// Alignment that every buffer has at least: a cache line.
const MIN_ALIGNMENT: usize = 64;

/// A buffer of a device.
pub(crate) struct BufferHandle {
    pub(crate) buffer: Arc<dyn ottava_hal::Buffer>,
    /// Where the bytes are, if the device works in host memory.
    shared: Option<Arc<Block>>,
    mapped: Mutex<Option<Mapping>>,
}

/// What is mapped.
struct Mapping {
    offset: usize,
    mode: u32,
    /// The copy, if the buffer has no address. 8-byte words give the alignment.
    copy: Option<(Vec<u64>, usize)>,
}

/// A range of host memory, allocated here or lent by the host.
struct Block {
    ptr: *mut u8,
    len: usize,
    /// How it was allocated; `None` if it is the host's.
    layout: Option<Layout>,
}

// SAFETY: a block is plain memory; who may touch it when is the contract of buffers.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: it was allocated with this layout and nobody refers to it any more.
            unsafe { std::alloc::dealloc(self.ptr, layout) };
        }
    }
}

impl Block {
    /// Zeroed memory.
    fn allocate(desc: &BufferDesc) -> Result<Self> {
        let layout = Layout::from_size_align(desc.bytes.max(1), desc.alignment)
            .map_err(|_| Error::invalid(format!("{} bytes aligned to {}", desc.bytes, desc.alignment)))?;
        // SAFETY: the layout has at least one byte.
        let ptr = unsafe { std::alloc::alloc_zeroed(layout) };
        if ptr.is_null() {
            let what = format!("no memory for a buffer of {} bytes", desc.bytes);
            return Err(Error::failed(Status::OutOfHostMemory, what));
        }
        Ok(Self { ptr, len: desc.bytes, layout: Some(layout) })
    }
}

/// A block as the driver sees it.
struct Lent(Arc<Block>);

impl HostMemory for Lent {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the block lives as long as this; the host does not write while the driver reads (the contract of map).
        unsafe { std::slice::from_raw_parts(self.0.ptr, self.0.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the one `Lent` of a block is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.0.ptr, self.0.len) }
    }
}

fn share(d: &DeviceHandle, block: Block, desc: &BufferDesc) -> Result<BufferHandle> {
    let block = Arc::new(block);
    let buffer = d.device.import_host(Box::new(Lent(Arc::clone(&block))), desc)?;
    Ok(BufferHandle { buffer, shared: Some(block), mapped: Mutex::new(None) })
}

fn description(d: &DeviceHandle, desc: &BufferDescV1) -> Result<BufferDesc> {
    if desc.memory_type != 0 {
        return Err(Error::invalid(format!("memory type {}; the device has one, number 0", desc.memory_type)));
    }
    let number = |n: u64, what: &str| usize::try_from(n).map_err(|_| Error::invalid(format!("{what} is {n}")));
    let (bytes, wanted) = (number(desc.bytes, "bytes")?, number(desc.alignment, "alignment")?);
    if wanted != 0 && !wanted.is_power_of_two() {
        return Err(Error::invalid(format!("alignment {wanted} is no power of two")));
    }
    Ok(BufferDesc { bytes, alignment: wanted.max(d.device.info().alignment).max(MIN_ALIGNMENT) })
}

pub(crate) unsafe extern "C" fn alloc(
    device: *mut Device,
    desc: *const BufferDescV1,
    out: *mut *mut Buffer,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        check_out(out, "out")?;
        // SAFETY: the host passes NULL or a description.
        let desc = description(d, &unsafe { read(desc, "desc")? })?;
        let shared = match d.device.info().link.mode {
            LinkMode::Native => match share(d, Block::allocate(&desc)?, &desc) {
                // A native driver that does not take memory allocates its own.
                Err(Error::Unsupported { .. }) => None,
                other => Some(other?),
            },
            _ => None,
        };
        let own = || Ok(BufferHandle { buffer: d.device.alloc(&desc)?, shared: None, mapped: Mutex::new(None) });
        hand_out(out, shared.map_or_else(own, Ok)?);
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("alloc", device, err, body) }
}

pub(crate) unsafe extern "C" fn import_host(
    device: *mut Device,
    ptr: *mut c_void,
    len: u64,
    desc: *const BufferDescV1,
    out: *mut *mut Buffer,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        check_out(out, "out")?;
        // SAFETY: the host passes NULL or a description.
        let desc = description(d, &unsafe { read(desc, "desc")? })?;
        if ptr.is_null() || len != desc.bytes as u64 || desc.bytes > isize::MAX as usize {
            return Err(Error::invalid(format!("{len} bytes at {ptr:p} for a buffer of {}", desc.bytes)));
        }
        let block = Block { ptr: ptr.cast(), len: desc.bytes, layout: None };
        hand_out(out, share(d, block, &desc)?);
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("import_host", device, err, body) }
}

pub(crate) unsafe extern "C" fn buffer_release(_device: *mut Device, buffer: *mut Buffer) {
    // SAFETY: the host releases a buffer once and does not use it again.
    unsafe { release::<_, BufferHandle>("buffer_release", buffer) };
}

pub(crate) unsafe extern "C" fn map(
    device: *mut Device,
    buffer: *mut Buffer,
    off: u64,
    len: u64,
    mode: u32,
    out: *mut *mut c_void,
    err: *mut ErrorV1,
) -> i32 {
    let body = |_: &DeviceHandle| {
        check_out(out, "out")?;
        // SAFETY: the host passes NULL or a buffer of this device.
        let buffer: &BufferHandle = unsafe { handle(buffer, "buffer")? };
        let ptr = buffer.map(off, len, mode)?;
        // SAFETY: checked above.
        unsafe { out.write(ptr.cast()) };
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("map", device, err, body) }
}

pub(crate) unsafe extern "C" fn unmap(device: *mut Device, buffer: *mut Buffer, err: *mut ErrorV1) -> i32 {
    let body = |_: &DeviceHandle| {
        // SAFETY: the host passes NULL or a buffer of this device.
        let buffer: &BufferHandle = unsafe { handle(buffer, "buffer")? };
        buffer.unmap()
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("unmap", device, err, body) }
}

impl BufferHandle {
    fn map(&self, off: u64, len: u64, mode: u32) -> Result<*mut u8> {
        let size = self.buffer.len();
        let end = off.checked_add(len).filter(|end| *end <= size as u64);
        if end.is_none() {
            return Err(Error::invalid(format!("bytes {off}+{len} are outside a buffer of {size}")));
        }
        if !matches!(mode, map_mode::READ | map_mode::WRITE | map_mode::READ_WRITE) {
            return Err(Error::invalid(format!("map mode {mode}")));
        }
        let (offset, len) = (off as usize, len as usize);
        let mut mapped = self.mapped.lock();
        if mapped.is_some() {
            return Err(Error::invalid("the buffer is mapped already; unmap it first"));
        }
        if let Some(block) = &self.shared {
            *mapped = Some(Mapping { offset, mode, copy: None });
            // SAFETY: the offset is inside the block, which is as long as the buffer.
            return Ok(unsafe { block.ptr.add(offset) });
        }
        let mut words = ottava_hal::Tensor::buffer::<u64>(len.div_ceil(8).max(1))?;
        words.resize(len.div_ceil(8).max(1), 0);
        if mode & map_mode::READ != 0 {
            self.buffer.read(offset, bytes_of(&mut words, len))?;
        }
        let ptr = words.as_mut_ptr().cast();
        *mapped = Some(Mapping { offset, mode, copy: Some((words, len)) });
        Ok(ptr)
    }

    fn unmap(&self) -> Result<()> {
        let mapping = self.mapped.lock().take().ok_or_else(|| Error::invalid("the buffer is not mapped"))?;
        match mapping.copy {
            Some((mut words, len)) if mapping.mode & map_mode::WRITE != 0 => {
                self.buffer.write(mapping.offset, bytes_of(&mut words, len))
            }
            _ => Ok(()),
        }
    }
}

/// The first `len` bytes of words.
fn bytes_of(words: &mut [u64], len: usize) -> &mut [u8] {
    let len = len.min(size_of_val(words));
    // SAFETY: the words are that many bytes at least, and every byte is a value.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), len) }
}
