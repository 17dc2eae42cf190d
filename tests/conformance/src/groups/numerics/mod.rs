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

mod build;
mod check;
mod compare;
mod draw;
mod fixed;
mod forms;
mod hints;
mod op;

use super::Group;

/// The groups G.1 to G.10.
pub(super) const OPS: Group = op::GROUP;
