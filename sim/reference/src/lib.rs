//! `ottava-reference`: the bit-accurate interpreter of programs, and the device `reference` that wraps it.
//!
//! It runs every operator of `ottava-ops`, one node after the other, on one thread, and is the definition that other
//! devices are compared with. It is also what constant folding, fallback and debugging use: one mechanism.

mod device;
mod interpreter;

pub use device::{ReferenceDevice, ReferenceDriver};
pub use interpreter::{Interpreter, Observer};
