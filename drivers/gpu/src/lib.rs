//! `ottava-gpu`: what the GPU drivers share. Operators become *recipes*: lists of kernel launches over one arena, which
//! Vulkan and OpenCL record and run.
//!
//! A kernel is written once, in a small language that is both GLSL and OpenCL C (`kernels/prelude.glsl` and
//! `kernels/prelude.cl` say what its words mean in each), so both drivers compute with the same lines; a Vulkan driver
//! takes the SPIR-V that lies beside it, an OpenCL driver compiles the text.
//!
//! Reading order:
//!
//! 1. `target`: what a device offers to the kernels;
//! 2. `kernels`: the kernel table, one line per kernel;
//! 3. `recipe`: launches, their buffers, and what must be finished before what;
//! 4. `form`, `builder`, `arena`: values, the orders of their elements, and where they lie;
//! 5. `ops`: one file per operator and the operator table: capability rows and lowering;
//! 6. `engine`: the queue of a driver: waits, deadlines, failures, and a worker thread;
//! 7. `selftest`: questions that show whether a device computes as the contract says;
//! 8. `blob`, `cost`: the bytes of an executable, and what it is expected to cost.
//!
//! Invariants: every buffer is a list of 32-bit words (8- and 16-bit elements are taken out of words with shifts), so a
//! kernel needs no storage feature; all extents are fixed when a recipe is made; integer results are those of
//! `refmath` on every device that passes the self-test; a node that is accepted is run (acceptance *is* lowering).

mod arena;
pub mod blob;
mod builder;
mod cost;
pub mod engine;
mod form;
mod kernels;
mod ops;
mod recipe;
pub mod selftest;
mod target;
#[doc(hidden)]
pub mod testing;

pub use cost::estimate;
pub use form::Form;
pub use kernels::{ARITHMETIC, Feature, KERNELS, Kernel, PRELUDE_CL, PRELUDE_GLSL};
pub use recipe::{Dispatch, Place, Recipe, Slice, Step};
pub use target::{Dot, Target};

use ottava_hal::{Capability, Program, Result, Verdict};

/// What a device can run, as far as rows can say it; [`assess`] adds what only lowering knows.
pub fn capability(target: &Target) -> Capability {
    ops::capability(target)
}

/// One verdict per node: the rows', then that of lowering the node by itself.
pub fn assess(program: &Program, target: &Target) -> Result<Vec<Verdict>> {
    program.check()?;
    let capability = capability(target);
    Ok((0..program.nodes.len()).map(|i| ops::assess(&capability, target, program, i)).collect())
}

/// The launches of a program. An error names the node.
pub fn lower(program: &Program, target: &Target) -> Result<Recipe> {
    program.check()?;
    ops::lower(program, target)
}
