//! Group A on files: this crate's own library, the C template and the plugins that are built pass; every library with a
//! defect is caught by the case that its table names. Each case runs in a child process, which is this test's own
//! executable: the test `child` is what it runs there.

use object::{Object, ObjectSection};
use ottava_conformance::{Child, Ending, Limits, Outcome, Subject, answer, list, run_case};
use ottava_faulty::{FaultyDriver, LIBRARY_DEFECTS, LibraryDefect, Make};
use ottava_hal::Driver;
use ottava_loader::{LibrarySpec, LoadOptions, Search, load_all};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// The library, and the case, in the environment of a child.
const LIBRARY: &str = "OTTAVA_LIBRARY";
const CASE: &str = "OTTAVA_LIBRARY_CASE";
/// A defect of the driver in it, if there is one.
const FAULT: &str = "OTTAVA_LIBRARY_FAULT";
const LIMITS: Limits = Limits { time: Duration::from_secs(15), log: 4096 };

/// The driver of a library; one that does not load is stood in for, since group A reads the file itself.
fn subject(library: &Path) -> Subject {
    let search = Search { user: false, system: false };
    let fault = std::env::var(FAULT).ok().map(|fault| ("fault".to_owned(), fault));
    let libraries = vec![LibrarySpec { options: fault.into_iter().collect(), ..LibrarySpec::new(library) }];
    let candidate = load_all(&LoadOptions { libraries, search, ..LoadOptions::default() }).into_iter().next();
    let stand_in = || -> Arc<dyn Driver> { Arc::new(FaultyDriver::new("").expect("no defect")) };
    let driver = candidate.and_then(|c| c.driver).unwrap_or_else(stand_in);
    let found = Subject::first_of(driver).ok().flatten();
    let subject = found.unwrap_or_else(|| Subject::first_of(stand_in()).expect("lists").expect("has a device"));
    Subject { library: Some(library.to_path_buf()), ..subject }
}

fn command(library: &Path, case: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test knows itself"));
    command.args(["child", "--exact", "--nocapture", "--test-threads=1"]).env(LIBRARY, library).env(CASE, case);
    command
}

#[test]
fn child() {
    let (Some(library), Ok(case)) = (std::env::var_os(LIBRARY), std::env::var(CASE)) else { return };
    let asked = if case.is_empty() { Child::List } else { Child::Run(case) };
    // The harness has begun a line.
    println!("\n{}", answer(&subject(Path::new(&library)), &asked).expect("the case is in the list"));
}

/// Says that a test did not run, and why; `tests/run.sh` counts these lines.
fn skip(test: &str, reason: &str) {
    let line = format!("{test}: {reason}\n");
    eprint!("skipped: {line}");
    if let Some(log) = std::env::var_os("OTTAVA_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut f| f.write_all(line.as_bytes())).expect("the skip log can be written");
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// A library that this build has made, if it has.
fn built(name: &str) -> Option<PathBuf> {
    let exe = std::env::current_exe().expect("the test knows itself");
    let at = exe.parent().map(|deps| deps.join(name)).filter(|p| p.is_file());
    if at.is_none() {
        skip("libraries", &format!("{name} is not built"));
    }
    at
}

/// A library of `c/tables.c`.
fn compile(dir: &Path, arguments: &[&str]) -> Option<PathBuf> {
    if Command::new("cc").arg("--version").output().is_err() {
        skip("libraries", "no compiler `cc`");
        return None;
    }
    let library = dir.join("libdriver.so");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-w", "-std=c11"]);
    for folder in ["sdk/include", "plugins/template-c"] {
        command.arg("-I").arg(repository().join(folder));
    }
    let source = repository().join("tests/conformance/faulty/c/tables.c");
    command.args(arguments).arg(source).arg("-o").arg(&library).arg("-lm");
    let output = command.output().expect("the compiler starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(library)
}

/// Changes bytes of a library's note.
fn patch(library: &Path, at: usize, bytes: &[u8]) {
    let mut data = std::fs::read(library).expect("the library can be read");
    let section = {
        let file = object::File::parse(data.as_slice()).expect("it is a library");
        file.section_by_name(".ottava.abi").and_then(|s| s.file_range()).expect("it has a note")
    };
    let from = section.0 as usize + at;
    data[from..from + bytes.len()].copy_from_slice(bytes);
    std::fs::write(library, data).expect("the library can be written");
}

fn make(defect: &LibraryDefect, dir: &Path) -> Option<PathBuf> {
    match defect.make {
        Make::Compiled(arguments) => compile(dir, arguments),
        Make::Note(at, bytes) => compile(dir, &[]).inspect(|library| patch(library, at, bytes)),
        Make::Kit(_) => built("libottava_faulty.so"),
        Make::Manifest(text) => compile(dir, &[]).inspect(|_| {
            let text = text.replace("LIBRARY", "libdriver.so");
            std::fs::write(dir.join("driver.ottava.ron"), text).expect("the manifest can be written");
        }),
    }
}

/// Why a defect counts as not caught.
fn survives(defect: &LibraryDefect) -> Option<String> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let library = make(defect, dir.path())?;
    let mut command = command(&library, defect.case);
    if let Make::Kit(fault) = defect.make {
        command.env(FAULT, fault);
    }
    let outcome = run_case(defect.group, defect.case, command, LIMITS);
    let bad = [Ending::Failed, Ending::Crashed, Ending::Hung].contains(&outcome.result);
    let caught = bad && outcome.group == defect.group && outcome.detail.contains(defect.word);
    (!caught).then(|| format!("{} ({}): {:?} {}", defect.name, defect.case, outcome.result, outcome.detail))
}

#[test]
fn every_library_with_a_defect_is_caught() {
    if std::env::var_os(CASE).is_some() {
        return;
    }
    let missed: Vec<String> = LIBRARY_DEFECTS.iter().filter_map(survives).collect();
    let n = LIBRARY_DEFECTS.len();
    println!("mutation score of libraries: {} of {n} defects are caught", n - missed.len());
    assert!(missed.is_empty(), "not caught:\n{}", missed.join("\n"));
}

/// Runs the cases of a filter on a library.
fn passes(library: &Path, filter: &str) {
    let cases = list(command(library, ""), LIMITS).expect("the cases can be listed");
    let chosen = cases.iter().filter(|(_, name)| ottava_conformance::wild(filter, name));
    let run = |(group, name): &(String, String)| run_case(group, name, command(library, name), LIMITS);
    let outcomes: Vec<Outcome> = chosen.map(run).collect();
    let fine = |o: &&Outcome| matches!(o.result, Ending::Passed | Ending::Skipped | Ending::Unsupported);
    let failed: Vec<&Outcome> = outcomes.iter().filter(|o| !fine(o)).collect();
    assert!(outcomes.len() > 10 && failed.is_empty(), "{}: {failed:#?}", library.display());
}

#[test]
fn libraries_of_the_kit_pass() {
    if std::env::var_os(CASE).is_some() {
        return;
    }
    // Everything through the tables takes longer than a usual run of the tests may.
    let filter = std::env::var("OTTAVA_LIBRARY_CASES").unwrap_or("load.*".into());
    for name in ["libottava_faulty.so", "libottava_cpu.so", "libottava_npu.so"] {
        if let Some(library) = built(name) {
            passes(&library, &filter);
        }
    }
}

#[test]
fn the_template_in_c_passes() {
    if std::env::var_os(CASE).is_some() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    if let Some(library) = compile(dir.path(), &[]) {
        passes(&library, "load.*");
    }
}
