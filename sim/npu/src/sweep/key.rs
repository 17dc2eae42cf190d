//! What a row is a result of: three numbers that differ, for all practical purposes, between different workloads, chips and
//! points. A row written elsewhere is used only if its key says that it is a result of the same.

use super::Sweep;
use super::point::{Point, fingerprint};
use crate::NpuConfig;
use std::fmt::{Display, Formatter};

/// Digits of each number.
const DIGITS: usize = 16;

/// What a row is a result of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Over the file that was simulated, and its sizes.
    pub workload: u64,
    /// Over the configuration that is varied.
    pub chip: u64,
    /// Over the varied keys and their values.
    pub point: u64,
}

impl Key {
    /// The key of a point; `workload` is a [`fingerprint`].
    pub fn new(workload: u64, base: &NpuConfig, sweep: &Sweep, point: &Point<'_>) -> Self {
        let names = sweep.vary.iter().map(|v| v.name.as_bytes());
        let cells = point.cells();
        let point = fingerprint(names.chain(cells.iter().map(String::as_bytes)));
        Self { workload, chip: fingerprint([base.to_ron().as_bytes()]), point }
    }

    /// Reads what `Display` writes.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('-').map(number);
        let key = Self { workload: parts.next()??, chip: parts.next()??, point: parts.next()?? };
        parts.next().is_none().then_some(key)
    }

    /// Whether a cell is a key of tables that did not tell workload, chip and point apart.
    pub(super) fn is_older(text: &str) -> bool {
        number(text).is_some()
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}-{:016x}-{:016x}", self.workload, self.chip, self.point)
    }
}

fn number(digits: &str) -> Option<u64> {
    let is_number = digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if is_number { u64::from_str_radix(digits, 16).ok() } else { None }
}
