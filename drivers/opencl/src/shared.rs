//! What the device and everything made by it share: the context, programs, and a queue for transfers.

use crate::memory::Mem;
use crate::options::Settings;
use crate::probe::Found;
use crate::program::Programs;
use crate::status::failed;
use opencl3::command_queue::{
    CL_QUEUE_PROFILING_ENABLE, CommandQueue, create_command_queue, enqueue_copy_buffer, enqueue_fill_buffer,
    enqueue_map_buffer, enqueue_marker_with_wait_list, enqueue_read_buffer, enqueue_unmap_mem_object,
    enqueue_write_buffer, finish,
};
use opencl3::context::Context;
use opencl3::event::Event;
use opencl3::memory::{CL_MAP_READ, CL_MAP_WRITE_INVALIDATE_REGION, cl_mem};
use ottava_hal::Result;
use std::ffi::c_void;
use std::ptr;

/// OpenCL's objects of an open device.
pub(crate) struct Shared {
    pub context: Context,
    pub found: Found,
    pub programs: Programs,
    /// Reads and writes by the host.
    transfers: CommandQueue,
}

impl Shared {
    /// Opens a device.
    pub(crate) fn open(found: Found, settings: &Settings) -> Result<Self> {
        let programs = Programs::new(&found, settings);
        let context = Context::from_device(&found.device).map_err(|e| failed("no OpenCL context", e))?;
        let transfers = queue(&context, &found)?;
        Ok(Self { context, found, programs, transfers })
    }

    /// A new in-order queue with event times.
    pub(crate) fn queue(&self) -> Result<CommandQueue> {
        queue(&self.context, &self.found)
    }

    /// Reads bytes that the caller has checked to be inside.
    pub(crate) fn read(&self, mem: &Mem, offset: usize, to: &mut [u8]) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let (queue, data) = (self.transfers.get(), to.as_mut_ptr().cast::<c_void>());
        // SAFETY: the call blocks until `to.len()` bytes are at `data`; a range outside the buffer is an error.
        let event = unsafe { enqueue_read_buffer(queue, mem.raw(), 1, offset, to.len(), data, 0, ptr::null()) };
        event.map(|e| drop(Event::new(e))).map_err(|e| failed("a read of a buffer", e))
    }

    /// Writes bytes that the caller has checked to be inside.
    pub(crate) fn write(&self, mem: &Mem, offset: usize, from: &[u8]) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        let (queue, data) = (self.transfers.get(), from.as_ptr().cast::<c_void>());
        // SAFETY: the call blocks until the bytes at `data` have been read; a range outside the buffer is an error.
        let event = unsafe { enqueue_write_buffer(queue, mem.raw(), 1, offset, from.len(), data, 0, ptr::null()) };
        event.map(|e| drop(Event::new(e))).map_err(|e| failed("a write of a buffer", e))
    }

    /// Fills whole words of a new buffer with zeros.
    pub(crate) fn clear(&self, mem: &Mem, bytes: usize) -> Result<()> {
        drop(fill(&self.transfers, mem, &[0; 4], 0, bytes)?);
        finish(self.transfers.get()).map_err(|e| failed("a new buffer", e))
    }
}

/// Enqueues a fill with a pattern of 1, 2 or 4 bytes, of which offset and length are multiples.
pub(crate) fn fill(queue: &CommandQueue, to: &Mem, pattern: &[u8], offset: usize, bytes: usize) -> Result<Event> {
    let data = pattern.as_ptr().cast::<c_void>();
    // SAFETY: the pattern is copied by the call; a range outside the buffer is an error.
    let event =
        unsafe { enqueue_fill_buffer(queue.get(), to.raw(), data, pattern.len(), offset, bytes, 0, ptr::null()) };
    event.map(Event::new).map_err(|e| failed("a fill", e))
}

/// Enqueues a copy of at least one byte between ranges that do not overlap.
pub(crate) fn copy(queue: &CommandQueue, from: (cl_mem, usize), to: (cl_mem, usize), bytes: usize) -> Result<Event> {
    // SAFETY: both handles are those of living buffers; ranges outside them are an error.
    let event = unsafe { enqueue_copy_buffer(queue.get(), from.0, to.0, from.1, to.1, bytes, 0, ptr::null()) };
    event.map(Event::new).map_err(|e| failed("a copy", e))
}

/// Enqueues an event that ends with everything before it.
pub(crate) fn marker(queue: &CommandQueue) -> Result<Event> {
    // SAFETY: the list of events is empty.
    let event = unsafe { enqueue_marker_with_wait_list(queue.get(), 0, ptr::null()) };
    event.map(Event::new).map_err(|e| failed("a marker", e))
}

/// Enqueues the mapping of a whole buffer and its end: with `to_device` what the host has written becomes the buffer's
/// content, else the buffer's content becomes visible to the host.
pub(crate) fn exchange(queue: &CommandQueue, mem: &Mem, bytes: usize, to_device: bool) -> Result<[Event; 2]> {
    let flags = if to_device { CL_MAP_WRITE_INVALIDATE_REGION } else { CL_MAP_READ };
    let mut mapped = ptr::null_mut();
    // SAFETY: the range is the whole buffer, whose host memory lives as long as the buffer.
    let map = unsafe { enqueue_map_buffer(queue.get(), mem.raw(), 0, flags, 0, bytes, &mut mapped, 0, ptr::null()) };
    let map = Event::new(map.map_err(|e| failed("a mapping", e))?);
    // SAFETY: the pointer is that of the mapping just enqueued.
    let unmap = unsafe { enqueue_unmap_mem_object(queue.get(), mem.raw(), mapped, 0, ptr::null()) };
    Ok([map, Event::new(unmap.map_err(|e| failed("the end of a mapping", e))?)])
}

/// The call of OpenCL 1.2, which every later version has too.
fn queue(context: &Context, found: &Found) -> Result<CommandQueue> {
    // SAFETY: the device is the context's.
    let queue = unsafe { create_command_queue(context.get(), found.device.id(), CL_QUEUE_PROFILING_ENABLE) };
    queue.map(|q| CommandQueue::new(q, 3)).map_err(|e| failed("no command queue", e))
}
