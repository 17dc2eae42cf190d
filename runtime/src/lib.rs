//! `ottava-runtime`: runs a [`Plan`](ottava_plan::Plan) on devices.
//!
//! A [`Runner`] compiles each partition on its device once, or loads it from a blob of the plan. An inference then goes
//! through these modules, which a newcomer reads in this order:
//!
//! 1. `script`, `flow`: the plan's steps as operations, and what must come before what;
//! 2. `context`, `memory`: what one inference owns: an arena per device, a queue and a timeline per device, prepared
//!    submissions;
//! 3. `execute`: the thread of the inference; `progress`: the state machine that it shares with the devices' fences;
//! 4. `admission`: how many run at a time, and the protocol when a device is lost; `heal`: what is done then;
//! 5. `report`, `trace`: where the time went.
//!
//! Work for asynchronous devices is submitted ahead; what it waits for outside its queue is a proxy timeline of that
//! device, signalled from the callback of whoever is waited for, so no thread blocks for a device. Work for devices
//! that run in the caller's thread, and copies, are done by the thread that runs the inference, without a hop. After
//! the first few runs nothing but the returned outputs is allocated, and no lock is held while a device works.
//!
//! A value that crosses devices is copied through host memory; the copy is a step of the plan and shows in the profile.
//! Partitions whose shapes only a run decides go through
//! [`Executable::run_dynamic`](ottava_hal::Executable::run_dynamic) with host tensors.
//!
//! Invariants: nothing of graphs or file formats is known here; a plan is enough to run. Every wait ends at the
//! deadline of its inference, if it has one. Everything that depends on a failed step fails with it.

mod admission;
mod blobs;
mod compiled;
mod context;
mod execute;
mod flow;
mod guard;
mod heal;
mod lanes;
mod load_error;
mod memory;
mod options;
mod pending;
mod progress;
mod report;
mod runner;
mod script;
mod shown;
mod sync;
mod trace;
mod workers;

pub use heal::{Event, Recovery};
pub use load_error::LoadError;
pub use options::{DeviceEntry, Reopen, RunOptions, RunnerOptions};
pub use pending::Pending;
pub use report::{HOST, PartitionTime, RunReport, StepKind, StepTime, busy_ns, overlap_ratio};
pub use runner::Runner;
pub use shown::{See, Shown};
pub use trace::chrome_trace;
