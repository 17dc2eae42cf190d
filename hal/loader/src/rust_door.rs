//! The Rust door: abi_stable compares the whole contract field by field; what differs becomes one line per field.
//!
//! The library is loaded by its header, never by `load_from_file`, which caches per type and would return the first driver
//! for every later path.

use crate::note::Note;
use crate::refusal::{Refusal, Result};
use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::{
    AbiInstability, AbiInstabilityError, AbiInstabilityErrors, ExpectedFound, check_layout_compatibility,
};
use abi_stable::library::{LibHeader, LibraryError, lib_header_from_path};
use abi_stable::type_layout::TLFieldOrFunction;
use ottava_abi::root::RootRef;
use ottava_abi::{EntryFn, door, status};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

/// More lines than this are counted, not shown.
const MAX_LINES: usize = 8;

/// The entry behind the Rust door; none if it cannot be compared and the C door is there instead.
pub(crate) fn entry(path: &Path, note: &Note) -> Result<Option<EntryFn>> {
    let header = match lib_header_from_path(path) {
        Ok(header) => header,
        Err(e) if note.doors & door::C != 0 => {
            let (path, why) = (path.display(), one_line(&e.to_string()));
            tracing::info!("{path}: the Rust door cannot be used, the C door is: {why}");
            return Ok(None);
        }
        Err(e) => return Err(Refusal::load(format!("the Rust door: {}", one_line(&e.to_string())))),
    };
    match header.init_root_module::<RootRef>() {
        Ok(root) => Ok(Some(root.entry())),
        Err(LibraryError::AbiInstability(_)) => Err(mismatch(header)),
        Err(e) => Err(Refusal::load(format!("the Rust door: {}", one_line(&e.to_string())))),
    }
}

/// Compares once more, for errors that can be taken apart.
fn mismatch(header: &LibHeader) -> Refusal {
    let lines = match header.layout().map(|found| check_layout_compatibility(RootRef::LAYOUT, found)) {
        Some(Err(errors)) => describe(&errors),
        _ => vec!["the layouts of the tables differ".to_owned()],
    };
    Refusal::new(status::LAYOUT_MISMATCH, format!("the driver's tables differ from this host's: {}", lines.join("; ")))
}

/// One line per field that differs: `DeviceVtblV1.alloc: expected u64, found u32`.
fn describe(errors: &AbiInstabilityErrors) -> Vec<String> {
    let all: BTreeSet<String> = errors.errors.iter().flat_map(lines).collect();
    let rest = all.len().saturating_sub(MAX_LINES);
    let mut lines: Vec<String> = all.into_iter().take(MAX_LINES).collect();
    if rest > 0 {
        lines.push(format!("and {rest} more"));
    }
    lines
}

fn lines(error: &AbiInstabilityError) -> Vec<String> {
    let place = place(&error.stack_trace);
    error.errs.iter().map(|e| format!("{place}: {}", difference(e))).collect()
}

/// The table and field at the end of the path through the contract.
fn place(trace: &[ExpectedFound<TLFieldOrFunction>]) -> String {
    let names: Vec<String> = trace.iter().map(|step| name(&step.expected)).collect();
    let table = trace.iter().rev().skip(1).find_map(|step| match &step.expected {
        TLFieldOrFunction::Field(field) => Some(field.layout().name()).filter(|n| n.ends_with("V1") || *n == "Root"),
        TLFieldOrFunction::Function(_) => None,
    });
    let field = names.last().map_or("Root", String::as_str);
    table.map_or_else(|| field.to_owned(), |table| format!("{table}.{field}"))
}

/// The name of a step; a field without a name is called like its type.
fn name(step: &TLFieldOrFunction) -> String {
    match step {
        TLFieldOrFunction::Field(field) if field.name().starts_with(|c: char| c.is_ascii_digit()) => {
            field.layout().name().to_owned()
        }
        TLFieldOrFunction::Field(field) => field.name().to_owned(),
        TLFieldOrFunction::Function(_) => "function".to_owned(),
    }
}

fn difference(e: &AbiInstability) -> String {
    fn both<T: ToString>(v: &ExpectedFound<T>) -> String {
        format!("expected {}, found {}", one_line(&v.expected.to_string()), one_line(&v.found.to_string()))
    }
    fn debug<T: Debug>(v: &ExpectedFound<T>) -> String {
        format!("expected {}, found {}", one_line(&format!("{:?}", v.expected)), one_line(&format!("{:?}", v.found)))
    }
    match e {
        AbiInstability::Name(v) | AbiInstability::GenericParamCount(v) => both(v),
        AbiInstability::Package(v) => format!("package: {}", both(v)),
        AbiInstability::PackageVersion(v) => format!("package version: {}", both(v)),
        AbiInstability::Size(v) => format!("size: {}", both(v)),
        AbiInstability::Alignment(v) => format!("alignment: {}", both(v)),
        AbiInstability::FieldCountMismatch(v) => format!("number of fields: {}", both(v)),
        AbiInstability::MismatchedPrimitive(v) => debug(v),
        AbiInstability::UnexpectedField(v) => {
            format!("expected field `{}`, found `{}`", v.expected.name(), v.found.name())
        }
        other => one_line(&format!("{other:?}")),
    }
}

/// The first words of a text of many lines.
fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    #![allow(non_local_definitions)] // abi_stable's derive needs it.
    use super::*;
    use abi_stable::type_layout::TypeLayout;

    fn compare(expected: &'static TypeLayout, found: &'static TypeLayout) -> Vec<String> {
        check_layout_compatibility(expected, found).err().map(|e| describe(&e)).unwrap_or_default()
    }

    mod host {
        #[repr(C)]
        #[derive(abi_stable::StableAbi)]
        pub struct InnerV1 {
            pub len: u64,
            pub kind: u32,
        }

        #[repr(C)]
        #[derive(abi_stable::StableAbi)]
        pub struct TableV1 {
            pub size: u32,
            pub alloc: unsafe extern "C" fn(inner: *const InnerV1, bytes: u64) -> i32,
        }
    }

    mod driver {
        #[repr(C)]
        #[derive(abi_stable::StableAbi)]
        pub struct InnerV1 {
            pub len: u32,
            pub kind: u32,
        }

        #[repr(C)]
        #[derive(abi_stable::StableAbi)]
        pub struct TableV1 {
            pub size: u32,
            pub alloc: unsafe extern "C" fn(inner: *const InnerV1, bytes: u64) -> i32,
        }
    }

    #[test]
    fn a_changed_field_is_one_short_line() {
        let lines = compare(host::TableV1::LAYOUT, driver::TableV1::LAYOUT);
        assert!(lines.contains(&"InnerV1.len: expected u64, found u32".to_owned()), "{lines:#?}");
        assert!(lines.iter().all(|l| l.len() < 300 && !l.contains('\n')), "{lines:#?}");
    }

    #[test]
    fn equal_layouts_have_nothing_to_say() {
        assert!(compare(host::TableV1::LAYOUT, host::TableV1::LAYOUT).is_empty());
        assert!(compare(RootRef::LAYOUT, RootRef::LAYOUT).is_empty());
    }
}
