//! The table of a sweep as CSV: written row by row, read again to go on, merged from shards.

use super::key::Key;
use super::row::{self, Row};
use super::{Sweep, front};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The name of the last column, of finished tables only.
const PARETO: &str = "pareto";

/// A table that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The first line has other columns.
    #[error("the columns are not those of this sweep; expected `{expected}`")]
    Header {
        /// The columns of this sweep.
        expected: String,
    },
    /// A line is no row. The last line of an interrupted run may be cut; it is left out.
    #[error("line {0} is no row of a sweep")]
    Line(usize),
    /// The keys are those of an earlier format.
    #[error("the table has an older format, which does not say what its rows are results of; compute it again")]
    Older,
    /// Two rows of one point differ.
    #[error("point {number} has different rows")]
    Conflict {
        /// Number of the point.
        number: u64,
    },
    /// Points without a row.
    #[error("{missing} of {points} points have no row, the first is {first}; merge the tables of all shards")]
    Missing {
        /// How many.
        missing: usize,
        /// Of how many.
        points: usize,
        /// The least number.
        first: u64,
    },
}

/// Rows by the numbers of their points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    names: Vec<String>,
    rows: BTreeMap<u64, Row>,
}

impl Table {
    /// A table without rows.
    pub fn new(sweep: &Sweep) -> Self {
        Self { names: sweep.vary.iter().map(|v| v.name.clone()).collect(), rows: BTreeMap::new() }
    }

    /// The first line, with its line feed.
    pub fn header(&self) -> String {
        line(&row::header(&self.names))
    }

    /// A row as a line, with its line feed.
    pub fn line(row: &Row) -> String {
        line(&row.cells())
    }

    /// The rows, ascending by number.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// The row of a point.
    pub fn get(&self, number: u64) -> Option<&Row> {
        self.rows.get(&number)
    }

    /// Adds a row; one that is there must be the same.
    pub fn insert(&mut self, row: Row) -> Result<(), TableError> {
        let number = row.number;
        match self.rows.insert(number, row) {
            Some(old) if Some(&old) != self.rows.get(&number) => Err(TableError::Conflict { number }),
            _ => Ok(()),
        }
    }

    /// Adds the rows of a written table. A last line that was cut off in writing is left out.
    pub fn read(&mut self, text: &str) -> Result<(), TableError> {
        let mut lines = text.split_inclusive('\n').enumerate();
        let expected = self.header();
        let first = lines.next().map_or("", |(_, line)| line);
        let columns = cells(first.trim_end()).unwrap_or_default();
        let plain = columns.strip_suffix(&[PARETO.to_owned()]).unwrap_or(&columns);
        if plain != row::header(&self.names) {
            return Err(TableError::Header { expected: expected.trim_end().to_owned() });
        }
        let finished = plain.len() < columns.len();
        for (index, text) in lines {
            let whole = text.ends_with('\n');
            let found = cells(text.trim_end_matches(['\n', '\r']));
            if whole && found.as_ref().and_then(|cells| cells.get(1)).is_some_and(|key| Key::is_older(key)) {
                return Err(TableError::Older);
            }
            let row = found.and_then(|cells| {
                let cells = if finished { cells.split_last()?.1 } else { &cells[..] };
                Row::read(cells, self.names.len())
            });
            match row {
                Some(row) if whole => self.insert(row)?,
                _ if !whole => break,
                _ => return Err(TableError::Line(index + 1)),
            }
        }
        Ok(())
    }

    /// Whether every point of the sweep has a row.
    pub fn complete(&self, sweep: &Sweep) -> Result<(), TableError> {
        let open: Vec<u64> = sweep.points().map(|p| p.number).filter(|n| !self.rows.contains_key(n)).collect();
        match open.first() {
            Some(&first) => Err(TableError::Missing { missing: open.len(), points: sweep.len(), first }),
            None => Ok(()),
        }
    }

    /// The finished table: ascending, with the Pareto front in the last column.
    pub fn csv(&self) -> String {
        let rows: Vec<Row> = self.rows.values().cloned().collect();
        let mut columns = row::header(&self.names);
        columns.push(PARETO.to_owned());
        let mut text = line(&columns);
        for (row, on_front) in rows.iter().zip(front(&rows)) {
            let mut cells = row.cells();
            cells.push(u8::from(on_front).to_string());
            text += &line(&cells);
        }
        text
    }
}

fn line(cells: &[String]) -> String {
    let cells: Vec<Cow<'_, str>> = cells.iter().map(|c| crate::layers::cell(c)).collect();
    cells.join(",") + "\n"
}

fn cells(line: &str) -> Option<Vec<String>> {
    crate::layers::quoted_cells(line)
}
