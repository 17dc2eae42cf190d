//! The table of groups: one file per group, one line each.

mod enumerate;
mod info;
mod multi;
mod numerics;
mod open_close;

use crate::{Case, Subject};

/// A group of cases that check one part of the contract.
pub struct Group {
    /// Its id, `B.3`.
    pub id: &'static str,
    /// The first part of its cases' names, `dev.open_close`.
    pub name: &'static str,
    /// What it checks, in a sentence.
    pub about: &'static str,
    /// Its cases for a driver; most groups have the same for all.
    pub cases: fn(&Subject) -> Vec<Case>,
}

/// Every group, in the order in which they run.
pub static GROUPS: &[Group] = &[enumerate::GROUP, info::GROUP, open_close::GROUP, multi::GROUP, numerics::OPS, numerics::SATURATION, numerics::ROUNDING,
    numerics::PADDING, numerics::AXIS, numerics::TABLES, numerics::FUSION, numerics::DETERMINISM, numerics::FLOAT,
    numerics::MODELS];

/// Every case of every group.
pub fn cases(subject: &Subject) -> Vec<Case> {
    GROUPS.iter().flat_map(|group| (group.cases)(subject)).collect()
}
