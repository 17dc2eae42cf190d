//! The bytes of an executable: the program. It is lowered anew when it is read, because launches from a stranger could
//! read outside their buffers; what takes long, compiled kernels, is in the drivers' own caches.
//!
//! Four bytes that name the driver, `u32` version, the program as [`ottava_hal::wire`] writes it.

use ottava_hal::wire::{self, Inline, Reader, Writer};
use ottava_hal::{Error, Program, Result, Status};

const VERSION: u32 = 1;

/// Writes a program.
pub fn write(magic: &[u8; 4], program: &Program) -> Result<Vec<u8>> {
    let mut out = Writer::default();
    wire::encode(program, &mut Inline, &mut out)?;
    Ok([&magic[..], &VERSION.to_le_bytes(), &out.into_bytes()].concat())
}

/// Reads a program.
pub fn read(magic: &[u8; 4], bytes: &[u8]) -> Result<Program> {
    let early = || wire::corrupt("the blob ends too early");
    let (found, rest) = bytes.split_at_checked(4).ok_or_else(early)?;
    let (version, rest) = rest.split_at_checked(4).ok_or_else(early)?;
    if found != magic {
        return Err(wire::corrupt("the blob is not one of this driver; compile the program again"));
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
        let bytes = write(b"TEST", &program).unwrap();
        assert_eq!(read(b"TEST", &bytes).unwrap(), program);
        assert!(read(b"REST", &bytes).is_err());
        for n in 0..bytes.len() {
            assert!(read(b"TEST", &bytes[..n]).is_err(), "cut at {n}");
            let mut damaged = bytes.clone();
            damaged[n] ^= 1;
            drop(read(b"TEST", &damaged));
        }
        let mut other = bytes;
        other[4] = 9;
        assert_eq!(read(b"TEST", &other).unwrap_err().status(), Status::IncompatibleBlob);
    }
}
