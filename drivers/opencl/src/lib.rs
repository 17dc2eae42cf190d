//! `ottava-driver-opencl`: devices that speak OpenCL.
#![allow(unsafe_code)] // OpenCL is a C API; every block names its reason.

mod buffer;
mod device;
mod driver;
mod engine;
mod executable;
mod instance;
mod job;
mod memory;
mod options;
mod probe;
mod program;
mod queue;
mod run;
mod shared;
mod status;

pub use driver::OpenCLDriver;
