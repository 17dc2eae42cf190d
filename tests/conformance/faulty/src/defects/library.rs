//! Group A: what is wrong with a library, not with the driver in it. Made of the C template by the C compiler, or of a
//! right library by changing bytes of its note.

/// How a wrong library is made.
#[derive(Debug, Clone, Copy)]
pub enum Make {
    /// `c/tables.c` with macros, and more arguments for the compiler.
    Compiled(&'static [&'static str]),
    /// Bytes of the note of a right library, from an offset.
    Note(usize, &'static [u8]),
    /// A right library with this manifest beside it.
    Manifest(&'static str),
    /// This crate's own library, whose driver has one of the other defects.
    Kit(&'static str),
}

/// A library with a defect.
pub struct LibraryDefect {
    /// Its name.
    pub name: &'static str,
    /// The group that it breaks.
    pub group: &'static str,
    /// The case that must catch it.
    pub case: &'static str,
    /// What the first message of the case must contain.
    pub word: &'static str,
    /// How it is made.
    pub make: Make,
}

const fn defect(
    name: &'static str,
    group: &'static str,
    case: &'static str,
    word: &'static str,
    make: Make,
) -> LibraryDefect {
    LibraryDefect { name, group, case, word, make }
}

use Make::{Compiled, Kit, Manifest, Note};

/// Every one of them.
pub static LIBRARY_DEFECTS: &[LibraryDefect] = &[
    defect("export_of_another", "A.1", "load.symbol.exports", "protobuf_shutdown", Compiled(&["-DWRONG_EXPORT"])),
    defect(
        "entry_hidden",
        "A.1",
        "load.symbol.entry",
        "exports no",
        Compiled(&["-Dottava_driver_entry_v1=ottava_driver_entry_v2"]),
    ),
    defect("undefined_symbol", "A.1", "load.symbol.opens", "nobody_has_this", Compiled(&["-DWRONG_UNDEFINED"])),
    defect("entry_fails", "A.1", "load.symbol.opens", "kernel module", Compiled(&["-DWRONG_ENTRY_FAILS"])),
    defect("text_relocations", "A.1", "load.symbol.text_relocations", "-fPIC", Compiled(TEXT_RELOCATIONS)),
    defect("manifest_of_another", "A.2", "load.manifest.beside", "does not load", Manifest(OTHER_ARCH)),
    defect("manifest_wrong_hash", "A.2", "load.manifest.beside", "SHA-256", Manifest(WRONG_HASH)),
    defect("manifest_unknown_key", "A.2", "load.manifest.beside", "does not load", Manifest(UNKNOWN_KEY)),
    defect("no_note", "A.3", "load.version.note", "no ABI note", Compiled(&["-DWRONG_NO_NOTE"])),
    defect("note_magic", "A.3", "load.version.note", "OTTAVAv1", Note(0, b"X")),
    defect("note_range", "A.3", "load.version.range", "7 to 9", Note(8, &[7, 0, 0, 0, 9, 0, 0, 0])),
    defect("note_name", "A.3", "load.version.identity", "another", Compiled(&["-DNOTE_NAME=\"another\""])),
    defect("note_hash", "A.4", "load.layout.core_hash", "hash of the tables", Note(32, &[1, 2, 3, 4])),
    defect("table_size", "A.4", "load.layout.tables", "size and kind", Compiled(&["-DWRONG_TABLE_SIZE"])),
    defect("extension_layout", "A.4", "load.layout.extensions", "has the layout", Compiled(&["-DWRONG_PROFILE"])),
    defect("null_submit", "A.5", "load.required.no_null", "submit is NULL", Compiled(&["-DWRONG_NULL_SUBMIT"])),
    defect("null_shutdown", "A.5", "load.required.no_null", "shutdown is NULL", Compiled(&["-DWRONG_NULL_SHUTDOWN"])),
    defect(
        "any_extension",
        "A.5",
        "load.required.unknown_extension",
        "expected NOT_FOUND",
        Compiled(&["-DWRONG_ANY_EXTENSION"]),
    ),
    defect("count_one_more", "A.5", "load.required.two_calls", "counts 2 devices", Compiled(&["-DWRONG_COUNT"])),
    defect(
        "size_ignored",
        "A.5",
        "load.required.sizes",
        "expected INVALID_ARGUMENT",
        Compiled(&["-DWRONG_SIZE_IGNORED"]),
    ),
    defect("error_without_words", "A.5", "load.required.error_words", "without words", Compiled(&["-DWRONG_MUTE"])),
    defect("null_written", "A.5", "load.required.null_arguments", "signal", Compiled(&["-DWRONG_NULL_COUNT"])),
    defect("thread_after_shutdown", "A.6", "load.twice.shutdown", "threads", Kit("thread_leak")),
    defect("shutdown_endless", "A.6", "load.twice.shutdown", "no end", Compiled(&["-DWRONG_SHUTDOWN_ENDLESS"])),
    defect("shutdown_aborts", "A.6", "load.twice.again", "signal", Compiled(&["-DWRONG_SHUTDOWN_ABORTS"])),
];

/// A library that is not position independent, which the linker allows when it is told to.
const TEXT_RELOCATIONS: &[&str] = &["-fno-pic", "-mcmodel=large", "-Wl,-z,notext"];

const OTHER_ARCH: &str = "Driver(abi: \"1\", library: \"LIBRARY\", os: \"linux\", arch: \"vax\")";
const WRONG_HASH: &str = "Driver(abi: \"1\", library: \"LIBRARY\", \
    sha256: Some(\"0000000000000000000000000000000000000000000000000000000000000000\"))";
const UNKNOWN_KEY: &str = "Driver(abi: \"1\", library: \"LIBRARY\", speed: \"fast\")";
