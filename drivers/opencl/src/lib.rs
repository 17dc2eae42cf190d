//! `ottava-driver-opencl`: devices that speak OpenCL.

mod driver;

pub use driver::OpenCLDriver;
