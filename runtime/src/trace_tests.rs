//! Traces of made-up profiles; those of real runs are in the integration tests.

use super::*;
use ottava_hal::device::NodeTime;

fn step(name: &str, device: &str, kind: StepKind, start_ns: u64, duration_ns: u64) -> StepTime {
    StepTime { name: name.into(), device: device.into(), kind, start_ns, duration_ns, bytes: 5, nodes: Vec::new() }
}

fn tids(trace: &Value, name: &str) -> Vec<u64> {
    let events = trace["traceEvents"].as_array().unwrap().iter();
    events.filter(|e| e["name"] == name && e["ph"] == "X").map(|e| e["tid"].as_u64().unwrap()).collect()
}

#[test]
fn overlapping_spans_of_a_device_get_tracks_of_their_own() {
    let mut long = step("long", "cpu", StepKind::Run, 0, 1000);
    // The node's clock is off: it seems to end after its step.
    long.nodes.push(NodeTime {
        node: "conv".into(),
        start_ns: 900,
        duration_ns: 400,
        cycles: 12,
        ..NodeTime::default()
    });
    let first = RunReport { total_ns: 1500, steps: vec![long], ..RunReport::default() };
    let second = RunReport {
        inference: 1,
        begin_ns: 500,
        steps: vec![step("short", "cpu", StepKind::Run, 0, 100)],
        ..first.clone()
    };
    let trace: Value = serde_json::from_str(&chrome_trace(&[first, second])).unwrap();
    assert_ne!(tids(&trace, "long"), tids(&trace, "short"));
    let node = trace["traceEvents"].as_array().unwrap().iter().find(|e| e["name"] == "conv").unwrap();
    assert_eq!((node["ts"].as_f64(), node["dur"].as_f64()), (Some(0.9), Some(0.1)));
    assert_eq!(node["args"]["cycles"], 12);
    let names: Vec<&str> =
        trace["traceEvents"].as_array().unwrap().iter().filter_map(|e| e["args"]["name"].as_str()).collect();
    assert_eq!(names, ["devices", "cpu", "cpu (2)", "inferences", "inference 0", "inference 1"]);
}

#[test]
fn waits_stand_by_name_under_their_inference() {
    let wait = step("p3 waits for copy s2: a to host", "npu", StepKind::Wait, 10, 20);
    let report = RunReport { total_ns: 100, inference: 7, steps: vec![wait], ..RunReport::default() };
    let trace: Value = serde_json::from_str(&chrome_trace(&[report])).unwrap();
    assert_eq!(tids(&trace, "p3 waits for copy s2: a to host"), tids(&trace, "inference 7"));
}
