//! Files beside a model as shared memory. The one module of this crate with `unsafe` code, because a mapping is only as
//! constant as the file is.
#![allow(unsafe_code)]

use memmap2::{Mmap, MmapOptions};
use prost::bytes::Bytes;
use std::fs::File;
use std::io;
use std::path::Path;

/// A mapped file.
struct Mapped(Mmap);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes of a regular file; each page is read when it is first used. The mapping begins at a page, so offsets in
/// the file keep their alignment.
pub(super) fn map(path: &Path) -> io::Result<Bytes> {
    let file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the mapping is read-only and private to this process. Files of weights are written once, by whoever
    // exports the model; only a program that changes one in place while it is in use could break the promise
    // that the bytes are constant, as it could for any mapped library.
    let map = unsafe { MmapOptions::new().map(&file)? };
    Ok(Bytes::from_owner(Mapped(map)))
}
