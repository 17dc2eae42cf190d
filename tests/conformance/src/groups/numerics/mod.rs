//! Group G: what operators compute, against the reference (numerics.md).
//!
//! Reading order:
//!
//! 1. `build`: a program whose values are known as soon as its nodes are added;
//! 2. `draw`: random shapes, parameters and data, at the edges of the device's own limits;
//! 3. `forms`: how programs of each family of operators are made;
//! 4. `compare`, `check`, `hints`: when results are right, and what is said if not;
//! 5. one file per group: `op` (G.1), and those for single clauses of numerics.md.
//!
//! Invariants: the reference decides every expected value; integers are compared exactly; a program that the device
//! refuses is counted and never passes for a checked one.

mod axis;
mod build;
mod check;
mod compare;
mod determinism;
mod draw;
mod fixed;
mod float;
mod forms;
mod fusion;
mod hints;
mod models;
mod op;
mod padding;
mod products;
mod rounding;
mod saturation;
mod tables;

pub(super) use axis::GROUP as AXIS;
pub(super) use determinism::GROUP as DETERMINISM;
pub(super) use float::GROUP as FLOAT;
pub(super) use fusion::GROUP as FUSION;
pub(super) use models::GROUP as MODELS;
pub(super) use op::GROUP as OPS;
pub(super) use padding::GROUP as PADDING;
pub(super) use rounding::GROUP as ROUNDING;
pub(super) use saturation::GROUP as SATURATION;
pub(super) use tables::GROUP as TABLES;
