//! B.3: a device that is opened and closed again leaves nothing behind.

use super::Group;
use crate::{Case, Check, Stop, Subject, ensure};
use std::fs;

/// Cycles, and cycles before the first look: what a process allocates once is no leak.
const CYCLES: usize = 200;
const WARM: usize = 20;
/// Pages that an allocator may keep.
const SLACK_BYTES: usize = 4 << 20;

pub(super) const GROUP: Group = Group {
    id: "B.3",
    name: "dev.open_close",
    about: "opening and closing a device again and again returns memory, descriptors and threads",
    cases: |_| vec![Case::new("B.3", "dev.open_close.leaves_nothing", leaves_nothing)],
};

/// What a process holds.
#[derive(Debug, Clone, Copy)]
struct Holdings {
    bytes: usize,
    descriptors: usize,
    threads: usize,
}

impl Holdings {
    fn now() -> Result<Self, Stop> {
        let skip = |e: std::io::Error| Stop::Skipped(format!("/proc cannot be read: {e}"));
        let statm = fs::read_to_string("/proc/self/statm").map_err(skip)?;
        let pages: usize = statm.split_whitespace().nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
        let count = |path| fs::read_dir(path).map(|list| list.count()).map_err(skip);
        Ok(Self { bytes: pages * 4096, descriptors: count("/proc/self/fd")?, threads: count("/proc/self/task")? })
    }
}

fn leaves_nothing(subject: &Subject) -> Check {
    let cycle = || subject.open().map(drop);
    (0..WARM).try_for_each(|_| cycle())?;
    let before = Holdings::now()?;
    let cycles = if subject.stress { 5 * CYCLES } else { CYCLES };
    (0..cycles).try_for_each(|_| cycle())?;
    let after = Holdings::now()?;
    ensure!(
        after.descriptors <= before.descriptors,
        "file descriptors: {before:?} before, {after:?} after {cycles} cycles"
    );
    ensure!(after.threads <= before.threads, "threads: {before:?} before, {after:?} after {cycles} cycles");
    ensure!(after.bytes <= before.bytes + SLACK_BYTES, "memory: {before:?} before, {after:?} after {cycles} cycles");
    Ok(())
}
