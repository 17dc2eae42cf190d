//! Buffers of the device.

use crate::memory::Mem;
use crate::shared::{Shared, exchange};
use opencl3::command_queue::CommandQueue;
use opencl3::event::Event;
use opencl3::memory::{CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR};
use ottava_hal::host::HostMemory;
use ottava_hal::{Buffer, BufferDesc, Error, Reason, Result, Status};
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use std::any::Any;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Parts of a buffer that are kept as memory objects.
const KEPT_PARTS: usize = 8;

/// A part of a buffer with its offset and length.
type Part = (usize, usize, Arc<Mem>);

/// A buffer of the device.
pub(crate) struct ClBuffer {
    shared: Arc<Shared>,
    mem: Arc<Mem>,
    len: usize,
    /// Never used twice in a process, so that a binding can be known again.
    pub number: u64,
    /// Memory of the caller in which the buffer lies. Between submissions its bytes are the buffer's.
    lent: Option<RwLock<Box<dyn HostMemory>>>,
    /// Parts that were bound, the last used at the end.
    parts: Mutex<Vec<Part>>,
}

impl ClBuffer {
    /// Allocates zeroed memory, whole words of it.
    pub(crate) fn new(shared: &Arc<Shared>, desc: &BufferDesc) -> Result<Self> {
        let whole = desc.bytes.checked_next_multiple_of(4).map(|n| n.max(4));
        let limit = shared.found.traits.max_alloc;
        let whole = whole.filter(|&n| n as u64 <= limit).ok_or_else(|| {
            let what = format!("a buffer of {} bytes, the device's largest has {limit}", desc.bytes);
            Error::failed(Status::OutOfDeviceMemory, what)
        })?;
        let place = if shared.found.traits.unified { CL_MEM_ALLOC_HOST_PTR } else { 0 };
        let mem = Mem::new(&shared.context, CL_MEM_READ_WRITE | place, whole, ptr::null_mut())?;
        shared.clear(&mem, whole)?;
        Ok(Self::of(shared, mem, desc.bytes, None))
    }

    /// A buffer in memory of the caller.
    pub(crate) fn lent(shared: &Arc<Shared>, mut memory: Box<dyn HostMemory>) -> Result<Self> {
        let bytes = memory.bytes_mut();
        let (host, len) = (bytes.as_mut_ptr(), bytes.len());
        if len == 0 || !host.cast::<u32>().is_aligned() || len as u64 > shared.found.traits.max_alloc {
            let what = format!("{len} bytes at an address that the device cannot use as a buffer");
            return Err(Error::unsupported(Reason::Memory, what));
        }
        // The memory is always the same range and is dropped behind the memory object.
        let mem = Mem::new(&shared.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, len, host.cast())?;
        Ok(Self::of(shared, mem, len, Some(RwLock::new(memory))))
    }

    fn of(shared: &Arc<Shared>, mem: Mem, len: usize, lent: Option<RwLock<Box<dyn HostMemory>>>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        // Relaxed is enough: the number only has to be another one each time.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), mem: Arc::new(mem), len, number, lent, parts: Mutex::default() }
    }

    /// Whether the buffer belongs to this device.
    pub(crate) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// The whole buffer.
    pub(crate) fn mem(&self) -> &Arc<Mem> {
        &self.mem
    }

    /// A part of the buffer as a memory object; the offset is a multiple of the device's alignment.
    pub(crate) fn part(&self, offset: usize, len: usize) -> Result<Arc<Mem>> {
        if offset == 0 && len == self.len {
            return Ok(Arc::clone(&self.mem));
        }
        let mut parts = self.parts.lock();
        if let Some(i) = parts.iter().position(|p| (p.0, p.1) == (offset, len)) {
            let found = parts.remove(i);
            let mem = Arc::clone(&found.2);
            parts.push(found);
            return Ok(mem);
        }
        let mem = Arc::new(self.mem.part(offset, len.next_multiple_of(4).max(4))?);
        if parts.len() == KEPT_PARTS {
            parts.remove(0);
        }
        parts.push((offset, len, Arc::clone(&mem)));
        Ok(mem)
    }

    /// Enqueues what makes lent memory the device's, or the host's again; nothing for other buffers.
    pub(crate) fn exchange(&self, queue: &CommandQueue, to_device: bool) -> Result<SmallVec<[Event; 2]>> {
        match self.lent {
            Some(_) => Ok(exchange(queue, &self.mem, self.len, to_device)?.into()),
            None => Ok(SmallVec::new()),
        }
    }

    fn check(&self, offset: usize, len: usize) -> Result<()> {
        if offset.checked_add(len).is_some_and(|end| end <= self.len) {
            return Ok(());
        }
        Err(Error::invalid(format!("bytes {offset}+{len} are outside a buffer of {}", self.len)))
    }
}

impl Buffer for ClBuffer {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.check(offset, to.len())?;
        match &self.lent {
            Some(memory) => to.copy_from_slice(&memory.read().bytes()[offset..offset + to.len()]),
            None => self.shared.read(&self.mem, offset, to)?,
        }
        Ok(())
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.check(offset, from.len())?;
        match &self.lent {
            Some(memory) => memory.write().bytes_mut()[offset..offset + from.len()].copy_from_slice(from),
            None => self.shared.write(&self.mem, offset, from)?,
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
