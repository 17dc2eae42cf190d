//! The built-in drivers keep the contract: the conformance suite has nothing bad to say of them.
//!
//! By default a few quick groups run; `OTTAVA_EXHAUSTIVE` makes it the profile `full`.

mod common;

use common::{folder, ottava};
use serde_json::Value;

/// Groups that take no more than seconds.
const QUICK: &[&str] = &["B.1", "B.3"];

/// Nothing is failed, crashed, hung or passed unexpectedly; what is bad is shown.
#[track_caller]
fn is_conformant(device: &str, filter: &str) {
    let dir = folder();
    let args = ["conformance", "--device", device, "--profile", "full", "--filter", filter, "--json"];
    let run = ottava(dir.path(), &args);
    if run.code == 2 {
        return assert!(run.stderr.contains("no case of the profile"), "{}", run.stderr);
    }
    let doc = run.value();
    let is_bad = |case: &&Value| ["failed", "crashed", "hung", "xpass"].contains(&case["result"].as_str().unwrap());
    let bad: Vec<&Value> = doc["cases"].as_array().unwrap().iter().filter(is_bad).collect();
    assert!(bad.is_empty() && run.code == 0, "{device} {filter}: {bad:#?}\n{}", run.stderr);
}

fn check(device: &str) {
    match std::env::var_os("OTTAVA_EXHAUSTIVE") {
        Some(_) => is_conformant(device, ""),
        None => QUICK.iter().for_each(|group| is_conformant(device, group)),
    }
}

#[test]
fn reference_is_conformant() {
    check("reference");
}

#[test]
fn cpu_is_conformant() {
    check("cpu");
}

#[test]
fn npu_is_conformant() {
    check("npu");
}
