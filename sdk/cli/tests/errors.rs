//! Wrong usage and bad input: exit code, message, no panic.

mod common;

use common::{asset, folder, ottava, unary_model};

#[test]
fn wrong_usage_exits_with_2() {
    let dir = folder();
    ottava(dir.path(), &[]).fails(2, &["Usage"]);
    ottava(dir.path(), &["frobnicate"]).fails(2, &["frobnicate"]);
    ottava(dir.path(), &["conformance"]).fails(2, &["LIB.so"]);
    let model = asset("digits.onnx");
    ottava(dir.path(), &["quantize", &model, "-o", "q.onnx"]).fails(2, &["--data"]);
    ottava(dir.path(), &["eval", &model, "--data", "d.npz", "--affine", "1"]).fails(2, &["SCALE,OFFSET"]);
    ottava(dir.path(), &["run", &model, "--input", "imag=x.npy", "-o", "o"]).fails(2, &["did you mean `image`?"]);
}

#[test]
fn models_that_are_none_exit_with_3() {
    let dir = folder();
    ottava(dir.path(), &["inspect", "missing.onnx"]).fails(3, &["error[M06", "missing.onnx", "check the path"]);
    std::fs::write(dir.path().join("text.onnx"), "not a model").unwrap();
    ottava(dir.path(), &["inspect", "text.onnx"]).fails(3, &["text.onnx"]);
    std::fs::write(dir.path().join("unknown.onnx"), unary_model("Frobnicate")).unwrap();
    ottava(dir.path(), &["inspect", "unknown.onnx"]).fails(3, &["Frobnicate", "unknown.onnx"]);
    ottava(dir.path(), &["inspect", "."]).fails(3, &["folder"]);
}

#[test]
fn every_truncation_of_the_model_is_told() {
    let dir = folder();
    let bytes = std::fs::read(asset("digits.onnx")).unwrap();
    for cut in [0, 1, 100, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(dir.path().join("cut.onnx"), &bytes[..cut]).unwrap();
        ottava(dir.path(), &["inspect", "cut.onnx"]).fails(3, &["cut.onnx"]);
    }
}

#[test]
fn data_that_does_not_fit_exits_with_3() {
    let dir = folder();
    let model = asset("digits.onnx");
    let eval = |data: &str| ottava(dir.path(), &["eval", &model, "--data", data]);
    eval("missing.npz").fails(3, &["missing.npz", "check the path"]);
    eval("data.csv").fails(3, &["expected", ".npz"]);
    let whole = std::fs::read(asset("digits_test.npz")).unwrap();
    for cut in [10, whole.len() / 2, whole.len() - 30] {
        std::fs::write(dir.path().join("cut.npz"), &whole[..cut]).unwrap();
        eval("cut.npz").fails(3, &["error[M07", "cut.npz"]);
    }
    // The archive without labels: the array's name is changed in both of its places.
    let mut renamed = whole.clone();
    for i in 0..renamed.len() - 10 {
        if &renamed[i..i + 10] == b"labels.npy" {
            renamed[i..i + 10].copy_from_slice(b"lapels.npy");
        }
    }
    std::fs::write(dir.path().join("unlabelled.npz"), renamed).unwrap();
    eval("unlabelled.npz").fails(3, &["there are no labels"]);
}

#[test]
fn names_that_do_not_exist_are_told() {
    let dir = folder();
    let (model, data) = (asset("digits.onnx"), asset("digits_test.npz"));
    ottava(dir.path(), &["eval", &model, "--data", &data, "--dim", "M=2"]).fails(3, &["`M`", "did you mean `N`?"]);
    ottava(dir.path(), &["eval", &model, "--data", &data, "--device", "cpus"]).fails(2, &["did you mean `cpu`?"]);
    ottava(dir.path(), &["eval", &model, "--data", &data, "--isa", "avx9"]).fails(2, &["isa", "avx9"]);
}

#[test]
fn configuration_errors_show_the_place() {
    let dir = folder();
    std::fs::write(dir.path().join("ottava.ron"), "Ottava(\n  devises: [],\n)").unwrap();
    ottava(dir.path(), &["devices"]).fails(3, &["ottava.ron:2:", "devises: [],", "did you mean `devices`?"]);
    std::fs::write(dir.path().join("lib.ron"), "Ottava(drivers: [Library(path: \"a.so\")])").unwrap();
    ottava(dir.path(), &["devices", "--config", "lib.ron"]).fails(3, &["lib.ron", "drivers", "a.so"]);
}

#[test]
fn recipes_with_unknown_keys_show_the_place() {
    let dir = folder();
    std::fs::write(dir.path().join("r.ron"), "Recipe(\n  activation: (dtype: U8),\n)").unwrap();
    let (model, data) = (asset("digits.onnx"), asset("digits_calib.npz"));
    let args = ["quantize", &model, "--data", &data, "--recipe", "r.ron", "-o", "q.onnx"];
    ottava(dir.path(), &args).fails(3, &["r.ron:2:", "activation", "did you mean `activations`?"]);
}

#[test]
fn a_calibration_of_another_model_is_refused() {
    let dir = folder();
    std::fs::write(dir.path().join("relu.onnx"), unary_model("Relu")).unwrap();
    let (model, data) = (asset("digits.onnx"), asset("digits_calib.npz"));
    assert_eq!(ottava(dir.path(), &["calibrate", &model, "--data", &data, "-o", "d.calib"]).code, 0);
    let args = ["quantize", "relu.onnx", "--calibration", "d.calib", "-o", "q.onnx"];
    ottava(dir.path(), &args).fails(3, &["error[Q06", "fingerprint"]);
    std::fs::write(dir.path().join("bad.calib"), "OTVCALIB but not really").unwrap();
    let args = ["quantize", &model, "--calibration", "bad.calib", "-o", "q.onnx"];
    ottava(dir.path(), &args).fails(3, &["bad.calib"]);
}

#[test]
fn a_minimum_that_is_not_reached_exits_with_1() {
    let dir = folder();
    let (model, data) = (asset("digits.onnx"), asset("digits_test.npz"));
    let args = ["eval", &model, "--data", &data, "--limit", "20", "--min", "1.5", "--json"];
    let run = ottava(dir.path(), &args);
    run.fails(1, &["`--min` asks for 1.5"]);
    assert_eq!(run.value()["n"], 20);
}
