//! `ottava-runtime`: runs a [`Plan`](ottava_plan::Plan) on devices.
//!
//! A [`Runner`] compiles each partition on its device once. Every inference borrows a [`context`] from a pool: its
//! buffers, queues and timelines. Contexts are independent, so several inferences run at the same time; after the first
//! few runs nothing but the returned outputs is allocated, and no lock is held while a device works.
//!
//! A value that stays on one device is one buffer there. A value that crosses devices is copied through host memory; the
//! copy shows in the profile as `copy`. Partitions whose shapes only a run decides go through
//! [`Executable::run_dynamic`](ottava_hal::Executable::run_dynamic) with host tensors.
//!
//! Invariant: nothing of graphs or file formats is known here; a plan is enough to run.

pub mod context;
mod runner;

pub use runner::{PartitionTime, RunOptions, RunReport, Runner};
