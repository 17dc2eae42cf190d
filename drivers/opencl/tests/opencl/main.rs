//! The OpenCL driver on whatever OpenCL device the machine has; without one every test says that it was skipped.

mod cases;
mod common;
