//! The bytes of an executable: the program. It is lowered anew when it is read, because launches from a stranger could
//! read outside their buffers; the compiled pipelines are in the pipeline cache.
//!
//! `"OVKB"`, `u32` version, the program as [`ottava_hal::wire`] writes it.

use ottava_hal::wire::{self, Inline, Reader, Writer};
use ottava_hal::{Error, Program, Result, Status};

const MAGIC: &[u8; 4] = b"OVKB";
const VERSION: u32 = 1;

/// Writes a program.
pub(crate) fn write(program: &Program) -> Result<Vec<u8>> {
    let mut out = Writer::default();
    wire::encode(program, &mut Inline, &mut out)?;
    Ok([&MAGIC[..], &VERSION.to_le_bytes(), &out.into_bytes()].concat())
}

/// Reads a program.
pub(crate) fn read(bytes: &[u8]) -> Result<Program> {
    let (magic, rest) = bytes.split_at_checked(4).ok_or_else(|| wire::corrupt("the blob ends too early"))?;
    let (version, rest) = rest.split_at_checked(4).ok_or_else(|| wire::corrupt("the blob ends too early"))?;
    if magic != MAGIC {
        return Err(wire::corrupt("the blob does not begin with OVKB; compile the program again"));
    }
    if version != VERSION.to_le_bytes() {
        let what = format!("the blob is of another version than {VERSION}; compile the program again");
        return Err(Error::failed(Status::IncompatibleBlob, what));
    }
    let mut reader = Reader::new(rest);
    let program = wire::decode(&mut reader, &mut Inline)?;
    reader.end()?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_reads_back_and_damage_is_an_error_or_a_program() {
        let program = Program { name: "empty".into(), ..Program::default() };
        let bytes = write(&program).unwrap();
        assert_eq!(read(&bytes).unwrap(), program);
        for n in 0..bytes.len() {
            assert!(read(&bytes[..n]).is_err(), "cut at {n}");
            let mut damaged = bytes.clone();
            damaged[n] ^= 1;
            drop(read(&damaged));
        }
        let mut other = bytes;
        other[4] = 9;
        assert_eq!(read(&other).unwrap_err().status(), Status::IncompatibleBlob);
    }
}
