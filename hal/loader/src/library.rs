//! Opens a library and knocks at its doors.
//!
//! `dlopen` with `RTLD_NOW | RTLD_LOCAL`: undefined symbols fail here, with the dynamic linker's text, and a driver's
//! symbols do not leak into the process. Libraries are never closed: threads, thread-local destructors and exit handlers
//! of a driver would run in unmapped memory. That holds for libraries that are refused after they were opened, too.

use crate::note::Note;
use crate::refusal::{Refusal, Result};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use ottava_abi::{DriverV1, ENTRY_SYMBOL, EntryFn, ErrorV1, HostV1, door, status};
use std::path::Path;

/// Which door was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// The exported function.
    C,
    /// The abi_stable root module.
    Rust,
}

impl Door {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Rust => "rust",
        }
    }
}

/// Opens a library for good and finds the entry of the best door.
pub(crate) fn open(path: &Path, note: &Note) -> Result<(EntryFn, Door)> {
    // SAFETY: this runs the library's constructors. The caller has applied the policy and read the ABI note: the file is
    // one that the application trusts to run in its process.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|e| Refusal::load(format!("cannot be opened: {e}")))?;
    // The handle is given up on purpose, whatever follows; see the top of this file.
    let library: &'static Library = Box::leak(Box::new(library));
    match rust_entry(path, note)? {
        Some(entry) => Ok((entry, Door::Rust)),
        None => Ok((c_entry(library)?, Door::C)),
    }
}

fn c_entry(library: &Library) -> Result<EntryFn> {
    // SAFETY: the note says that the library was made with this contract, where the symbol is a function of this type.
    let symbol = unsafe { library.get::<EntryFn>(ENTRY_SYMBOL.as_bytes()) };
    symbol.map(|s| *s).map_err(|e| Refusal::load(format!("exports no {ENTRY_SYMBOL}: {e}")))
}

#[cfg(feature = "rust-door")]
fn rust_entry(path: &Path, note: &Note) -> Result<Option<EntryFn>> {
    if note.doors & door::RUST == 0 { Ok(None) } else { crate::rust_door::entry(path, note) }
}

#[cfg(not(feature = "rust-door"))]
fn rust_entry(_path: &Path, note: &Note) -> Result<Option<EntryFn>> {
    if note.doors & door::C != 0 {
        return Ok(None);
    }
    Err(Refusal::load("has only the Rust door, this host was built without it"))
}

/// Calls the entry; the driver's table, unchecked. What goes wrong inside becomes the reason.
pub(crate) fn enter(entry: EntryFn, host: &'static HostV1) -> Result<*const DriverV1> {
    let (mut out, mut err) = (std::ptr::null(), ErrorV1::blank());
    // SAFETY: the entry has this type by symbol and note or by the Rust door's check; the host table lives as long as the
    // process, the other two until the call returns.
    let code = unsafe { entry(host, &mut out, &mut err) };
    if code == status::OK {
        return Ok(out);
    }
    let name = status::name(code).unwrap_or("unknown status");
    let text = Some(err.text()).filter(|t| !t.is_empty()).unwrap_or_else(|| "the driver gives no reason".into());
    Err(Refusal::load(format!("the driver's entry failed with {name} ({code}): {text}")))
}
