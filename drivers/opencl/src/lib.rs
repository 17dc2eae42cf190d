//! `ottava-driver-opencl`: devices that speak OpenCL 1.2 to 3.0, through `libOpenCL` that is looked for at run time.
//!
//! [`OpenCLDriver`] lists the devices of every platform; none is a valid answer, and why there is none is logged and
//! part of the error of `open`. What runs on a device is `ottava-gpu`'s: operators become recipes of launches, and its
//! engine is the queue.
//!
//! Reading order:
//!
//! 1. `probe`, `options`: which devices there are and what each offers; what the application chooses;
//! 2. `memory`, `shared`, `buffer`: memory objects, the context and its transfers, the contract's buffers;
//! 3. `program`, `cache`: kernels built per variant and kept on disk;
//! 4. `executable`, `instance`: a recipe with its constants; an arena and kernel objects that know their arguments;
//! 5. `job`, `run`, `backend`: checked commands, how they get onto a queue, how their end is noticed;
//! 6. `selftest`, `device`, `driver`, `status`.
//!
//! Invariants: a queue's commands are enqueued by one thread and run in order; the call-back of the last event tells the
//! end, and nothing blocks for it; a kernel is given only buffers that are as large as its recipe says; a run that binds
//! what the one before it bound sets no argument and allocates no device memory; objects from before a reset are
//! refused.
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
mod selftest;
mod shared;
mod status;

pub use device::OpenCLDevice;
pub use driver::OpenCLDriver;
