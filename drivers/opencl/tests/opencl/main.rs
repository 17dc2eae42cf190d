//! The OpenCL driver on whatever OpenCL device the machine has; without one every test says that it was skipped.

mod buffers;
mod caches;
mod cases;
mod common;
mod faults;
mod queues;
