//! `vectors`: states, lists, tolerances; the public cases where they are there.

mod common;

use common::{external, folder, ottava, tensor_pb, unary_model};
use std::path::Path;
use std::process::Command;

/// A case `y = OP(x)`.
fn case(root: &Path, name: &str, op: &str, expected: [f32; 2]) {
    let set = root.join(name).join("test_data_set_0");
    std::fs::create_dir_all(&set).unwrap();
    std::fs::write(root.join(name).join("model.onnx"), unary_model(op)).unwrap();
    std::fs::write(set.join("input_0.pb"), tensor_pb([-1.0, 2.0])).unwrap();
    std::fs::write(set.join("output_0.pb"), tensor_pb(expected)).unwrap();
}

#[test]
fn cases_end_in_one_of_three_states() {
    let dir = folder();
    let root = dir.path().join("node");
    case(&root, "test_right", "Relu", [0.0, 2.0]);
    case(&root, "test_wrong", "Relu", [0.0, 3.0]);
    case(&root, "test_unknown", "Frobnicate", [0.0, 2.0]);
    let run = ottava(dir.path(), &["vectors", "node", "--json"]);
    run.fails(1, &["1 cases failed"]);
    let json = run.value();
    let states: Vec<_> = json["cases"].as_array().unwrap().iter().map(|c| c["result"].as_str().unwrap()).collect();
    assert_eq!(states, ["pass", "unsupported", "fail"]);
    assert_eq!(json["cases"][1]["state"], "unsupported(Frobnicate)");
    ottava(dir.path(), &["vectors", "node", "--filter", "nothing"]).fails(2, &["`nothing`"]);
    ottava(dir.path(), &["vectors", "node", "--device", "nope"]).fails(2, &["there is no device `nope`"]);
    for flag in [["--batch", "2"], ["--dim", "N=2"], ["--affine", "1,0"]] {
        ottava(dir.path(), &["vectors", "node", flag[0], flag[1]]).fails(2, &[flag[0]]);
    }
    assert!(json["cases"][2]["detail"].as_str().unwrap().contains("element 1 is 2, expected 3"), "{json}");
}

#[test]
fn a_list_holds_every_state() {
    let dir = folder();
    let root = dir.path().join("node");
    case(&root, "test_right", "Relu", [0.0, 2.0]);
    case(&root, "test_unknown", "Frobnicate", [0.0, 2.0]);
    let list = |text: &str| std::fs::write(dir.path().join("list.txt"), text).unwrap();
    let run = || ottava(dir.path(), &["vectors", "node", "--list", "list.txt"]);
    list("# states\ntest_right pass\ntest_unknown unsupported(Frobnicate)\n");
    assert_eq!(run().code, 0);
    list("test_right unsupported(no)\ntest_unknown unsupported(operator)\n");
    run().fails(1, &["1 cases differ"]);
    list("test_right pass\ntest_unknown unsupported(operator)\ntest_gone pass\n");
    run().fails(1, &["1 cases differ"]);
    list("test_right maybe\n");
    run().fails(3, &["line 1", "maybe"]);
}

#[test]
fn a_manifest_beside_the_folder_sets_tolerances() {
    let dir = folder();
    let root = dir.path().join("node");
    case(&root, "test_rough", "Relu", [0.0, 2.1]);
    ottava(dir.path(), &["vectors", "node"]).fails(1, &["1 cases failed"]);
    let manifest = "archive\tname\trtol\tatol\nnode\ttest_rough\t0.1\t1e-07\n";
    std::fs::write(dir.path().join("MANIFEST.tsv"), manifest).unwrap();
    assert_eq!(ottava(dir.path(), &["vectors", "node"]).code, 0);
}

#[test]
fn public_cases_never_fail_in_the_quantization_family() {
    let Some(archive) = external("reference/onnx-node/node.tar.gz") else { return };
    let dir = folder();
    let status = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(dir.path()).status().expect("tar runs");
    assert!(status.success());
    // The list of the end-to-end tests is one that the command reads.
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/onnx_node.txt");
    let run = ottava(dir.path(), &["vectors", "node", "--filter", "qlinear", "--list", list, "--json"]);
    let json = run.json();
    assert_eq!(json["failed"], 0, "{json}");
    assert!(json["passed"].as_u64().unwrap() >= 9, "{json}");
}
