//! Every ONNX node vector on the reference device: pass or unsupported with a reason, as `onnx_node.txt` and `onnx_qdq24.txt`
//! say (the lists of `ottava vectors --list`), and never wrong.

use ottava::vectors::{Outcome, Tolerance, cases, run_case, tolerances};
use ottava::{Registry, SessionOptions};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// One line of the manifest that matters here.
struct Entry {
    tier: String,
    exotic: bool,
}

fn manifest(path: &Path) -> BTreeMap<String, Entry> {
    let text = std::fs::read_to_string(path).expect("the manifest is there");
    let cells = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
    let entry = |c: Vec<String>| (format!("{}/{}", c[0], c[1]), Entry { tier: c[2].clone(), exotic: c[3] == "true" });
    text.lines().skip(1).map(cells).map(entry).collect()
}

#[test]
fn every_vector_ends_as_the_list_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archives, manifest_path) = ottava_e2e::vectors::unpack(folder.path());
    let tolerance = tolerances(&std::fs::read_to_string(&manifest_path).expect("the manifest is there"));
    let options = SessionOptions { device: Some("reference".into()), ..SessionOptions::default() };
    let (mut lists, mut failed) = (BTreeMap::<&str, String>::new(), Vec::new());
    let mut outcomes = BTreeMap::new();
    for (archive, dir) in ["node", "qdq24"].into_iter().zip(&archives) {
        let list = lists.entry(archive).or_default();
        for case in cases(dir).expect("cases") {
            let name = case.file_name().expect("a name").to_string_lossy().into_owned();
            let limits = tolerance.get(&name).copied().unwrap_or(Tolerance::default());
            let outcome = run_case(&case, &Registry::new(), &options, limits);
            let _ = writeln!(list, "{name} {}", outcome.state());
            if let Outcome::Fail(why) = &outcome {
                failed.push(format!("{archive}/{name}: {why}"));
            }
            outcomes.insert(format!("{archive}/{name}"), outcome);
        }
    }
    print_counts(&outcomes);
    assert!(failed.is_empty(), "{} wrong: {failed:#?}", failed.len());
    check_quantization_tier(&outcomes, &manifest(&manifest_path));
    for (archive, list) in &lists {
        compare_with_list(&format!("onnx_{archive}.txt"), list);
    }
}

fn print_counts(outcomes: &BTreeMap<String, Outcome>) {
    let count = |state: &str| outcomes.values().filter(|o| o.name() == state).count();
    println!("{} passed, {} failed, {} unsupported", count("pass"), count("fail"), count("unsupported"));
}

fn check_quantization_tier(outcomes: &BTreeMap<String, Outcome>, manifest: &BTreeMap<String, Entry>) {
    let tier = manifest.iter().filter(|(_, e)| e.tier == "Q" && !e.exotic);
    let missing: Vec<_> =
        tier.filter(|(name, _)| outcomes.get(*name) != Some(&Outcome::Pass)).map(|(n, _)| n).collect();
    assert!(missing.is_empty(), "quantization cases that do not pass: {missing:#?}");
}

fn compare_with_list(file: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, found).expect("the list can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<&str> = found.lines().filter(|line| !expected.lines().any(|e| e == *line)).collect();
    assert!(changed.is_empty(), "not as {file} says (UPDATE_EXPECT=1 rewrites it): {changed:#?}");
    assert_eq!(found.lines().count(), expected.lines().count(), "{file} lists other cases");
}
