//! `.npz` archives of arrays, stored or deflated.
//!
//! An entry may only unpack to what its packed bytes can hold (deflate expands by at most 1032), and a packed one to
//! [`MAX_UNPACKED`] at most, so a small file cannot ask for much memory. Every entry is read to its end, where the archive
//! reader compares its checksum.

use super::npy;
use crate::error::{Error, Result, codes};
use ottava_hal::Tensor;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, Write};
use std::path::Path;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter, write::SimpleFileOptions};

/// The largest factor by which deflate can expand.
const MAX_EXPANSION: u64 = 1032;
/// Bytes that a packed entry may unpack to. Stored entries are as large as their file.
const MAX_UNPACKED: u64 = 4 << 30;

/// Reads every array of an archive file.
pub(crate) fn read_file(path: &Path) -> Result<BTreeMap<String, Tensor>> {
    let reading = |e: std::io::Error| Error::reading(codes::DATA_FILE, path, &e);
    let file = File::open(path).map_err(reading)?;
    read(BufReader::new(file)).map_err(|e| e.in_file(path))
}

/// Reads every array of an archive.
pub(crate) fn read(source: impl Read + Seek) -> Result<BTreeMap<String, Tensor>> {
    let damaged = |e: &dyn std::fmt::Display| {
        Error::invalid(codes::DATA_FILE, format!("not a readable `.npz` archive: {e}"))
            .help("write it again with `numpy.savez`")
    };
    let mut archive = ZipArchive::new(source).map_err(|e| damaged(&e))?;
    let mut arrays = BTreeMap::new();
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).map_err(|e| damaged(&e))?;
        let file_name = entry.name().map_err(|e| damaged(&e))?.into_owned();
        let Some(name) = file_name.strip_suffix(".npy").map(str::to_owned) else { continue };
        let place = |e: Error| e.at(format!("array `{name}`"));
        check_size(entry.size(), entry.compression()).map_err(place)?;
        let available = entry.size().min(entry.compressed_size().saturating_mul(MAX_EXPANSION));
        let array = npy::read(&mut entry, available).map_err(place)?;
        // The checksum is compared where the entry ends.
        std::io::copy(&mut entry, &mut std::io::sink()).map_err(|e| place(damaged(&e)))?;
        arrays.insert(name, array);
    }
    Ok(arrays)
}

fn check_size(unpacked: u64, method: CompressionMethod) -> Result<()> {
    if method == CompressionMethod::Stored || unpacked <= MAX_UNPACKED {
        return Ok(());
    }
    Err(Error::invalid(codes::DATA_FILE, "the packed array is too large to be unpacked into memory")
        .found(format!("{unpacked} bytes"))
        .expected(format!("at most {MAX_UNPACKED}"))
        .help("write it without compression: `numpy.savez`"))
}

/// Writes arrays as an uncompressed archive, in the order of their names.
pub(crate) fn write_file(path: &Path, arrays: &BTreeMap<String, Tensor>) -> Result<()> {
    let writing = |e: std::io::Error| Error::writing(codes::DATA_WRITE, path, &e);
    std::fs::write(path, to_bytes(arrays, &writing)?).map_err(writing)
}

fn to_bytes(arrays: &BTreeMap<String, Tensor>, writing: &dyn Fn(std::io::Error) -> Error) -> Result<Vec<u8>> {
    let mut out = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, tensor) in arrays {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .large_file(tensor.bytes().len() > u32::MAX as usize / 2);
        out.start_file(format!("{name}.npy"), options).map_err(|e| writing(e.into()))?;
        out.write_all(&npy::to_bytes(tensor)?).map_err(writing)?;
    }
    Ok(out.finish().map_err(|e| writing(e.into()))?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> BTreeMap<String, Tensor> {
        let x = Tensor::from_slice(&[2, 2], &[1u8, 2, 3, 4]).unwrap();
        BTreeMap::from([("x".to_owned(), x), ("labels".to_owned(), Tensor::from_slice(&[2], &[0i64, 1]).unwrap())])
    }

    #[test]
    fn archives_round_trip() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        write_file(&path, &archive()).unwrap();
        assert_eq!(read_file(&path).unwrap(), archive());
    }

    #[test]
    fn a_flipped_bit_of_the_data_fails_the_checksum() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        write_file(&path, &archive()).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(4).position(|w| w == [1, 2, 3, 4]).unwrap();
        bytes[at + 2] ^= 1;
        let e = read(Cursor::new(&bytes)).unwrap_err().to_string();
        assert!(e.contains("array `x`") && e.contains("checksum"), "{e}");
    }

    #[test]
    fn only_packed_arrays_have_a_bound() {
        assert!(check_size(MAX_UNPACKED + 1, CompressionMethod::Deflated).is_err());
        assert!(check_size(MAX_UNPACKED, CompressionMethod::Deflated).is_ok());
        assert!(check_size(MAX_UNPACKED + 1, CompressionMethod::Stored).is_ok());
    }

    #[test]
    fn every_truncation_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        write_file(&path, &archive()).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..bytes.len() {
            assert!(read(Cursor::new(&bytes[..cut])).is_err(), "{cut} bytes");
        }
    }
}
