//! `bench --worker`: the line protocol that the comparison with other runtimes speaks.

mod common;

use common::{asset, command, folder};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

#[test]
fn the_worker_answers_run_out_and_quit() {
    let dir = folder();
    let pixels: Vec<u8> = (0..64).flat_map(|i| ((i % 17) as f32).to_le_bytes()).collect();
    std::fs::write(dir.path().join("x.bin"), pixels).unwrap();
    let model = asset("digits.onnx");
    let args = ["bench", &model, "--worker", "--threads", "1", "--raw-input", "image:f32:1x1x8x8:x.bin"];
    let mut child = command(dir.path(), &args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answer = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let ready = answer();
    assert_eq!(ready["ready"], 1);
    let (load_ms, ready_ms) = (ready["load_ms"].as_f64().unwrap(), ready["ready_ms"].as_f64().unwrap());
    assert!(load_ms >= ready_ms && ready_ms > 0.0);
    writeln!(stdin, "run 3").unwrap();
    assert_eq!(answer()["lat_us"].as_array().unwrap().len(), 3);
    writeln!(stdin, "out y.bin").unwrap();
    assert_eq!(answer()["out"], 10);
    let bytes = std::fs::read(dir.path().join("y.bin")).unwrap();
    let sum: f32 = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{sum}");
    for (target, part) in [("/nodir/x", "/nodir/x"), ("x.bin", "over the input"), (model.as_str(), "over the input")] {
        writeln!(stdin, "out {target}").unwrap();
        assert!(answer()["error"].as_str().unwrap().contains(part), "{target}");
    }
    writeln!(stdin, "walk").unwrap();
    assert!(answer()["error"].as_str().unwrap().contains("walk"));
    writeln!(stdin, "quit").unwrap();
    assert!(child.wait().unwrap().success());
}
