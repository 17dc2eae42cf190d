//! `ottava-driver-opencl`: devices that speak OpenCL.
#![allow(unsafe_code)] // OpenCL is a C API; every block names its reason.

mod backend;
mod buffer;
mod cache;
mod device;
mod driver;
mod executable;
mod instance;
mod job;
mod memory;
mod options;
mod probe;
mod program;
mod run;
mod shared;
mod status;

pub use device::OpenCLDevice;
pub use driver::OpenCLDriver;
