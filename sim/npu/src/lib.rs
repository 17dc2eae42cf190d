//! `ottava-npu`: the NPU simulator, a machine that executes command streams bit-exactly and says how many cycles they
//! take, where the cycles went and what they cost.
//!
//! The machine is an array of multiply-accumulate elements with two scratchpads (activations A, weights W), an
//! accumulator memory with a requantizer in its read path, a vector unit and a DMA engine. Four in-order queues (LD, EX,
//! VEC, ST) work at the same time and synchronise by tokens and events. A *cycle* is one period of the array clock; a
//! total counts from the issue of the first instruction to the end of the last one, both included.
//!
//! Reading order:
//!
//! 1. [`config`]: what a device is: the `Npu(...)` file and its presets;
//! 2. [`isa`]: the instruction set and the container of a command stream; [`asm`]: its text form;
//! 3. [`program`]: a decoded stream, instruction by instruction; [`timing`]: when each of them runs; [`verify`]: what must
//!    hold before any of them does; [`machine`]: what they do to bytes;
//! 4. [`analytic`]: cycles and traffic of a layer in closed form; [`layers`]: a list of layers, simulated with them.
//!
//! Invariants: the crate uses the arithmetic of `ottava-hal` (`refmath`) and nothing else of it; results depend on the
//! stream alone, never on array size, dataflow, bandwidth or host; counters are integers and the same on every run;
//! command streams are untrusted: any bytes give a result or an error.

pub mod analytic;
pub mod asm;
pub mod config;
pub mod energy;
pub mod error;
pub mod fault;
pub mod isa;
pub mod layers;
pub mod machine;
pub mod program;
pub mod sweep;
pub mod timing;
pub mod trace;
pub mod verify;

mod suggest;
#[cfg(test)]
mod testing;

pub use config::{ConfigError, NpuConfig};
pub use error::{Fault, NpuError, Violation};
pub use isa::Stream;
pub use machine::{Counters, Memory, Program, RunReport};
pub use timing::Timing;
