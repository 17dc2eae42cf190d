//! A.1: the library's symbols.

use super::Group;
use crate::{Case, Check, Stop, Subject, ensure};
use object::elf::{DF_TEXTREL, DT_FLAGS, DT_TEXTREL, FileHeader64};
use object::read::elf::{Dyn, FileHeader};
use object::{Endianness, Object, ObjectSymbol};
use ottava_abi::{ENTRY_SYMBOL, NOTE_SYMBOL};
use ottava_loader::{LibrarySpec, LoadOptions, Search, load_all};
use std::path::Path;

pub(super) const GROUP: Group = Group {
    id: "A.1",
    name: "load.symbol",
    about: "the library opens, has an entry, exports nothing else, and needs no changes of its code",
    cases: |_| {
        vec![
            Case::new("A.1", "load.symbol.entry", entry),
            Case::new("A.1", "load.symbol.exports", exports),
            Case::new("A.1", "load.symbol.text_relocations", text_relocations),
            Case::new("A.1", "load.symbol.opens", opens),
        ]
    },
};

/// What a driver may export; the last one is abi_stable's.
const ALLOWED: [&str; 3] = [ENTRY_SYMBOL, NOTE_SYMBOL, "_1as_0lib_1header_0root_bmodule_bloader"];

/// The library under test; a driver that is linked in has none.
pub(super) fn library(subject: &Subject) -> Result<&Path, Stop> {
    let none = || Stop::Unsupported("the driver is linked in; there is no library".into());
    subject.library.as_deref().ok_or_else(none)
}

/// The bytes of the library.
pub(super) fn bytes(subject: &Subject) -> Result<Vec<u8>, Stop> {
    let path = library(subject)?;
    std::fs::read(path).map_err(|e| Stop::failed(format!("{}: {e}", path.display())))
}

fn damaged(e: object::Error) -> Stop {
    Stop::failed(format!("the library cannot be read: {e}"))
}

/// Names of what it defines for others.
fn exported(bytes: &[u8]) -> Result<Vec<String>, Stop> {
    let file = object::File::parse(bytes).map_err(damaged)?;
    let defined = file.dynamic_symbols().filter(|s| s.is_definition() && s.is_global() && !s.is_local());
    Ok(defined.filter_map(|s| s.name().ok().map(str::to_owned)).collect())
}

fn entry(subject: &Subject) -> Check {
    let names = exported(&bytes(subject)?)?;
    ensure!(names.iter().any(|n| n == ENTRY_SYMBOL), "the library exports no {ENTRY_SYMBOL}");
    Ok(())
}

fn exports(subject: &Subject) -> Check {
    let names = exported(&bytes(subject)?)?;
    let more: Vec<&String> = names.iter().filter(|n| !ALLOWED.contains(&n.as_str())).collect();
    ensure!(more.is_empty(), "the library exports {more:?}; a driver exports {ENTRY_SYMBOL} and {NOTE_SYMBOL} only");
    Ok(())
}

fn text_relocations(subject: &Subject) -> Check {
    let bytes = bytes(subject)?;
    let header = FileHeader64::<Endianness>::parse(bytes.as_slice()).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    let sections = header.sections(endian, bytes.as_slice()).map_err(damaged)?;
    let Some((entries, _)) = sections.dynamic(endian, bytes.as_slice()).map_err(damaged)? else {
        return Err(Stop::failed("the library has no dynamic section"));
    };
    for entry in entries {
        let (tag, value) = (entry.d_tag(endian), entry.d_val(endian));
        let flagged = tag == u64::from(DT_FLAGS) && value & u64::from(DF_TEXTREL) != 0;
        ensure!(tag != u64::from(DT_TEXTREL) && !flagged, "the library has text relocations; compile it with -fPIC");
    }
    Ok(())
}

/// Loads the library as an application does; its driver, or the reason of the refusal.
pub(super) fn load(path: &Path) -> Result<std::sync::Arc<dyn ottava_hal::Driver>, String> {
    let search = Search { user: false, system: false };
    let options = LoadOptions { libraries: vec![LibrarySpec::new(path)], search, ..LoadOptions::default() };
    let candidate = load_all(&options).into_iter().next();
    let candidate = candidate.ok_or_else(|| "the loader has not seen it".to_owned())?;
    candidate.driver.ok_or_else(|| candidate.reason.unwrap_or_else(|| "refused without a reason".into()))
}

fn opens(subject: &Subject) -> Check {
    let driver = load(library(subject)?).map_err(|why| Stop::failed(format!("the library does not load: {why}")))?;
    driver.devices().map(drop).map_err(|e| Stop::failed(format!("the driver does not list its devices: {e}")))
}
