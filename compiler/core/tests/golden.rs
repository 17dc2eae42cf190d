//! Golden tests of the passes: `tests/golden/<pass>/<case>.graph` is the text of a graph, `<case>.expect` the text after
//! the pass. A folder is named after a pass, or after one of the pipelines `canonicalize` and `integerize`.
//!
//! `UPDATE_EXPECT=1 cargo test -p ottava-compiler --test golden` rewrites the expectations; read the difference.

use ottava_compiler::passes::{CANONICAL, QUANTIZED, find};
use ottava_compiler::{Cx, canonicalize, integerize, run_pass};
use ottava_graph::{Graph, infer_types, text, verify};
use ottava_reference::ReferenceDevice;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PIPELINES: &[&str] = &["canonicalize", "integerize"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<PathBuf> = read.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn cases(pass: &str) -> Vec<PathBuf> {
    entries(&root().join(pass)).into_iter().filter(|p| p.extension().is_some_and(|e| e == "graph")).collect()
}

fn folders() -> Vec<String> {
    let dirs = entries(&root()).into_iter().filter(|p| p.is_dir());
    dirs.map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

/// The graph after a pass or pipeline, and the findings that it left.
fn transform(pass: &str, graph: &Graph) -> (Graph, Vec<String>) {
    let device = ReferenceDevice::new();
    let mut cx = Cx::new(&device);
    let after = match pass {
        "canonicalize" => canonicalize(graph, &mut cx).unwrap(),
        "integerize" => integerize(graph, &mut cx).unwrap(),
        _ => {
            let mut graph = graph.clone();
            let pass = find(pass).unwrap_or_else(|| panic!("no pass is named {pass}"));
            run_pass(&mut graph, pass, &mut cx).unwrap();
            graph.compact();
            graph
        }
    };
    (after, cx.diagnostics.iter().map(ToString::to_string).collect())
}

fn render(after: &Graph, findings: &[String]) -> String {
    findings.iter().fold(text::print(after), |text, finding| text + "# " + finding + "\n")
}

#[test]
fn passes_do_what_their_cases_say() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    for pass in folders() {
        for case in cases(&pass) {
            let source = std::fs::read_to_string(&case).unwrap();
            let mut graph = text::parse(&source).unwrap_or_else(|e| panic!("{}: {e}", case.display()));
            infer_types(&mut graph).unwrap_or_else(|e| panic!("{}: {e}", case.display()));
            verify(&graph).unwrap_or_else(|e| panic!("{}: {e}", case.display()));
            let (after, findings) = transform(&pass, &graph);
            verify(&after).unwrap_or_else(|e| panic!("{} afterwards: {e}", case.display()));
            let (found, expect) = (render(&after, &findings), case.with_extension("expect"));
            if update {
                std::fs::write(&expect, &found).unwrap();
            } else if std::fs::read_to_string(&expect).unwrap_or_default() != found {
                wrong.push(format!("{}:\n{found}", expect.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases differ (UPDATE_EXPECT=1 rewrites them):\n{}", wrong.len(), wrong.join("\n"));
}

/// What a pass leaves, it leaves: running it once more changes nothing.
#[test]
fn passes_come_to_rest() {
    for pass in folders() {
        for case in cases(&pass) {
            let graph = text::parse(&std::fs::read_to_string(&case).unwrap()).unwrap();
            let (once, _) = transform(&pass, &graph);
            let (twice, _) = transform(&pass, &once);
            assert_eq!(text::print(&twice), text::print(&once), "{}", case.display());
        }
    }
}

#[test]
fn every_pass_has_a_folder_with_cases_and_every_folder_a_pass() {
    let passes: BTreeSet<String> =
        CANONICAL.iter().chain(QUANTIZED).map(|p| p.name).chain(PIPELINES.iter().copied()).map(String::from).collect();
    assert_eq!(folders().into_iter().collect::<BTreeSet<_>>(), passes);
    for pass in &passes {
        assert!(!cases(pass).is_empty(), "tests/golden/{pass} has no case");
        for path in entries(&root().join(pass)) {
            let graph = path.with_extension("graph");
            assert!(graph.exists(), "{} belongs to no case", path.display());
        }
    }
}
