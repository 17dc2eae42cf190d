//! What can be wrong, one file per kind.
//!
//! A line of a table is a defect: its name, the group and the case that must catch it, a word that the first message of
//! that case must contain, and the change of [`Behaviour`]. Two defects differ in what is wrong, not in the operator.

mod blob;
mod capability;
mod compile;
mod device;
mod execution;
mod fence;
pub mod library;
mod memory;
mod numeric;
mod numeric_form;
mod numeric_rest;
mod numeric_rounding;
mod numeric_window;
mod robust;

use crate::Behaviour;

/// A defect.
pub struct Defect {
    /// Its name, the value of the option `fault`.
    pub name: &'static str,
    /// The group that it breaks.
    pub group: &'static str,
    /// The case that must catch it.
    pub case: &'static str,
    /// What the first message of the case must contain.
    pub word: &'static str,
    /// Puts the wrong functions in their places.
    pub apply: fn(&mut Behaviour),
}

impl Defect {
    /// A line of a table.
    const fn new(
        name: &'static str,
        group: &'static str,
        case: &'static str,
        word: &'static str,
        apply: fn(&mut Behaviour),
    ) -> Self {
        Self { name, group, case, word, apply }
    }
}

/// Every defect, by kind.
pub static DEFECTS: &[&[Defect]] = &[
    device::DEFECTS,
    memory::DEFECTS,
    fence::DEFECTS,
    capability::DEFECTS,
    compile::DEFECTS,
    blob::DEFECTS,
    execution::DEFECTS,
    robust::DEFECTS,
    numeric_rounding::DEFECTS,
    numeric_window::DEFECTS,
    numeric_form::DEFECTS,
    numeric_rest::DEFECTS,
];
