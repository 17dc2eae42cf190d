//! `simulate --merge`: the tables of shards as one, if they are results of one workload, and of the chip and sweep named.

use super::sweep::{bad, text_of};
use crate::failure::Result;
use ottava_npu::NpuConfig;
use ottava_npu::sweep::{Key, Point, Row, Sweep, Table, TableError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the tables are asked to be results of.
pub struct Asked<'a> {
    /// The sweep.
    pub sweep: &'a Sweep,
    /// Its file.
    pub spec: &'a Path,
    /// The configuration that is varied.
    pub base: &'a NpuConfig,
    /// What the command line calls it.
    pub chip: &'a str,
}

/// Joins tables; every point of the sweep has a row.
pub fn merge(paths: &[PathBuf], asked: &Asked<'_>) -> Result<Table> {
    let points: BTreeMap<u64, Point<'_>> = asked.sweep.points().map(|p| (p.number, p)).collect();
    let mut all = Table::new(asked.sweep);
    let mut origins: BTreeMap<u64, &Path> = BTreeMap::new();
    let mut first: Option<(u64, &Path, String)> = None;
    for path in paths {
        let mut part = Table::new(asked.sweep);
        part.read(&text_of(path)?).map_err(|e| bad(path, e))?;
        for row in part.rows() {
            fits(row, points.get(&row.number), asked).map_err(|e| bad(path, e))?;
            let (workload, file, name) = first.get_or_insert_with(|| (row.key.workload, path, row.workload.clone()));
            if *workload != row.key.workload {
                return Err(bad(
                    path,
                    format!("these are results of another workload than those of `{}`", file.display()),
                ));
            }
            let origin = *origins.entry(row.number).or_insert(path);
            // The same file may have had another name elsewhere.
            let row = Row { workload: name.clone(), ..row.clone() };
            all.insert(row).map_err(|e| differs(path, &e, origin))?;
        }
    }
    all.complete(asked.sweep).map_err(|e| bad(asked.spec, e))?;
    Ok(all)
}

/// Two tables have one point with the same key, and other figures.
fn differs(path: &Path, e: &TableError, origin: &Path) -> crate::failure::Failure {
    bad(path, format!("{e} here and in `{}`: other figures, or another release", origin.display()))
}

/// Why a row is no result of what is asked for.
fn fits(row: &Row, point: Option<&Point<'_>>, asked: &Asked<'_>) -> std::result::Result<(), String> {
    let (number, spec) = (row.number, asked.spec.display());
    let point = point.ok_or_else(|| format!("`{spec}` has no point {number}; these are results of another sweep"))?;
    let (here, there) = (row.values.join(", "), point.cells().join(", "));
    if here != there {
        return Err(format!("point {number} has the values `{here}`, in `{spec}` it has `{there}`"));
    }
    let key = Key::new(row.key.workload, asked.base, asked.sweep, point);
    if key.chip != row.key.chip {
        return Err(format!(
            "these are results of another chip than `{}`; name theirs with `--npu`, and the `--mode` if one was given",
            asked.chip
        ));
    }
    if key.point != row.key.point {
        return Err(format!("the key of point {number} is not that of its values; the table was changed"));
    }
    Ok(())
}
