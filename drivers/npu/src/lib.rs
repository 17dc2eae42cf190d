//! `ottava-driver-npu`: the simulated NPU as an ordinary, asynchronous Ottava device.
//!
//! [`NpuDriver`] opens one device, `npu`. What it is follows from its option `config`: a preset's name or a file
//! `Npu(...)`. Capability, limits, peak and link are derived from that description, so a vendor can describe a chip and
//! see at once what it would run.
//!
//! Reading order:
//!
//! 1. `kernels`, `rows`, `ops`: the operator table; what each operator accepts and which steps it becomes;
//! 2. `lower`: places and forms of values, tiles that fit the scratchpads, requantization tables;
//! 3. `emit`: tiles to instructions, and the tokens that let four queues work at once;
//! 4. `cost`, `cycles`: what a stream takes, without running it;
//! 5. `executable`, `blob`: a verified stream with its types, and its bytes;
//! 6. `queue`, `engine`, `fence`: the worker thread, what waits for what, and how failures travel.
//!
//! Invariants: the integers are those of the reference, whatever the array, the dataflow and the size of the memories;
//! a node that is accepted is run (acceptance *is* lowering); every stream passes the simulator's static verification
//! when it is compiled and again when it is loaded from bytes; nothing blocks except [`ottava_hal::Fence::wait`].

mod blob;
mod buffer;
mod cost;
mod cycles;
mod device;
mod emit;
mod engine;
mod executable;
mod fence;
mod info;
mod job;
mod kernels;
mod lower;
mod ops;
mod options;
mod queue;
mod rows;

pub use cycles::NodeCycles;
pub use device::{NpuDevice, NpuDriver};
