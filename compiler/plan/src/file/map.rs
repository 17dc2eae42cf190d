//! Files as shared memory. The one module of the compiler with `unsafe` code, because a mapping is only as constant as the
//! file is.
#![allow(unsafe_code)]

use memmap2::{Mmap, MmapOptions};
use ottava_hal::SharedBytes;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A mapped file.
struct Mapped(Mmap);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes of a regular file; they are read when they are first used. The mapping begins at a page, so offsets within the
/// file keep their alignment.
pub(crate) fn map(path: &Path) -> io::Result<SharedBytes> {
    let file = File::open(path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if data.len() == 0 {
        return Ok(Arc::new(Vec::new()));
    }
    // SAFETY: the mapping is read-only and private to this process. Plan files are never changed in place: `write` makes a
    // new file and renames it, so the mapped one keeps its bytes as long as someone holds it. Only a foreign
    // program that overwrites a plan in place could break that, as it could any mapped library.
    let map = unsafe { MmapOptions::new().populate().map(&file)? };
    Ok(Arc::new(Mapped(map)))
}
