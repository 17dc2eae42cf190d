//! What OpenCL's error codes are in the contract.

use opencl3::error_codes::{
    CL_DEVICE_NOT_AVAILABLE, CL_INVALID_BUFFER_SIZE, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY,
    CL_OUT_OF_RESOURCES, ClError,
};
use ottava_hal::{Error, Status};

/// An access outside memory, as one vendor reports it. The context is of no use afterwards.
const VENDOR_ILLEGAL_ACCESS: i32 = -9999;

/// A call that allocates or prepares something has failed.
pub(crate) fn failed(what: &str, code: impl Into<ClError>) -> Error {
    let code = code.into();
    let status = match code.0 {
        CL_OUT_OF_HOST_MEMORY => Status::OutOfHostMemory,
        CL_MEM_OBJECT_ALLOCATION_FAILURE | CL_INVALID_BUFFER_SIZE | CL_OUT_OF_RESOURCES => Status::OutOfDeviceMemory,
        CL_DEVICE_NOT_AVAILABLE | VENDOR_ILLEGAL_ACCESS => Status::DeviceLost,
        _ => Status::Internal,
    };
    Error::failed(status, format!("{what}: {code} ({})", code.0))
}

/// Work that was running has failed. Lack of resources then means that the device gave up: an access outside memory, or
/// a kernel that its watchdog has stopped.
pub(crate) fn run_failed(what: &str, code: i32) -> Error {
    match code {
        CL_OUT_OF_RESOURCES => {
            Error::failed(Status::DeviceLost, format!("{what}: {} ({code}) while it ran", ClError(code)))
        }
        _ => failed(what, ClError(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_the_statuses_of_the_contract() {
        let status = |code: i32| failed("x", ClError(code)).status();
        assert_eq!(status(CL_MEM_OBJECT_ALLOCATION_FAILURE), Status::OutOfDeviceMemory);
        assert_eq!(status(CL_OUT_OF_HOST_MEMORY), Status::OutOfHostMemory);
        assert_eq!(status(CL_DEVICE_NOT_AVAILABLE), Status::DeviceLost);
        assert_eq!(status(-1234), Status::Internal);
        assert_eq!(run_failed("x", CL_OUT_OF_RESOURCES).status(), Status::DeviceLost);
        assert_eq!(failed("x", ClError(CL_OUT_OF_RESOURCES)).status(), Status::OutOfDeviceMemory);
    }
}
