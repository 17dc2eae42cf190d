//! Plan files: a plan with its constants and compiled programs, checksummed and mapped into memory.
//!
//! [`write`] makes a file, [`PlanFile::open`] reads one. `layout` is the frame: header, section table, sections; the plan
//! itself is encoded by `wire`. Constants and compiled programs are sections of their own, stored once each however often
//! they are used, and become [`Tensor`](ottava_hal::Tensor)s that view the mapped file: nothing is copied.
//!
//! Invariants
//! * equal plans make equal files, byte by byte;
//! * every byte of a file is covered by a checksum or must be zero, and all checksums are compared before a plan is
//!   returned: a damaged file is an error, never a wrong answer;
//! * a file is hostile until it has been read: no panic, no unbounded recursion, no allocation beyond a constant factor of
//!   its size; [`Plan::check`] holds for what is returned;
//! * writing makes a new file beside the old one and renames it, so that processes that have mapped the old one keep it.

mod error;
mod layout;
mod map;
#[cfg(test)]
mod tests;
mod verify;

pub use error::FileError;
pub use layout::{FORMAT, MAGIC};
pub(crate) use layout::{Kind, Section, Sha, sha};

use crate::{Plan, wire};
use ottava_hal::SharedBytes;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names that are tried for the new file before it gets its own.
const ATTEMPTS: u32 = 64;

/// The bytes of a plan file.
///
/// # Errors
/// When the plan does not hold by [`Plan::check`], or a blob does not match its key.
pub fn to_bytes(plan: &Plan) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    put(&encoded(plan)?, &mut bytes).map_err(|e| FileError::io(Path::new("memory"), e))?;
    Ok(bytes)
}

/// A plan that holds, in parts.
fn encoded(plan: &Plan) -> Result<wire::Encoded, FileError> {
    check_machine()?;
    plan.check()?;
    Ok(wire::encode(plan)?)
}

/// Writes the bytes of the file.
fn put(plan: &wire::Encoded, out: &mut dyn Write) -> io::Result<()> {
    let first = (Kind::Plan, plan.plan.as_slice(), sha(&plan.plan));
    let others = plan.sections.iter().map(|s| (s.kind, s.data.bytes(), s.sha));
    layout::assemble(&std::iter::once(first).chain(others).collect::<Vec<_>>(), out)
}

/// Writes a plan file; one that is there is replaced at once, never changed.
///
/// # Errors
/// As [`to_bytes`], and when the folder cannot be written.
pub fn write(plan: &Plan, path: &Path) -> Result<(), FileError> {
    let encoded = encoded(plan)?;
    let (mut file, new) = new_file(path).map_err(|e| FileError::io(path, e))?;
    let done = put(&encoded, &mut file).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path));
    done.map_err(|e| {
        // What has gone wrong is worth more than a second failure.
        let _ = fs::remove_file(&new);
        FileError::io(path, e)
    })
}

/// A file of a new name beside `path`.
fn new_file(path: &Path) -> io::Result<(File, PathBuf)> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let mut last = None;
    for attempt in 0..ATTEMPTS {
        let mut new = name.to_owned();
        new.push(format!(".{}.{attempt}.new", std::process::id()));
        let new = path.with_file_name(new);
        match OpenOptions::new().write(true).create_new(true).open(&new) {
            Ok(file) => return Ok((file, new)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => last = Some(e),
            Err(e) => return Err(e),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("no name is free for the new file")))
}

/// Reading of plan files.
#[derive(Debug, Clone, Copy)]
pub struct PlanFile;

impl PlanFile {
    /// Maps a file and reads its plan. Constants and blobs of the plan view the mapping, which lives as long as they do.
    ///
    /// A plan made for other devices opens too; its blobs do not fit then ([`crate::Partition::blob_for`] says why), and the
    /// programs are compiled anew.
    ///
    /// # Errors
    /// When the file is not a plan, is damaged, or was written by a version that this one does not understand.
    pub fn open(path: &Path) -> Result<Plan, FileError> {
        // A pipe would be waited for; the mapping checks the opened file again.
        let data = fs::metadata(path).map_err(|e| FileError::io(path, e))?;
        if !data.is_file() {
            return Err(FileError::io(path, io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        Self::read(map::map(path).map_err(|e| FileError::io(path, e))?)
    }

    /// Reads a plan from the bytes of a file.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Plan, FileError> {
        Self::read(Arc::new(bytes))
    }

    fn read(bytes: SharedBytes) -> Result<Plan, FileError> {
        check_machine()?;
        let file = (*bytes).as_ref();
        let sections = layout::sections(file)?;
        verify::all(file, &sections)?;
        let plan = wire::decode(&bytes, &sections)?;
        plan.check().map_err(|e| FileError::corrupt("the plan", e))?;
        Ok(plan)
    }
}

/// Constants are stored as they lie in memory.
fn check_machine() -> Result<(), FileError> {
    if cfg!(target_endian = "little") {
        return Ok(());
    }
    Err(FileError::Refused(ottava_hal::Error::unsupported(
        ottava_hal::Reason::Other,
        "plan files on a big-endian machine; compile from the model",
    )))
}
