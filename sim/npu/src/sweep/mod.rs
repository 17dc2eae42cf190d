//! Sweeps: one configuration with some of its keys varied, a row of figures per point.
//!
//! [`Sweep`] is the `Sweep(...)` file, [`Point`] one choice of values, [`Point::config`] the configuration it makes or why
//! there is none, [`Row`] a line of the resulting table, and [`pareto`] finds the points that no other point beats.
//! Points are numbered; the same file gives the same points in the same order everywhere, so that a sweep can be cut into
//! shards, taken up again and merged. Each row carries a key over everything that it depends on.

mod file;
mod key;
mod pareto;
mod point;
mod ranges;
mod row;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use file::splitmix;
pub use file::{MAX_POINTS, Sampling, Sweep, SweepError, Values};
pub use key::Key;
pub use pareto::{front, pareto};
pub use point::{Point, fingerprint};
pub(crate) use point::{keys, place};
pub use row::{Figures, Outcome, Row};
pub use table::{Table, TableError};
