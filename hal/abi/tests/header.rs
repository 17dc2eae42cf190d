//! The C header: what is checked in is what the tables generate, it compiles as C11 and C++17 with every offset
//! asserted, and this version has not drifted from its frozen snapshot.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_header_in_the_tree_is_the_generated_one() {
    let same = read("sdk/include/ottava_driver.h") == ottava_abi::header::c_header();
    assert!(same, "run `cargo run -p ottava-abi --example header`");
}

/// The header without its comments, which may be improved after the freeze.
fn declarations(header: &str) -> String {
    let mut out = String::new();
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, tail)| tail);
    }
    out.push_str(rest);
    out.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn this_version_equals_its_frozen_snapshot() {
    let [major, minor, _] = ottava_abi::note::SDK_VERSION;
    let frozen = format!("hal/abi/frozen/{major}.{minor}");
    assert_eq!(read(&format!("{frozen}/layout.json")), ottava_abi::header::layout_json());
    let (then, now) = (read(&format!("{frozen}/ottava_driver.h")), ottava_abi::header::c_header());
    assert_eq!(declarations(&then), declarations(&now));
}

/// Compiles a source that includes the header; `None` if there is no such compiler.
fn compile(compiler: &str, arguments: &[&str], extension: &str, source: &str) -> Option<Result<(), String>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join(format!("driver.{extension}"));
    std::fs::write(&file, source).expect("the source can be written");
    let mut command = Command::new(compiler);
    command.args(arguments).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]);
    command.arg("-I").arg(repository().join("sdk/include")).arg(&file);
    let output = command.output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(errors) })
}

/// Says that a check did not run; the test script counts these lines.
fn skip(test: &str, reason: &str) {
    let line = format!("{test}: {reason}\n");
    eprint!("skipped: {line}");
    if let Some(log) = std::env::var_os("OTTAVA_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut f| f.write_all(line.as_bytes())).expect("the skip log can be written");
    }
}

fn compiles(test: &str, compiler: &str, arguments: &[&str], extension: &str, source: &str) {
    match compile(compiler, arguments, extension, source) {
        None => skip(test, &format!("no {compiler}")),
        Some(result) => assert_eq!(result, Ok(())),
    }
}

const ENTRY: &str = r#"
#include "ottava_driver.h"
static int32_t entry(const ottava_host_v1* host, const ottava_driver_v1** out, ottava_error_v1* err) {
    (void)host;
    *out = 0;
    return ottava_fail(err, OTTAVA_UNSUPPORTED, "nothing here");
}
OTTAVA_EXPORT_DRIVER("demo", "1.0", entry)
"#;

#[test]
fn the_header_compiles_as_c11_with_every_offset_as_in_rust() {
    compiles("header_c11", "cc", &["-std=c11"], "c", ENTRY);
}

#[test]
fn the_header_compiles_as_cpp17_with_iterators_and_guard() {
    let guarded = r#"
static int32_t count(const ottava_program_v1* program, ottava_error_v1* err) {
    OTTAVA_GUARD(err, {
        int32_t n = 0;
        for (const auto& node : ottava::view<ottava_node_v1>(program->nodes)) n += node.id != 0;
        return n;
    })
}
int32_t (*use)(const ottava_program_v1*, ottava_error_v1*) = count;
"#;
    compiles("header_cpp17", "c++", &["-std=c++17"], "cpp", &format!("{ENTRY}{guarded}"));
}

#[test]
fn the_helpers_for_host_devices_compile_in_both_languages() {
    let source = ENTRY.replace("ottava_driver.h", "ottava_host_device.h");
    compiles("host_device_c11", "cc", &["-std=c11"], "c", &source);
    compiles("host_device_cpp17", "c++", &["-std=c++17"], "cpp", &source);
}

#[test]
fn the_c_template_compiles_without_a_warning_and_is_short() {
    let source = read("plugins/template-c/my_driver.c");
    compiles("template_c", "cc", &["-std=c11"], "c", &source);
    assert!(source.lines().count() <= 200);
}

#[test]
fn a_wrong_offset_would_not_compile() {
    let wrong = format!("{ENTRY}\nOTTAVA_ASSERT(offsetof(ottava_error_v1, message) == 44, \"moved\");\n");
    match compile("cc", &["-std=c11"], "c", &wrong) {
        None => skip("header_wrong_offset", "no cc"),
        Some(result) => assert!(result.is_err_and(|e| e.contains("moved"))),
    }
}
