//! How sources look: unsafe code only where it is allowed, a page at the top of each file, no leftovers, no traces of
//! the machine they were written on, formatted.

use ottava_tidy::{files, read, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that may hold unsafe code, each with its reason at the crate root.
const UNSAFE_ALLOWED: &[&str] = &[
    "drivers/cpu/kernels/",
    "drivers/vulkan/",
    "drivers/opencl/",
    "hal/abi/",
    "hal/loader/",
    "sdk/plugin/",
    "tests/bochs/",
    "tests/conformance/src/raw.rs",
    "plugins/",
    "compiler/import/src/onnx/mapped.rs",
    "compiler/plan/src/file/map.rs",
    "runtime/tests/steady.rs",
    "tests/e2e/tests/allocations.rs",
];
/// Files that programs write; the rules about style do not apply to them.
const GENERATED: &[&str] = &["compiler/import/src/onnx/proto.rs"];

fn sources() -> Vec<PathBuf> {
    let all = files(&["rs"]).into_iter().filter(|p| !GENERATED.iter().any(|g| p.starts_with(g)));
    let all: Vec<PathBuf> = all.collect();
    assert!(all.len() > 50, "only {} source files were found", all.len());
    all
}

fn offenders(bad: impl Fn(&Path, &str) -> Option<String>) -> Vec<String> {
    let check = |p: PathBuf| bad(&p, &read(&p)).map(|why| format!("{}: {why}", p.display()));
    sources().into_iter().filter_map(check).collect()
}

fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|l| !l.trim_start().starts_with("//"))
}

#[test]
fn unsafe_code_is_only_where_it_is_allowed() {
    let found = offenders(|path, text| {
        let allowed = UNSAFE_ALLOWED.iter().any(|dir| path.starts_with(dir)) || path.starts_with("tests/tidy");
        let uses =
            code_lines(text).any(|l| l.contains("unsafe {") || l.contains("unsafe fn") || l.contains("unsafe impl"));
        (!allowed && uses).then(|| "unsafe code".to_string())
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_file_opens_with_what_it_is() {
    let found = offenders(|_, text| {
        let first = text.lines().next().unwrap_or("");
        (!first.starts_with("//!") && !first.starts_with("#!")).then(|| format!("begins with `{first}`"))
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn files_stay_readable() {
    let found = offenders(|_, text| {
        let n = text.lines().count();
        (n > 500).then(|| format!("{n} lines; look for a seam"))
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_leftovers_and_no_traces_of_a_machine() {
    let mut found = offenders(|path, text| {
        if path.starts_with("tests/tidy") {
            return None;
        }
        let words = ["todo!", "unimplemented!", "FIXME", "XXX", "#[ignore", "allow(clippy::all)"];
        words.iter().find(|w| text.contains(**w)).map(|w| format!("contains `{w}`"))
    });
    let machine = ["/work/", "/root/", "/tmp/"];
    for path in files(&["rs", "py", "sh", "md", "toml", "ron", "yml"]) {
        let text = read(&path);
        let hit = machine.iter().find(|m| text.contains(**m) && !path.starts_with("tests/tidy"));
        found.extend(hit.map(|m| format!("{}: contains the path `{m}`", path.display())));
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn everything_is_formatted() {
    let output = Command::new("cargo").args(["fmt", "--all", "--", "--check", "-l"]).current_dir(root()).output();
    match output {
        Ok(out) => assert!(out.status.success(), "not formatted:\n{}", String::from_utf8_lossy(&out.stdout)),
        Err(e) => panic!("cargo fmt does not run: {e}"),
    }
}
