//! One row of a sweep's table: a point, what it is a result of, and its figures or why there are none.

use super::key::Key;
use crate::timing::{N_REASONS, Reason};

/// The figures of one point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Cycles of the workload.
    pub total_cycles: u64,
    /// Cycles in which the array or the vector unit worked.
    pub compute_cycles: u64,
    /// The other cycles by [`Reason`].
    pub stalls: [u64; N_REASONS],
    /// Multiply-accumulates on the chip.
    pub macs: u64,
    /// Bytes of the on-chip memories.
    pub sram_bytes: u64,
    /// Bytes over the memory bus.
    pub dram_bytes: u64,
    /// Femtojoules; `None` without a table.
    pub energy_fj: Option<u128>,
    /// Nodes that other devices run.
    pub elsewhere: u64,
}

/// What became of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its figures.
    Done(Figures),
    /// Why it has none.
    Invalid(String),
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number of the point.
    pub number: u64,
    /// What it is a result of.
    pub key: Key,
    /// The name of the file that was simulated, for readers; [`Self::key`] says which file it was.
    pub workload: String,
    /// The values, one per entry of the sweep.
    pub values: Vec<String>,
    /// What became of it.
    pub outcome: Outcome,
}

/// Columns behind the values.
const FIGURES: [&str; 3] = ["status", "total_cycles", "compute_cycles"];
const MORE: [&str; 6] = ["macs", "sram_bytes", "dram_bytes", "energy_pj", "nodes_elsewhere", "reason"];

/// Names of all columns.
pub(super) fn header(names: &[String]) -> Vec<String> {
    let first = ["point", "key", "workload"].map(str::to_owned);
    let stalls = Reason::ALL.map(|r| r.name().to_owned());
    let figures = FIGURES.map(str::to_owned).into_iter().chain(stalls).chain(MORE.map(str::to_owned));
    first.into_iter().chain(names.iter().cloned()).chain(figures).collect()
}

impl Row {
    /// The cells, in the order of the columns.
    pub(super) fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.number.to_string(), self.key.to_string(), self.workload.clone()];
        cells.extend(self.values.iter().cloned());
        match &self.outcome {
            Outcome::Done(f) => {
                cells.extend(["ok".to_owned(), f.total_cycles.to_string(), f.compute_cycles.to_string()]);
                cells.extend(f.stalls.iter().map(u64::to_string));
                cells.extend([f.macs, f.sram_bytes, f.dram_bytes].map(|n| n.to_string()));
                cells.extend([f.energy_fj.map_or(String::new(), picojoules), f.elsewhere.to_string(), String::new()]);
            }
            Outcome::Invalid(reason) => {
                cells.push("invalid".to_owned());
                cells.extend(std::iter::repeat_n(String::new(), N_REASONS + 7));
                cells.push(reason.replace(char::is_control, " "));
            }
        }
        cells
    }

    /// Reads the cells of a table with `n` values per row; `None` if they are no row.
    pub(super) fn read(cells: &[String], n: usize) -> Option<Self> {
        if cells.len() != n + 3 + FIGURES.len() + N_REASONS + MORE.len() {
            return None;
        }
        let (values, rest) = cells[3..].split_at(n);
        let outcome = match rest[0].as_str() {
            "ok" => Outcome::Done(figures(rest)?),
            "invalid" => Outcome::Invalid(rest.last()?.clone()),
            _ => return None,
        };
        let key = Key::read(&cells[1])?;
        let (number, workload) = (cells[0].parse().ok()?, cells[2].clone());
        Some(Self { number, key, workload, values: values.to_vec(), outcome })
    }
}

/// The figures of the cells from `status` on.
fn figures(cells: &[String]) -> Option<Figures> {
    let number = |i: usize| cells.get(i)?.parse::<u64>().ok();
    let mut stalls = [0; N_REASONS];
    for (i, stall) in stalls.iter_mut().enumerate() {
        *stall = number(FIGURES.len() + i)?;
    }
    let at = FIGURES.len() + N_REASONS;
    let energy = &cells[at + 3];
    Some(Figures {
        total_cycles: number(1)?,
        compute_cycles: number(2)?,
        stalls,
        macs: number(at)?,
        sram_bytes: number(at + 1)?,
        dram_bytes: number(at + 2)?,
        energy_fj: if energy.is_empty() { None } else { Some(femtojoules(energy)?) },
        elsewhere: number(at + 4)?,
    })
}

/// Picojoules with three decimals, which is exact.
fn picojoules(fj: u128) -> String {
    format!("{}.{:03}", fj / 1000, fj % 1000)
}

fn femtojoules(text: &str) -> Option<u128> {
    let (whole, part) = text.split_once('.')?;
    let part: u128 = if part.len() == 3 { part.parse().ok()? } else { return None };
    whole.parse::<u128>().ok()?.checked_mul(1000)?.checked_add(part)
}
