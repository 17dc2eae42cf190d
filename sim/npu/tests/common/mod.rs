//! The reference tables, where they are: `OTTAVA_TEST_ASSETS/reference/npu`, by default `../shared` beside the checkout.
//!
//! They have terms of their own and are no part of this repository. A test that does not find them calls [`skip`].

// Each test binary uses a part of this module.
#![allow(dead_code, reason = "shared by several test binaries")]

use ottava_npu::analytic::{ArrayShape, Gemm};
use ottava_npu::config::{Dataflow, Timing};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

/// A table: its rows, by column name.
pub struct Table {
    header: BTreeMap<String, usize>,
    rows: Vec<Vec<String>>,
}

/// One row of a table.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    table: &'a Table,
    cells: &'a [String],
}

/// A table of `reference/npu`, or a counted skip of the named test.
pub fn table_or_skip(test: &str, path: &str) -> Option<Table> {
    let text = text_or_skip(test, path)?;
    let mut lines = text.lines().map(cells);
    let header = lines.next().expect("a table has a header");
    let header = header.into_iter().enumerate().map(|(i, name)| (name, i)).collect();
    Some(Table { header, rows: lines.collect() })
}

/// The cells of a line; commas inside quotes do not part them.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().expect("at least one").push(c),
        }
    }
    cells
}

/// A file of `reference/npu`, or a counted skip of the named test.
pub fn text_or_skip(test: &str, path: &str) -> Option<String> {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("OTTAVA_TEST_ASSETS").map_or_else(default, PathBuf::from);
    match std::fs::read_to_string(root.join("reference/npu").join(path)) {
        Ok(text) => Some(text),
        Err(error) => {
            skip(test, &format!("{path}: {error}"));
            None
        }
    }
}

/// Says that a test did not run, and why.
pub fn skip(test: &str, reason: &str) {
    let line = format!("{test}: {reason}\n");
    eprint!("skipped: {line}");
    if let Some(log) = std::env::var_os("OTTAVA_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut f| f.write_all(line.as_bytes())).expect("the skip log can be written");
    }
}

impl Table {
    /// The rows in order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|cells| Row { table: self, cells })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
}

impl<'a> Row<'a> {
    /// A cell as text.
    pub fn text(&self, column: &str) -> &'a str {
        let index = self.table.header.get(column).unwrap_or_else(|| panic!("no column `{column}`"));
        &self.cells[*index]
    }

    /// A cell as a number.
    pub fn number(&self, column: &str) -> u64 {
        let text = self.text(column);
        text.parse().unwrap_or_else(|_| panic!("`{column}` is `{text}`, not a number"))
    }

    /// M, N, K.
    pub fn gemm(&self) -> Gemm {
        Gemm::new(self.number("M"), self.number("N"), self.number("K"))
    }

    /// The dataflow.
    pub fn dataflow(&self) -> Dataflow {
        match self.text("dataflow") {
            "os" => Dataflow::Os,
            "ws" => Dataflow::Ws,
            "is" => Dataflow::Is,
            other => panic!("dataflow `{other}`"),
        }
    }

    /// The array of this row.
    pub fn array(&self, timing: Timing) -> ArrayShape {
        let (rows, cols) = (self.number("array_rows"), self.number("array_cols"));
        ArrayShape { rows, cols, dataflow: self.dataflow(), timing, ports: None }
    }
}
