//! Requests that cannot be meant: flags that contradict each other or change nothing, checks that nothing could fail, files
//! that would be written over, results that cannot be written.

mod common;

use common::{asset, bytes_field, command, constant_model, folder, ottava, tensor_pb, unary_model};
use ottava::{Tensor, save_npy, save_npz};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

/// An archive of pictures of zeros, the first `nan` of them of NaN, all labelled 0.
fn pictures(path: &Path, n: usize, nan: usize) {
    let values: Vec<f32> = (0..n * 64).map(|i| if i < nan * 64 { f32::NAN } else { 0.0 }).collect();
    let x = Tensor::from_slice(&[n, 1, 8, 8], &values).unwrap();
    let labels = Tensor::from_slice(&[n], &vec![0i64; n]).unwrap();
    save_npz(path, &BTreeMap::from([("x".to_owned(), x), ("labels".to_owned(), labels)])).unwrap();
}

#[test]
fn a_damaged_archive_is_refused() {
    let dir = folder();
    let path = dir.path().join("d.npz");
    pictures(&path, 2, 0);
    let mut bytes = std::fs::read(&path).unwrap();
    // Inside the picture data, which is by far the longest run of zeros.
    let at = bytes.windows(256).position(|w| w.iter().all(|b| *b == 0)).unwrap();
    bytes[at + 100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    ottava(dir.path(), &["eval", &asset("digits.onnx"), "--data", "d.npz"])
        .fails(3, &["d.npz", "array `x`", "checksum"]);
}

#[test]
fn nan_never_passes_a_check() {
    let dir = folder();
    let model = asset("digits.onnx");
    pictures(&dir.path().join("nan.npz"), 2, 1);
    let base = ["eval", &model, "--data", "nan.npz"];
    let eval = |more: &[&str]| ottava(dir.path(), &[&base[..], more].concat());
    let all = ["--metric", "agree", "--against", &model];
    eval(&[&all[..], &["--min", "1"]].concat()).fails(1, &["agree is 0.5", "1 of 2 rows hold NaN"]);
    eval(&["--metric", "mse", "--against", &model, "--min", "1e30"]).fails(1, &["mse is NaN"]);
    eval(&["--min", "nan"]).fails(2, &["not a finite number"]);
}

#[test]
fn checks_of_nothing_are_refused() {
    let dir = folder();
    let (model, data) = (asset("digits.onnx"), asset("digits_test.npz"));
    pictures(&dir.path().join("none.npz"), 0, 0);
    let run = |args: &[&str]| ottava(dir.path(), args);
    run(&["eval", &model, "--data", &data, "--limit", "0"]).fails(2, &["--limit"]);
    run(&["validate", &model, "--float", &model, "--data", &data, "--limit", "0"]).fails(2, &["--limit"]);
    run(&["eval", &model, "--data", "none.npz"]).fails(3, &["the data has no rows"]);
    run(&["validate", &model, "--float", &model, "--data", "none.npz"]).fails(3, &["the data has no rows"]);
    run(&["calibrate", &model, "--data", "none.npz", "-o", "n.calib"]).fails(3, &["the data has no rows"]);
    run(&["quantize", &model, "--data", "none.npz", "-o", "n.onnx"]).fails(3, &["the data has no rows"]);
    run(&["calibrate", &model, "--data", &data, "--shard", "0/3", "-o", "n.calib"]).fails(2, &["I from 1 to N"]);
    pictures(&dir.path().join("one.npz"), 1, 0);
    run(&["calibrate", &model, "--data", "one.npz", "--shard", "1/2", "-o", "n.calib"])
        .fails(0, &["no rows fall into"]);
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let dir = folder();
    for args in [&["devices"][..], &["devices", "--json"], &["--help"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(dir.path(), args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {text}");
        assert!(text.contains("cannot write the answer to stdout"), "{text}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let dir = folder();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command(dir.path(), &["devices"]).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn the_symbol_of_the_batch_and_the_batch_are_one() {
    let dir = folder();
    let (model, data) = (asset("digits.onnx"), asset("digits_test.npz"));
    let eval = |more: &[&str]| ottava(dir.path(), &[&["eval", &model, "--data", &data, "--json"], more].concat());
    let json = eval(&["--dim", "N=8"]).json();
    assert_eq!((json["hits"].as_u64(), json["n"].as_u64()), (Some(536), Some(540)));
    eval(&["--dim", "N=8", "--batch", "4"]).fails(2, &["`--dim N=8` contradicts `--batch 4`"]);
    eval(&["--dim", "N=8", "--dim", "N=9"]).fails(2, &["given twice"]);
    let calibrate = ["calibrate", &model, "--data", &asset("digits_calib.npz"), "--dim", "N=7", "-o", "n.calib"];
    assert_eq!(ottava(dir.path(), &calibrate).code, 0);
    let validate = ["validate", &model, "--float", &model, "--data", &data, "--limit", "9", "--dim", "N=4", "--json"];
    assert_eq!(ottava(dir.path(), &validate).json()["n"], 9);
    let bench = ["bench", &model, "--runs", "1", "--dim", "N=4", "--json"];
    assert_eq!(ottava(dir.path(), &bench).json()["macs"], 4 * 936_576);
    save_npy(&dir.path().join("x.npy"), &Tensor::from_slice(&[2, 1, 8, 8], &[0u8; 128]).unwrap()).unwrap();
    let run = ["run", &model, "--input", "x.npy", "--batch", "4", "-o", "o"];
    ottava(dir.path(), &run).fails(2, &["`--batch 4` contradicts input `image`, which has 2 rows"]);
}

#[test]
fn names_of_no_device_are_wrong_usage_and_those_of_the_configuration_bad_input() {
    let dir = folder();
    let (model, data) = (asset("digits.onnx"), asset("digits_test.npz"));
    let eval = |more: &[&str]| ottava(dir.path(), &[&["eval", &model, "--data", &data], more].concat());
    eval(&["--metric", "agree"]).fails(2, &["--against"]);
    eval(&["--device", "nope"]).fails(2, &["there is no device `nope`"]);
    eval(&["--threads", "0"]).fails(2, &["--threads"]);
    let config = r#"Ottava(devices: [(id: "fast", driver: "cpu", options: {"isa": "avx9"})])"#;
    std::fs::write(dir.path().join("c.ron"), config).unwrap();
    eval(&["--config", "c.ron"]).fails(3, &["c.ron", "isa"]);
    ottava(dir.path(), &["devices", "--config", "c.ron"]).fails(3, &["c.ron", "device `fast`", "isa"]);
    std::fs::write(dir.path().join("d.ron"), r#"Ottava(devices: [(id: "fast", driver: "cpu")])"#).unwrap();
    let json = ottava(dir.path(), &["devices", "--config", "d.ron", "--json"]).json();
    assert_eq!(json["configured"][0]["id"], "fast");
    std::fs::write(dir.path().join("e.ron"), r#"Ottava(drivers: [Builtin("gpu")])"#).unwrap();
    ottava(dir.path(), &["devices", "--config", "e.ron"]).fails(3, &["e.ron", "`gpu`"]);
}

#[test]
fn what_is_read_is_not_written_over() {
    let dir = folder();
    let data = asset("digits_calib.npz");
    let bytes = std::fs::read(asset("digits.onnx")).unwrap();
    std::fs::write(dir.path().join("m.onnx"), &bytes).unwrap();
    std::fs::copy(&data, dir.path().join("d.npz")).unwrap();
    std::fs::hard_link(dir.path().join("m.onnx"), dir.path().join("same.onnx")).unwrap();
    for output in ["m.onnx", "./m.onnx", "same.onnx", "d.npz"] {
        let args = ["quantize", "m.onnx", "--data", "d.npz", "-o", output];
        ottava(dir.path(), &args).fails(2, &["written over the input"]);
    }
    ottava(dir.path(), &["calibrate", "m.onnx", "--data", "d.npz", "-o", "m.onnx"]).fails(2, &["written over"]);
    ottava(dir.path(), &["eval", "m.onnx", "--data", "d.npz", "--outputs", "d.npz"]).fails(2, &["written over"]);
    assert_eq!(std::fs::read(dir.path().join("m.onnx")).unwrap(), bytes);
}

#[test]
fn flags_that_change_nothing_are_refused() {
    let dir = folder();
    let model = asset("digits.onnx");
    let quantize = |more: &[&str]| ottava(dir.path(), &[&["quantize", &model, "-o", "q.onnx"], more].concat());
    quantize(&["--calibration", "x.calib", "--affine", "1,0"]).fails(2, &["`--affine` has no effect"]);
    quantize(&["--calibration", "x.calib", "--batch", "2"]).fails(2, &["`--batch` has no effect"]);
    quantize(&["--dynamic", "--method", "mse"]).fails(2, &["`--method` has no effect with `--dynamic`"]);
    quantize(&["--dynamic", "--activations", "s16"]).fails(2, &["`--activations` has no effect"]);
    ottava(dir.path(), &["bench", &model, "--affine", "2,0"]).fails(2, &["--raw-input"]);
}

#[test]
fn a_rule_that_matches_nothing_and_a_second_quantization_are_told() {
    let dir = folder();
    let (model, data) = (asset("digits.onnx"), asset("digits_calib.npz"));
    std::fs::write(dir.path().join("r.ron"), r#"Recipe(nodes: [(name: "head/*/none", activations: Float)])"#).unwrap();
    let args = ["quantize", &model, "--data", &data, "--batch", "20", "--recipe", "r.ron", "-o", "q.onnx"];
    ottava(dir.path(), &args).fails(0, &["warning[Q0604]", "`head/*/none`", "matches no node"]);
    let args = ["quantize", "q.onnx", "--data", &data, "-o", "qq.onnx"];
    ottava(dir.path(), &args).fails(3, &["already quantized", "the first is DequantizeLinear"]);
}

#[test]
fn a_model_without_inputs_runs() {
    let dir = folder();
    // The input becomes a constant: an initializer (field 5 of the graph) of the same name.
    let tensor = [tensor_pb([-1.0, 2.0]), bytes_field(8, b"x")].concat();
    std::fs::write(dir.path().join("m.onnx"), constant_model("Relu", &tensor)).unwrap();
    let json = ottava(dir.path(), &["run", "m.onnx", "-o", "out", "--json"]).json();
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([2]));
    let y = ottava::load_npy(&dir.path().join("out/y.npy")).unwrap();
    assert_eq!(y.to_f32s().unwrap(), [0.0, 2.0]);
    let run = ottava(dir.path(), &["run", &asset("digits.onnx"), "-o", "out"]);
    run.fails(2, &["input `image` is not given"]);
}

#[test]
fn names_in_messages_cannot_steer_a_terminal() {
    let dir = folder();
    std::fs::write(dir.path().join("m.onnx"), unary_model("Re\x1b[31mlu")).unwrap();
    let run = ottava(dir.path(), &["inspect", "m.onnx"]);
    run.fails(3, &["Re\\u{1b}[31mlu"]);
    assert!(!run.stderr.contains('\x1b'), "{}", run.stderr);
}
