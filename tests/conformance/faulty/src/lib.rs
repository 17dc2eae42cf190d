//! `ottava-faulty`: a driver with one switchable defect, so that the conformance suite can be shown to catch it.
//!
//! Without a defect it is a complete asynchronous driver: the interpreter of the reference behind a worker thread, with
//! timelines, memory limits, saved executables and test hooks. It passes every case. The option `fault` names one of
//! [`DEFECTS`], and the driver is wrong in exactly that.
//!
//! How: every decision of the driver is one function pointer of [`Behaviour`]; [`Behaviour::right`] has the right ones.
//! A defect is a wrong function in the place of a right one, and a line in the table of its kind (`defects`) with the
//! case that must catch it and a word that the case's first message must contain.
//!
//! | file | has |
//! |---|---|
//! | `behaviour` | the decisions |
//! | `driver`, `device`, `memory`, `fence`, `queue`, `executable`, `blob` | the driver |
//! | `core` | the worker thread |
//! | `defects` | what can be wrong, one file per kind |
//!
//! Invariant: the driver's own files know no defect; a defect knows nothing of the suite but the name of its case.

mod behaviour;
mod blob;
mod core;
pub mod defects;
mod device;
mod driver;
mod executable;
mod fence;
mod memory;
mod queue;

pub use crate::core::{Core, Job};
pub use behaviour::Behaviour;
pub use defects::library::{LIBRARY_DEFECTS, LibraryDefect, Make};
pub use defects::{DEFECTS, Defect};
pub use device::FaultyDevice;
pub use driver::FaultyDriver;
pub use executable::Compiled;
pub use fence::FaultyFence;
pub use memory::FaultyBuffer;

ottava_plugin::export_driver!("faulty", FaultyDriver::with_options);
