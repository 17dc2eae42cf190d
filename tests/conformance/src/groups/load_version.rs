//! A.3: the note that says which versions of the contract a library speaks.

use super::Group;
use super::load_symbol::{bytes, library, load};
use crate::{Case, Check, Stop, Subject, ensure};
use object::{Object, ObjectSection};
use ottava_abi::note::{MAGIC, MAJOR};
use ottava_abi::{AbiNote, SECTION, door, text_of};

pub(super) const GROUP: Group = Group {
    id: "A.3",
    name: "load.version",
    about: "the note is there, its range holds this host's version, its name is the driver's",
    cases: |_| {
        vec![
            Case::new("A.3", "load.version.note", present),
            Case::new("A.3", "load.version.range", range),
            Case::new("A.3", "load.version.identity", identity),
        ]
    },
};

/// The note of the library.
pub(super) fn note(subject: &Subject) -> Result<AbiNote, Stop> {
    let bytes = bytes(subject)?;
    let file = object::File::parse(bytes.as_slice()).map_err(|e| Stop::failed(format!("no library: {e}")))?;
    let none = || Stop::failed(format!("the library has no ABI note (section {SECTION})"));
    let data = file.section_by_name(SECTION).ok_or_else(none)?.data().map_err(|_| none())?;
    AbiNote::from_bytes(data).ok_or_else(|| Stop::failed(format!("the ABI note has {} bytes", data.len())))
}

fn present(subject: &Subject) -> Check {
    let note = note(subject)?;
    ensure!(note.magic == MAGIC, "the ABI note does not begin with OTTAVAv1");
    let sdk = (note.sdk_major, note.sdk_minor, note.sdk_patch);
    ensure!(sdk != (0, 0, 0), "the ABI note has the SDK version 0.0.0");
    ensure!(note.doors & (door::C | door::RUST) != 0, "the ABI note names no door");
    Ok(())
}

fn range(subject: &Subject) -> Check {
    let note = note(subject)?;
    let (lo, hi) = (note.major_min, note.major_max);
    ensure!(lo <= hi, "the ABI note speaks major versions {lo} to {hi}: none");
    ensure!((lo..=hi).contains(&MAJOR), "the driver speaks major versions {lo} to {hi}, this host speaks {MAJOR}");
    Ok(())
}

fn identity(subject: &Subject) -> Check {
    let note = note(subject)?;
    let (name, version) = (text_of(&note.name), text_of(&note.version));
    ensure!(!name.is_empty() && !version.is_empty(), "the ABI note has no name or no version: `{name}` `{version}`");
    let info = load(library(subject)?).map_err(Stop::failed)?.info();
    ensure!(info.name == name, "the ABI note names the driver `{name}`, its table says `{}`", info.name);
    ensure!(!info.version.is_empty(), "the driver's table has no version");
    Ok(())
}
