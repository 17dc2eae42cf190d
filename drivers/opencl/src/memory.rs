//! Memory objects: what OpenCL counts, released when it is dropped.

use crate::status::failed;
use opencl3::context::Context;
use opencl3::memory::{
    CL_BUFFER_CREATE_TYPE_REGION, cl_buffer_region, cl_mem, cl_mem_flags, create_buffer, create_sub_buffer,
    release_mem_object,
};
use ottava_hal::Result;
use std::ffi::c_void;
use std::ptr;

/// A memory object.
#[derive(Debug)]
pub(crate) struct Mem(cl_mem);

// SAFETY: memory objects may be used and released from any thread (OpenCL 1.2, appendix A.2).
unsafe impl Send for Mem {}
// SAFETY: as above; what is shared is only a handle.
unsafe impl Sync for Mem {}

impl Mem {
    /// A buffer of at least one byte. The caller keeps `host` alive as long as the flags need it.
    pub(crate) fn new(context: &Context, flags: cl_mem_flags, bytes: usize, host: *mut c_void) -> Result<Self> {
        // SAFETY: the context lives; `host` is null or fits the flags and the size, as every caller in this crate says.
        let made = unsafe { create_buffer(context.get(), flags, bytes.max(1), host) };
        made.map(Self).map_err(|e| failed(&format!("no buffer of {bytes} bytes"), e))
    }

    /// Bytes of a buffer as a memory object of its own. The offset is a multiple of the device's alignment.
    pub(crate) fn part(&self, offset: usize, bytes: usize) -> Result<Self> {
        let region = cl_buffer_region { origin: offset, size: bytes };
        // SAFETY: `self` is a buffer, the region is read during the call; one outside the buffer is an error.
        let made = unsafe {
            create_sub_buffer(self.0, 0, CL_BUFFER_CREATE_TYPE_REGION, ptr::from_ref(&region).cast::<c_void>())
        };
        made.map(Self).map_err(|e| failed(&format!("bytes {offset}+{bytes} of a buffer"), e))
    }

    /// The handle; it lives as long as `self`.
    pub(crate) fn raw(&self) -> cl_mem {
        self.0
    }
}

impl Drop for Mem {
    fn drop(&mut self) {
        // SAFETY: the object was made here and is released once. The implementation keeps it until enqueued commands
        // are done.
        if let Err(code) = unsafe { release_mem_object(self.0) } {
            tracing::warn!(code, "an OpenCL buffer could not be released");
        }
    }
}
