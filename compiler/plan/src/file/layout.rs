//! Header and section table: the frame around the plan that every version can read.
//!
//! All numbers are little-endian.
//!
//! | bytes | header |
//! |---|---|
//! | 0..8 | magic |
//! | 8..12 | format that the file has |
//! | 12..16 | oldest reader that understands it |
//! | 16..20 | flags; a reader refuses those it does not know |
//! | 20..24 | number of sections |
//! | 24..32 | length of the file |
//! | 32..64 | SHA-256 of the 32 bytes before and of the table |
//!
//! The table follows, one row of 64 bytes per section: kind (4), zero (4), offset (8), length (8), zero (8), SHA-256 (32).
//! Sections follow in the order of the table, each at the next multiple of 64, with zeros between. The first one is the plan
//! itself, the others are what it refers to by number: constants and blobs. Nothing follows the last.

use super::FileError;
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::ops::Range;

/// The first bytes of every plan file.
pub const MAGIC: [u8; 8] = *b"OttvPlan";
/// Format that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;
/// Oldest reader that understands what this version writes.
const NEEDS: u32 = 1;
/// Alignment of sections, and size of the header and of a row.
pub(crate) const UNIT: usize = 64;

/// SHA-256.
pub(crate) type Sha = [u8; 32];

/// The SHA-256 of some bytes.
pub(crate) fn sha(bytes: &[u8]) -> Sha {
    Sha256::digest(bytes).into()
}

/// What a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The plan itself.
    Plan = 1,
    /// Data of constants.
    Constant = 2,
    /// A compiled program.
    Blob = 3,
}

impl Kind {
    fn from_u32(value: u32) -> Option<Self> {
        [Self::Plan, Self::Constant, Self::Blob].into_iter().find(|k| *k as u32 == value)
    }
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) kind: Kind,
    pub(crate) range: Range<usize>,
    pub(crate) sha: Sha,
}

impl Section {
    /// What messages call it.
    pub(crate) fn name(&self, index: usize) -> String {
        match self.kind {
            Kind::Plan => "the plan".into(),
            Kind::Constant => format!("constant {index}"),
            Kind::Blob => format!("compiled program {index}"),
        }
    }
}

/// Writes the whole file, section by section.
pub(crate) fn assemble(parts: &[(Kind, &[u8], Sha)], out: &mut dyn Write) -> io::Result<()> {
    let mut at = 0usize;
    let head = head(parts);
    for bytes in std::iter::once(head.as_slice()).chain(parts.iter().map(|(_, bytes, _)| *bytes)) {
        out.write_all(&[0; UNIT][..at.next_multiple_of(UNIT) - at])?;
        out.write_all(bytes)?;
        at = at.next_multiple_of(UNIT) + bytes.len();
    }
    Ok(())
}

/// Header and table.
fn head(parts: &[(Kind, &[u8], Sha)]) -> Vec<u8> {
    let mut at = UNIT * (1 + parts.len());
    let mut table = Vec::with_capacity(UNIT * parts.len());
    let mut end = at;
    for (kind, bytes, sha) in parts {
        table.extend_from_slice(&(*kind as u64).to_le_bytes());
        table.extend_from_slice(&(at as u64).to_le_bytes());
        table.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        table.extend_from_slice(&[0; 8]);
        table.extend_from_slice(sha);
        end = at + bytes.len();
        at = end.next_multiple_of(UNIT);
    }
    let mut file = Vec::with_capacity(UNIT + table.len());
    file.extend_from_slice(&MAGIC);
    for number in [FORMAT, NEEDS, 0, parts.len() as u32] {
        file.extend_from_slice(&number.to_le_bytes());
    }
    file.extend_from_slice(&(end as u64).to_le_bytes());
    let frame = sha(&[&file, table.as_slice()].concat());
    file.extend_from_slice(&frame);
    file.extend_from_slice(&table);
    file
}

/// The sections of a file whose frame is intact; what is inside them is not looked at.
pub(crate) fn sections(file: &[u8]) -> Result<Vec<Section>, FileError> {
    let n = check_header(file)?;
    let table_end = n.checked_mul(UNIT).and_then(|t| t.checked_add(UNIT)).filter(|end| *end <= file.len());
    let absurd = || FileError::corrupt("the header", format!("{n} sections do not fit into {} bytes", file.len()));
    let (head, table) = file.get(..table_end.ok_or_else(absurd)?).ok_or_else(absurd)?.split_at(UNIT);
    if head[32..] != sha(&[&head[..32], table].concat()) {
        return Err(FileError::Checksum { section: "the header".into() });
    }
    let mut sections = Vec::with_capacity(n);
    let mut end = UNIT + table.len();
    for (index, row) in table.chunks_exact(UNIT).enumerate() {
        let section = section(row, end, file).ok_or_else(|| {
            FileError::corrupt("the section table", format!("row {index} does not follow from the one before"))
        })?;
        end = section.range.end;
        sections.push(section);
    }
    match sections.first() {
        Some(first) if first.kind == Kind::Plan && end == file.len() => Ok(sections),
        _ => Err(FileError::corrupt("the section table", "the plan is not first, or the last section ends early")),
    }
}

/// The number of sections.
fn check_header(file: &[u8]) -> Result<usize, FileError> {
    let found = &file[..file.len().min(MAGIC.len())];
    if found != &MAGIC[..found.len()] || found.is_empty() {
        return Err(FileError::NotAPlan { found: found.to_vec() });
    }
    let truncated = |expected: u64| FileError::Truncated { found: file.len() as u64, expected };
    let header = file.first_chunk::<UNIT>().ok_or_else(|| truncated(UNIT as u64))?;
    let [format, needs, flags, n] = [8, 12, 16, 20].map(|at| u32_at(header, at));
    if needs > FORMAT || format == 0 || needs > format {
        return Err(FileError::Version { format, needs, ours: FORMAT });
    }
    if flags != 0 {
        return Err(FileError::Flags { flags });
    }
    let (found, len) = (file.len() as u64, u64_at(header, 24));
    if found < len {
        return Err(truncated(len));
    }
    if found > len {
        return Err(FileError::Trailing { extra: found - len });
    }
    Ok(n as usize)
}

/// A row whose section begins at the first multiple of [`UNIT`] from `end` on, behind zeros.
fn section(row: &[u8], end: usize, file: &[u8]) -> Option<Section> {
    let kind = Kind::from_u32(u32_at(row, 0))?;
    let (offset, len) = (usize::try_from(u64_at(row, 8)).ok()?, usize::try_from(u64_at(row, 16)).ok()?);
    let range = offset..offset.checked_add(len).filter(|e| *e <= file.len())?;
    let gap = file.get(end..offset)?;
    let zero = u32_at(row, 4) == 0 && u64_at(row, 24) == 0 && gap.iter().all(|b| *b == 0);
    let sha = *row.last_chunk::<32>()?;
    (zero && offset == end.checked_next_multiple_of(UNIT)?).then_some(Section { kind, range, sha })
}

/// Four bytes of a header or row, whose length has been checked.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
}
