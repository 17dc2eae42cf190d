//! Every verb on the bundled digits network, with the figures of its README.

mod common;

use common::{asset, folder, ottava};
use serde_json::Value;

#[test]
fn devices_names_drivers_and_devices() {
    let dir = folder();
    let json = ottava(dir.path(), &["devices", "--why", "--json"]).json();
    let devices = json["devices"].as_array().unwrap();
    // Vulkan and OpenCL have the devices of the machine, or none.
    let of_machine = |d: &&serde_json::Value| d["driver"] == "vulkan" || d["driver"] == "opencl";
    let ids: Vec<&str> = devices.iter().filter(|d| !of_machine(d)).filter_map(|d| d["id"].as_str()).collect();
    assert_eq!(ids, ["cpu", "npu", "reference"]);
    let drivers = json["drivers"].as_array().unwrap();
    for driver in drivers.iter().filter(|d| d["status"] == "idle") {
        assert!(driver["reason"].as_str().unwrap().contains("finds no device here: "), "{driver}");
    }
    for key in ["name", "version", "abi", "source", "status", "reason"] {
        assert!(json["drivers"][0].get(key).is_some(), "{key}");
    }
}

#[test]
fn inspect_counts_operators_and_parameters() {
    let dir = folder();
    let json = ottava(dir.path(), &["inspect", &asset("digits.onnx"), "--json"]).json();
    assert_eq!(json["ops"]["Conv"], 5);
    assert_eq!(json["inputs"][0]["name"], "image");
    assert_eq!(json["inputs"][0]["shape"], serde_json::json!(["N", 1, 8, 8]));
    assert_eq!(json["quantized_ops"], 0);
    assert!(json["params"].as_u64().unwrap() >= 29738, "{}", json["params"]);
    assert_eq!(json["macs"], 936_576);
}

/// A TFLite file leaves its rounding open; other files do not.
#[test]
fn the_requantization_mode_of_a_tflite_file_can_be_chosen() {
    let dir = folder();
    let net = format!("{}/../../tests/data/routes/files/keras_cnn_int8.tflite", env!("CARGO_MANIFEST_DIR"));
    let modes = |args: &[&str]| {
        let json = ottava(dir.path(), &[&["inspect", &net, "--json"], args].concat()).json();
        json["requant"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(modes(&[]), ["q31_double", "q31_single"], "FULLY_CONNECTED rounds once");
    assert_eq!(modes(&["--requant", "q31_single"]), ["q31_single"]);
    std::fs::write(dir.path().join("o.ron"), "Ottava(force_requantize: Some(Fp32Rne))").unwrap();
    assert_eq!(modes(&["--config", "o.ron"]), ["fp32_rne"]);
    assert_eq!(modes(&["--config", "o.ron", "--requant", "q31_single"]), ["q31_single"], "the command line wins");
    let explained = ottava(dir.path(), &["explain", &net, "--json", "--config", "o.ron"]).json();
    assert_eq!(explained["requant"].as_object().unwrap().keys().collect::<Vec<_>>(), ["fp32_rne"]);
    let wrong = ["inspect", &net, "--requant", "q15"];
    ottava(dir.path(), &wrong).fails(2, &["q15", "fp32_rne", "q31_double", "q31_single"]);
    let fixed = ["inspect", &asset("digits.onnx"), "--requant", "q31_double"];
    ottava(dir.path(), &fixed).fails(3, &["q31_double", "the arithmetic of ONNX"]);
}

#[test]
fn eval_finds_536_of_540_on_both_devices() {
    let dir = folder();
    for device in ["cpu", "reference"] {
        let (model, data) = (asset("digits.onnx"), asset("digits_test.npz"));
        let args = ["eval", &model, "--data", &data, "--batch", "60", "--device", device, "--json"];
        let json = ottava(dir.path(), &args).json();
        assert_eq!((json["hits"].as_u64(), json["n"].as_u64()), (Some(536), Some(540)), "{device}");
        assert_eq!(json["metric"], "top1");
    }
}

/// Quantizes the digits network into the folder.
fn quantized(dir: &std::path::Path) -> String {
    let (model, data) = (asset("digits.onnx"), asset("digits_calib.npz"));
    let json = ottava(dir, &["quantize", &model, "--data", &data, "--batch", "20", "-o", "int8.onnx", "--json"]).json();
    assert!(json["nodes_quantized"].as_u64().unwrap() >= 9, "{json}");
    assert!(json["size_bytes"].as_u64().unwrap() < 61_000, "{json}");
    assert!(json["recipe"].as_str().unwrap().contains("Percentile(99.999)"), "{json}");
    dir.join("int8.onnx").to_str().unwrap().to_owned()
}

#[test]
fn a_quantized_model_agrees_with_the_float_one_and_validates() {
    let dir = folder();
    let (int8, float, data) = (quantized(dir.path()), asset("digits.onnx"), asset("digits_test.npz"));
    let args = ["eval", &int8, "--data", &data, "--against", &float, "--batch", "60", "--min", "0.98", "--json"];
    let json = ottava(dir.path(), &args).json();
    assert_eq!(json["metric"], "agree");
    let args = ["validate", &int8, "--float", &float, "--data", &data, "--limit", "8", "--device", "cpu", "--json"];
    let json = ottava(dir.path(), &args).json();
    let layers = json["layers"].as_array().unwrap();
    assert!(layers.len() >= 9, "{json}");
    assert!(layers.iter().all(|l| l["bit_equal"] == Value::Bool(true)), "{json}");
    assert!(json["output"]["sqnr_db"].as_f64().unwrap() > 20.0, "{json}");
}

#[test]
fn a_model_of_qoperators_runs_as_the_one_with_q_and_dq_nodes() {
    let dir = folder();
    let (model, data) = (asset("digits.onnx"), asset("digits_calib.npz"));
    let args = ["quantize", &model, "--data", &data, "--format", "qoperator", "-o", "qop.onnx"];
    ottava(dir.path(), &args).fails(0, &[]);
    let json = ottava(dir.path(), &["inspect", "qop.onnx", "--json"]).json();
    let ops = json["ops"].as_object().unwrap();
    // The convolution whose sum with the residual has no Quantize before it has no QOperator form.
    assert_eq!((&ops["QLinearConv"], &ops["Conv"]), (&4.into(), &1.into()), "{json}");
    let test = asset("digits_test.npz");
    let args = ["eval", "qop.onnx", "--data", &test, "--against", &model, "--batch", "60", "--min", "0.98", "--json"];
    assert_eq!(ottava(dir.path(), &args).json()["metric"], "agree");
}

#[test]
fn calibration_bytes_do_not_depend_on_batch_or_shards() {
    let dir = folder();
    let (model, data) = (asset("digits.onnx"), asset("digits_calib.npz"));
    let collect = |out: &str, more: &[&str]| {
        let mut args = vec!["calibrate", &model, "--data", &data, "-o", out, "--json"];
        args.extend(more);
        ottava(dir.path(), &args).json()
    };
    let whole = collect("whole.calib", &["--batch", "50"]);
    assert_eq!(whole["samples"], 200);
    collect("a.calib", &["--shard", "1/3", "--batch", "7"]);
    collect("b.calib", &["--shard", "2/3", "--batch", "64"]);
    collect("c.calib", &["--shard", "3/3", "--batch", "11"]);
    let merge = ["calibrate", "--merge", "c.calib", "a.calib", "b.calib", "-o", "merged.calib"];
    assert_eq!(ottava(dir.path(), &merge).code, 0);
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert_eq!(read("whole.calib"), read("merged.calib"));
    let args = ["quantize", &model, "--calibration", "merged.calib", "-o", "q.onnx", "-v"];
    let done = ottava(dir.path(), &args);
    assert!(done.code == 0 && done.stderr.contains("quantized by statistics alone"), "{}", done.stderr);
    for (files, expected) in [(["a.calib", "a.calib"], "given twice"), (["a.calib", "c.calib"], "missing: 2/3")] {
        let done = ottava(dir.path(), &["calibrate", "--merge", files[0], files[1], "-o", "half.calib"]);
        assert!(done.code != 0 && done.stderr.contains(expected), "{}", done.stderr);
        assert!(!dir.path().join("half.calib").exists());
    }
}

#[test]
fn the_recipe_says_what_calibrate_collects() {
    let dir = folder();
    std::fs::write(dir.path().join("average.ron"), "(activations: (observer: MovingAverage(0.9)))").unwrap();
    let (model, data) = (asset("digits.onnx"), asset("digits_calib.npz"));
    let average = ["calibrate", &model, "--data", &data, "--recipe", "average.ron", "-o", "average.calib"];
    assert_eq!(ottava(dir.path(), &average).code, 0);
    let recipe = ["quantize", &model, "--calibration", "average.calib", "--recipe", "average.ron", "-o", "q.onnx"];
    assert_eq!(ottava(dir.path(), &recipe).code, 0);
    // A moving average is of one series: the file says that it holds one.
    let done = ottava(dir.path(), &["calibrate", "--merge", "average.calib", "average.calib", "-o", "m.calib"]);
    assert!(done.code != 0, "{}", done.stderr);
    let plain = ["calibrate", &model, "--data", &data, "-o", "plain.calib"];
    assert_eq!(ottava(dir.path(), &plain).code, 0);
    let missing = ["quantize", &model, "--calibration", "plain.calib", "--recipe", "average.ron", "-o", "q.onnx"];
    let done = ottava(dir.path(), &missing);
    assert!(done.code != 0 && done.stderr.contains("calibrate with this observer"), "{}", done.stderr);
}

#[test]
fn run_writes_outputs_and_a_trace() {
    let dir = folder();
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    let header = format!("{:<117}\n", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 8, 8), }");
    npy.extend((header.len() as u16).to_le_bytes());
    npy.extend(header.as_bytes());
    npy.extend([8u8; 128]);
    std::fs::write(dir.path().join("x.npy"), npy).unwrap();
    let model = asset("digits.onnx");
    let args = ["run", &model, "--input", "x.npy", "-o", "out", "--profile", "trace.json", "--json"];
    let json = ottava(dir.path(), &args).json();
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([2, 10]));
    assert!(dir.path().join("out/probs.npy").is_file());
    let trace: Value = serde_json::from_slice(&std::fs::read(dir.path().join("trace.json")).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 5);
}

#[test]
fn bench_reports_latency() {
    let dir = folder();
    let args = ["bench", &asset("digits.onnx"), "--runs", "5", "--threads", "1", "--concurrency", "2", "--json"];
    let json = ottava(dir.path(), &args).json();
    assert_eq!((json["runs"].as_u64(), json["threads"].as_u64()), (Some(10), Some(1)));
    assert!(json["median_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(json["macs"], 936_576);
}

#[test]
fn demo_goes_the_whole_road() {
    let dir = folder();
    let json = ottava(dir.path(), &["demo", "--json"]).json();
    assert!((json["float_top1"].as_f64().unwrap() - 536.0 / 540.0).abs() < 1e-9);
    assert!(json["int8_top1"].as_f64().unwrap() >= 0.98, "{}", json["int8_top1"]);
    assert!(json["report"]["layers"].as_array().unwrap().len() >= 9);
    assert!(dir.path().join("ottava-demo/digits_int8.onnx").is_file());
}

#[test]
fn completions_and_manual_come_from_the_same_table() {
    let dir = folder();
    assert!(ottava(dir.path(), &["completions", "bash"]).stdout.contains("validate"));
    assert!(ottava(dir.path(), &["man"]).stdout.contains("quantize"));
}
