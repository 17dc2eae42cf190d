//! Dependency directions (the architecture page of the book): every edge between our crates is one of these.

use ottava_tidy::{files, read};
use std::collections::{BTreeMap, BTreeSet};

/// Crate, and the crates of ours that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("ottava-hal", &[]),
    ("ottava-ops", &["ottava-hal"]),
    ("ottava-graph", &["ottava-hal", "ottava-ops"]),
    ("ottava-import", &["ottava-hal", "ottava-ops", "ottava-graph"]),
    ("ottava-quantize", &["ottava-hal", "ottava-ops", "ottava-graph"]),
    ("ottava-abi", &[]),
    ("ottava-loader", &["ottava-hal", "ottava-abi"]),
    ("ottava-plugin", &["ottava-hal", "ottava-abi"]),
    ("ottava-plan", &["ottava-hal"]),
    ("ottava-compiler", &["ottava-hal", "ottava-ops", "ottava-graph", "ottava-quantize", "ottava-plan"]),
    ("ottava-runtime", &["ottava-hal", "ottava-plan"]),
    ("ottava-kernels", &["ottava-hal"]),
    ("ottava-driver-cpu", &["ottava-hal", "ottava-kernels"]),
    ("ottava-npu", &["ottava-hal"]),
    ("ottava-driver-npu", &["ottava-hal", "ottava-npu"]),
    ("ottava-plugin-cpu", &["ottava-plugin", "ottava-driver-cpu"]),
    ("ottava-plugin-npu", &["ottava-plugin", "ottava-driver-npu"]),
    ("ottava-gpu", &["ottava-hal"]),
    ("ottava-driver-vulkan", &["ottava-hal", "ottava-gpu"]),
    ("ottava-driver-opencl", &["ottava-hal", "ottava-gpu"]),
    ("ottava-plugin-vulkan", &["ottava-plugin", "ottava-driver-vulkan"]),
    ("ottava-plugin-opencl", &["ottava-plugin", "ottava-driver-opencl"]),
    ("ottava-reference", &["ottava-hal", "ottava-ops"]),
    ("ottava-validate", &["ottava-hal", "ottava-graph", "ottava-plan", "ottava-quantize", "ottava-runtime"]),
    (
        "ottava",
        &[
            "ottava-hal",
            "ottava-ops",
            "ottava-graph",
            "ottava-import",
            "ottava-quantize",
            "ottava-plan",
            "ottava-compiler",
            "ottava-runtime",
            "ottava-reference",
            "ottava-validate",
            "ottava-loader",
        ],
    ),
    (
        "ottava-cli",
        &[
            "ottava",
            "ottava-conformance",
            "ottava-driver-cpu",
            "ottava-driver-npu",
            "ottava-driver-opencl",
            "ottava-driver-vulkan",
            "ottava-npu",
            "ottava-reference",
        ],
    ),
    ("ottava-conformance", &["ottava-hal", "ottava-ops", "ottava-abi", "ottava-loader", "ottava-reference"]),
    ("ottava-faulty", &["ottava-hal", "ottava-ops", "ottava-reference", "ottava-plugin"]),
    ("ottava-tidy", &[]),
    ("ottava-onnx-proto-gen", &[]),
    ("ottava-fuzz", &["ottava-compiler", "ottava-graph", "ottava-hal", "ottava-import", "ottava-reference"]),
];

/// Crates that only tests use may see everything.
const TEST_CRATES: &[&str] = &["ottava-e2e"];

fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let mut edges = BTreeMap::new();
    for path in files(&["toml"]).into_iter().filter(|p| p.ends_with("Cargo.toml")) {
        let manifest: toml::Table = read(&path).parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let Some(name) = manifest.get("package").and_then(|p| p.get("name")).and_then(|n| n.as_str()) else { continue };
        let empty = toml::Table::new();
        let table = manifest.get("dependencies").and_then(|d| d.as_table()).unwrap_or(&empty);
        let ours = table.keys().filter(|d| d.starts_with("ottava")).cloned().collect();
        edges.insert(name.to_string(), ours);
    }
    edges
}

#[test]
fn crates_depend_only_on_what_the_architecture_allows() {
    let edges = edges();
    assert!(edges.len() >= ALLOWED.len(), "only {} manifests were found", edges.len());
    let mut wrong = Vec::new();
    for (from, to) in
        edges.iter().filter(|(from, _)| from.starts_with("ottava") && !TEST_CRATES.contains(&from.as_str()))
    {
        match ALLOWED.iter().find(|(name, _)| name == from) {
            None => wrong.push(format!("{from} has no line in this test")),
            Some((_, allowed)) => {
                wrong.extend(to.iter().filter(|t| !allowed.contains(&t.as_str())).map(|t| format!("{from} -> {t}")));
            }
        }
    }
    assert!(wrong.is_empty(), "edges that the architecture does not allow: {wrong:#?}");
}

#[test]
fn the_check_sees_a_forbidden_edge() {
    let allowed = |name: &str| ALLOWED.iter().find(|(n, _)| *n == name).unwrap().1;
    assert!(!allowed("ottava-driver-cpu").contains(&"ottava-graph"));
    assert!(!allowed("ottava-runtime").contains(&"ottava-graph"));
    assert!(allowed("ottava-hal").is_empty());
}
