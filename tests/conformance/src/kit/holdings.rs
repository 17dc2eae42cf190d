//! What the process holds: memory, descriptors, threads.

use crate::{Check, Stop, ensure};
use std::fs;
use std::time::Duration;

/// Bytes that an allocator may keep.
const SLACK_BYTES: usize = 4 << 20;

/// What a process holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holdings {
    bytes: usize,
    descriptors: usize,
    threads: usize,
}

impl Holdings {
    /// What it holds now.
    pub(crate) fn now() -> Result<Self, Stop> {
        let skip = |e: std::io::Error| Stop::Skipped(format!("/proc cannot be read: {e}"));
        let statm = fs::read_to_string("/proc/self/statm").map_err(skip)?;
        let pages: usize = statm.split_whitespace().nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
        let count = |path| fs::read_dir(path).map(|list| list.count()).map_err(skip);
        Ok(Self { bytes: pages * 4096, descriptors: count("/proc/self/fd")?, threads: count("/proc/self/task")? })
    }

    /// Fails if the process now holds more. A thread that is about to end may take a moment.
    pub(crate) fn returned(self, what: &str) -> Check {
        let mut after = Self::now()?;
        for _ in 0..50 {
            if after.threads <= self.threads {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            after = Self::now()?;
        }
        ensure!(after.descriptors <= self.descriptors, "file descriptors: {self:?} before, {after:?} after {what}");
        ensure!(after.threads <= self.threads, "threads: {self:?} before, {after:?} after {what}");
        ensure!(after.bytes <= self.bytes + SLACK_BYTES, "memory: {self:?} before, {after:?} after {what}");
        Ok(())
    }
}
