//! Groups E.8 to E.10: saved executables.

use super::Defect;
use crate::{blob, driver};
use ottava_hal::{BlobVerdict, Error, Program, Result, Status};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls so far.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// The program that was saved last.
static SAVED: Mutex<Option<Program>> = Mutex::new(None);

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("blob_loses_constants", "E.8", "blob.roundtrip.same_bits", "differs", |b| b.serialize = hollow),
    Defect::new("blob_is_the_address", "E.8", "blob.roundtrip.again", "memory that is gone", |b| b.deserialize = once),
    Defect::new("blob_swaps_outputs", "E.8", "blob.roundtrip.interface", "outputs", |b| {
        b.deserialize = |bytes| {
            let mut program = blob::read(bytes)?;
            program.outputs.pop();
            Ok(program)
        };
    }),
    Defect::new("blob_not_deterministic", "E.8", "blob.roundtrip.deterministic", "other bytes", |b| {
        b.serialize = |program| {
            let name = format!("{} {}", program.name, CALLS.fetch_add(1, Ordering::Relaxed));
            blob::write(&Program { name, ..program.clone() })
        };
    }),
    Defect::new("blob_truncated_taken", "E.9", "blob.reject.truncated", "accepted", |b| {
        b.serialize = remember;
        b.deserialize = |bytes| blob::read(bytes).or_else(|e| SAVED.lock().clone().ok_or(e));
    }),
    Defect::new("blob_magic_ignored", "E.9", "blob.reject.magic", "accepted", |b| b.deserialize = any_magic),
    Defect::new("blob_tail_taken", "E.9", "blob.reject.longer", "accepted", |b| b.deserialize = any_tail),
    Defect::new("blob_garbage_panics", "E.9", "blob.reject.garbage", "panicked", |b| {
        b.deserialize = |bytes| {
            assert!(bytes.len() >= 8, "a blob has a checksum");
            blob::read(bytes)
        };
    }),
    Defect::new("blob_code_internal", "E.9", "blob.reject.truncated", "Internal", |b| {
        b.deserialize = |bytes| blob::read(bytes).map_err(|e| Error::failed(Status::Internal, e.to_string()));
    }),
    Defect::new("blob_flip_crashes", "E.9", "blob.reject.each_byte", "panicked", |b| b.deserialize = trusts_lengths),
    Defect::new("blob_other_version_taken", "E.10", "blob.check_only.other", "optimal", |b| {
        b.check_blob = |_| Ok(BlobVerdict::Optimal);
    }),
    Defect::new("blob_own_key_refused", "E.10", "blob.check_only.own", "own key", |b| {
        b.check_blob = |_| Ok(BlobVerdict::Incompatible("compile again".into()));
    }),
    Defect::new("blob_verdict_without_words", "E.10", "blob.check_only.other", "without a word", |b| {
        b.check_blob = |key| {
            Ok(match driver::check_blob(key)? {
                BlobVerdict::Incompatible(_) => BlobVerdict::Incompatible(String::new()),
                fine => fine,
            })
        };
    }),
    Defect::new("blob_verdict_changes", "E.10", "blob.check_only.stable", "changes", |b| {
        b.check_blob = |_| {
            let call = CALLS.fetch_add(1, Ordering::Relaxed);
            Ok(BlobVerdict::RecompilePreferred(format!("older than {call}")))
        };
    }),
];

/// Constants stay with the process that compiled.
fn hollow(program: &Program) -> Result<Vec<u8>> {
    let mut program = program.clone();
    program.values.iter_mut().filter_map(|v| v.constant.as_mut()).for_each(|c| c.bytes_mut().fill(0));
    blob::write(&program)
}

/// The first load of a process is right.
fn once(bytes: &[u8]) -> Result<Program> {
    if CALLS.fetch_add(1, Ordering::Relaxed) > 0 {
        return Err(Error::failed(Status::CorruptBlob, "the blob names memory that is gone"));
    }
    blob::read(bytes)
}

fn remember(program: &Program) -> Result<Vec<u8>> {
    *SAVED.lock() = Some(program.clone());
    blob::write(program)
}

/// Bytes with the right beginning and the right checksum, whatever they had.
fn any_magic(bytes: &[u8]) -> Result<Program> {
    let mut fixed = blob::write(&Program::default())?;
    fixed.truncate(8);
    fixed.extend_from_slice(bytes.get(8..bytes.len().saturating_sub(8)).unwrap_or_default());
    blob::unchecked(&fixed)
}

/// What is behind the program does not matter.
fn any_tail(bytes: &[u8]) -> Result<Program> {
    let ends = (16..=bytes.len()).rev();
    ends.filter_map(|n| blob::read(&bytes[..n]).ok())
        .next()
        .ok_or_else(|| Error::failed(Status::CorruptBlob, "no blob"))
}

/// A wrong checksum is no reason not to believe the number of values.
fn trusts_lengths(bytes: &[u8]) -> Result<Program> {
    blob::read(bytes).inspect_err(|_| {
        let at = bytes.len() / 2;
        let claimed = usize::from(bytes.get(at).copied().unwrap_or(0)) + bytes.len();
        assert!(bytes.get(claimed).is_some(), "the value is not there");
    })
}
