//! Reads the ABI note from a library's file, before the dynamic linker runs any of its code (abi.md section 3).
//!
//! Only the headers and the note's section are read. Every offset in the file is a stranger's: `object` checks bounds.

use crate::refusal::{Refusal, Result};
use object::read::ReadCache;
use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSection, elf};
use ottava_abi::note::{MAGIC, MAJOR};
use ottava_abi::{AbiNote, CORE_HASH, SECTION, door, status, text_of};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A section beyond this size is no note.
const MAX_SECTION: u64 = 4096;

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = elf::EM_AARCH64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: u16 = elf::EM_NONE;

/// What a library says of itself, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    /// Name of the driver.
    pub name: String,
    /// Version of the driver.
    pub version: String,
    /// Version of the SDK, major and minor.
    pub sdk: (u32, u32),
    /// `OTTAVA_DOOR_*`.
    pub doors: u32,
}

fn check_header(file: &mut File) -> Result<()> {
    let mut head = [0; 20];
    let n = file.read(&mut head).map_err(|e| Refusal::load(format!("cannot be read: {e}")))?;
    if n < head.len() || head[..4] != elf::ELFMAG {
        return Err(Refusal::load("is not an ELF file"));
    }
    if head[4] != elf::ELFCLASS64 || head[5] != elf::ELFDATA2LSB {
        return Err(Refusal::load("is an ELF file for another kind of machine (32 bits or big-endian)"));
    }
    let kind = u16::from_le_bytes([head[16], head[17]]);
    if kind != elf::ET_DYN {
        return Err(Refusal::load(format!("is an ELF file of type {kind}, not a shared library (3)")));
    }
    let machine = u16::from_le_bytes([head[18], head[19]]);
    if machine != MACHINE {
        let arch = std::env::consts::ARCH;
        return Err(Refusal::load(format!("is built for ELF machine {machine}, this is {arch} ({MACHINE})")));
    }
    Ok(())
}

/// The bytes of the note's section; none if there is no such section.
fn section_bytes(file: File) -> Result<Option<Vec<u8>>> {
    let damaged = |e: object::Error| Refusal::load(format!("is a damaged ELF file: {e}"));
    let cache = ReadCache::new(file);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).map_err(damaged)?;
    if !elf.elf_header().is_type_64() {
        return Err(Refusal::load("is a damaged ELF file"));
    }
    let Some(section) = elf.section_by_name(SECTION) else { return Ok(None) };
    if section.size() > MAX_SECTION {
        return Err(bad(format!("has {} bytes", section.size())));
    }
    section.data().map(|bytes| Some(bytes.to_vec())).map_err(damaged)
}

fn bad(what: impl std::fmt::Display) -> Refusal {
    Refusal::load(format!("the ABI note (section {SECTION}) {what}; build the driver with the driver kit's macro"))
}

/// Whether a file is a library with a note, whatever the note says.
pub(crate) fn has_note(path: &Path) -> bool {
    let open = || File::open(path).ok();
    let Some(mut file) = open() else { return false };
    check_header(&mut file).is_ok() && open().is_some_and(|f| matches!(section_bytes(f), Ok(Some(_))))
}

/// The note of a library that this host can load.
pub(crate) fn read(path: &Path) -> Result<Note> {
    let mut file = File::open(path).map_err(|e| Refusal::load(format!("cannot be opened: {e}")))?;
    check_header(&mut file)?;
    let bytes = section_bytes(file)?.ok_or_else(|| {
        let what = format!("is no driver of this kind: it has no ABI note (section {SECTION})");
        Refusal::load(format!("{what}; drivers end with OTTAVA_EXPORT_DRIVER or export_driver!"))
    })?;
    let short = || bad(format!("has {} bytes, expected {}", bytes.len(), size_of::<AbiNote>()));
    check(&AbiNote::from_bytes(&bytes).ok_or_else(short)?)
}

/// Compares a note with this host.
fn check(note: &AbiNote) -> Result<Note> {
    if note.magic != MAGIC {
        return Err(bad("does not begin with OTTAVAv1"));
    }
    let sdk = format!("{}.{}.{}", note.sdk_major, note.sdk_minor, note.sdk_patch);
    if !(note.major_min..=note.major_max).contains(&MAJOR) {
        let (lo, hi) = (note.major_min, note.major_max);
        let what = format!("the driver (SDK {sdk}) speaks ABI major versions {lo} to {hi}, this host speaks {MAJOR}");
        return Err(Refusal::new(status::ABI_RANGE, what));
    }
    if note.core_hash != CORE_HASH {
        let what = format!("the driver's tables (SDK {sdk}, hash {:016x}) are not this host's", note.core_hash);
        let help = "build the driver with this version of the kit";
        return Err(Refusal::new(status::LAYOUT_MISMATCH, format!("{what} ({CORE_HASH:016x}); {help}")));
    }
    if note.doors & (door::C | door::RUST) == 0 {
        return Err(bad("names no door that this host knows"));
    }
    let shown = |text: &[u8]| crate::foreign::name(&text_of(text));
    let (name, version) = (shown(&note.name), shown(&note.version));
    if name.is_empty() {
        return Err(bad("has no driver name"));
    }
    Ok(Note { name, version, sdk: (note.sdk_major, note.sdk_minor), doors: note.doors })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut AbiNote)) -> Refusal {
        let mut note = AbiNote::new("acme", "1.2.0");
        change(&mut note);
        check(&note).unwrap_err()
    }

    #[test]
    fn a_note_of_this_kit_is_accepted() {
        let note = check(&AbiNote::new("acme", "1.2.0")).unwrap();
        assert_eq!((note.name.as_str(), note.version.as_str(), note.doors & door::C), ("acme", "1.2.0", door::C));
    }

    #[test]
    fn a_driver_that_also_speaks_later_versions_is_accepted() {
        let mut note = AbiNote::new("acme", "1.2.0");
        note.major_max = 7;
        assert!(check(&note).is_ok());
    }

    #[test]
    fn every_mismatch_is_a_sentence_with_both_sides() {
        let r = refused(|n| (n.major_min, n.major_max) = (2, 3));
        assert_eq!(r.code, status::ABI_RANGE);
        assert!(r.reason.contains("2 to 3") && r.reason.contains("speaks 0"), "{}", r.reason);
        let r = refused(|n| n.core_hash = 0x1234);
        assert_eq!(r.code, status::LAYOUT_MISMATCH);
        assert!(r.reason.contains("0000000000001234") && r.reason.contains(&format!("{CORE_HASH:016x}")));
        assert!(refused(|n| n.magic[0] = 0).reason.contains("OTTAVAv1"));
        assert!(refused(|n| n.doors = 8).reason.contains("door"));
        assert!(refused(|n| n.name = [0; 32]).reason.contains("name"));
    }

    #[test]
    fn files_that_are_no_libraries_say_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.so");
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read(&path).unwrap_err().reason
        };
        assert!(refused(b"").contains("not an ELF file"));
        assert!(refused(b"#!/bin/sh\nexit 0\n#########").contains("not an ELF file"));
        let mut head = [0; 64];
        head[..6].copy_from_slice(b"\x7fELF\x01\x01");
        assert!(refused(&head).contains("another kind of machine"));
        head[4] = 2;
        assert!(refused(&head).contains("type 0"));
        head[16] = 3;
        assert!(refused(&head).contains("ELF machine 0"));
        head[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        head[40] = 0xff; // The section headers begin behind the end of the file.
        head[60] = 9;
        assert!(refused(&head).contains("damaged") || refused(&head).contains("no ABI note"));
    }

    /// A small library with a note, made by the C compiler of the machine; none if there is none.
    fn small_library(dir: &Path) -> Option<Vec<u8>> {
        let (source, library) = (dir.join("x.c"), dir.join("libx.so"));
        let text = "__attribute__((section(\".ottava.abi\"), used)) const char note[88] = \"OTTAVAv1\";";
        std::fs::write(&source, text).unwrap();
        let status =
            std::process::Command::new("cc").args(["-shared", "-o"]).arg(&library).arg(&source).status().ok()?;
        assert!(status.success());
        Some(std::fs::read(library).unwrap())
    }

    #[test]
    fn damaged_libraries_are_refused_and_never_a_panic() {
        let dir = tempfile::tempdir().unwrap();
        let Some(good) = small_library(dir.path()) else { return };
        let path = dir.path().join("damaged.so");
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            // The note's tables are of no version, so nothing is ever accepted.
            assert!(!read(&path).unwrap_err().reason.is_empty());
        };
        refused(&good);
        for n in (0..good.len()).step_by(1009) {
            refused(&good[..n]);
        }
        // The file's header, and the section headers at its end.
        for i in (0..64).chain((good.len().saturating_sub(2048)..good.len()).step_by(5)) {
            let mut bytes = good.clone();
            bytes[i] ^= 0xff;
            refused(&bytes);
        }
    }

    #[test]
    fn a_library_without_a_note_is_no_driver() {
        let libc = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = libc.lines().filter_map(|l| l.split_whitespace().nth(5)).find(|p| p.contains("libc.so")).unwrap();
        assert!(read(Path::new(path)).unwrap_err().reason.contains("no ABI note"));
        assert!(!has_note(Path::new(path)));
    }
}
