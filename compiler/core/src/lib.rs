//! `ottava-compiler`: passes, placement, and the way from a graph to a [`Plan`](ottava_plan::Plan).
//!
//! ```text
//! Graph[imported] --canonicalize--> Graph[canonical] --integerize--> Graph[quantized] --place--> Plan
//! ```
//!
//! `passes/` holds one file per pass; `passes/mod.rs` lists the two pipelines. `partition/` asks each device what it can
//! run and at what cost, puts bridges in, and cuts the graph into partitions. No device is known here: the caller hands
//! in `&dyn Device`s, among them one for constant folding (the reference).
//!
//! Invariants: a pass never changes an integer result; a float result only where numerics.md section 7 allows it, and
//! then its [`passes::Effect`] says so. [`Cx::passes`] holds what each pass did. After each phase
//! [`ottava_graph::verify`] holds. Everything that changed meaning, was left in float, or fell back leaves a
//! [`Diagnostic`].

mod folding;
mod partition;
mod pipeline;
mod products;

pub mod passes;

pub(crate) use folding::{evaluate_constant, evaluate_constant_with};
pub use ottava_graph::Diagnostic;
pub use partition::{Fallback, Measured, NodeSignature, Objective, Placement, Policy, Target, place, signatures};
pub use pipeline::{Cx, PassReport, canonicalize, compile, integerize, run_pass};
