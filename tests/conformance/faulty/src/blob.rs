//! Saved executables: a mark, the program, and a checksum over both.

use ottava_hal::wire::{Inline, Reader, Writer, decode, encode};
use ottava_hal::{Error, Program, Result, Status};

const MAGIC: &[u8; 8] = b"OTTfaul1";

/// FNV-1a-64.
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// The bytes of a program.
pub(crate) fn write(program: &Program) -> Result<Vec<u8>> {
    let mut w = Writer::default();
    w.raw(MAGIC);
    encode(program, &mut Inline, &mut w)?;
    let mut bytes = w.into_bytes();
    bytes.extend(checksum(&bytes).to_le_bytes());
    Ok(bytes)
}

/// The program of bytes, if nothing about them is wrong.
pub(crate) fn read(bytes: &[u8]) -> Result<Program> {
    let corrupt = |what: &str| Error::failed(Status::CorruptBlob, what);
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or_else(|| corrupt("too short"))?;
    if checksum(body) != u64::from_le_bytes(*sum) {
        return Err(corrupt("the checksum is wrong"));
    }
    unchecked(body)
}

/// The program of bytes without their checksum.
pub fn unchecked(body: &[u8]) -> Result<Program> {
    let program = body.strip_prefix(MAGIC);
    let program = program.ok_or_else(|| Error::failed(Status::CorruptBlob, "not a blob of this driver"))?;
    let mut reader = Reader::new(program);
    let program = decode(&mut reader, &mut Inline)?;
    reader.end()?;
    Ok(program)
}
