//! Profiles of runs over two devices: what they say, and that their trace can be drawn.

mod fakes;

use fakes::{Fake, Net, devices, inputs};
use ottava_hal::CompileOptions;
use ottava_runtime::{HOST, RunOptions, RunReport, Runner, StepKind, busy_ns, chrome_trace, overlap_ratio};
use serde_json::Value;
use std::collections::BTreeMap;

fn profiled(n: usize, a_is_sync: bool) -> (Runner, Vec<RunReport>) {
    let a = if a_is_sync { Fake::sync("a") } else { Fake::queued("a") };
    let b = Fake::queued("b");
    let runner = Runner::new(Net::zigzag("a", "b"), &devices(&[&a, &b]), &CompileOptions::default()).expect("loads");
    let start = |n| runner.run_async(inputs(n), RunOptions { profile: true }, None).expect("starts");
    let pending: Vec<_> = (0..n).map(start).collect();
    let reports = pending.into_iter().map(|p| p.wait().expect("runs").1).collect();
    (runner, reports)
}

#[test]
fn every_step_is_there_with_its_place_and_inside_the_run() {
    for a_is_sync in [true, false] {
        let (runner, reports) = profiled(3, a_is_sync);
        for report in &reports {
            let of = |kind| report.steps.iter().filter(move |s| s.kind == kind);
            let mut names: Vec<&str> = of(StepKind::Run).chain(of(StepKind::Copy)).map(|s| s.name.as_str()).collect();
            let mut wanted: Vec<&str> = runner.plan().steps.iter().map(|s| s.name.as_str()).collect();
            names.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(names, wanted);
            assert!(report.steps.iter().all(|s| s.end_ns() <= report.total_ns), "{report:?}");
            assert!(of(StepKind::Copy).all(|s| s.device == HOST && s.bytes == 96));
            assert!(of(StepKind::Run).all(|s| s.nodes.len() == 1 && s.nodes[0].cycles == 7));
            let runs: Vec<&str> = report.partitions.iter().map(|p| p.device.as_str()).collect();
            assert_eq!(runs, ["a", "b", "a", "b"]);
        }
        let numbers: Vec<u64> = reports.iter().map(|r| r.inference).collect();
        assert_eq!(numbers.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{numbers:?}");
    }
}

#[test]
fn waits_between_devices_have_names() {
    let (runner, reports) = profiled(1, false);
    let waits: Vec<&str> =
        reports[0].steps.iter().filter(|s| s.kind == StepKind::Wait).map(|s| s.name.as_str()).collect();
    // `b` has to wait for the value of `a`, which a copy brings.
    assert!(waits.iter().any(|w| w.starts_with("p1 waits for copy s1")), "{waits:?}");
    for wait in waits {
        let (step, other) = wait.split_once(" waits for ").expect("both are named");
        let known = |name: &str| runner.plan().steps.iter().any(|s| s.name == name);
        assert!(known(step) && known(other), "{wait}");
    }
}

#[test]
fn no_profile_costs_nothing() {
    let a = Fake::sync("a");
    let runner = Runner::new(Net::zigzag("a", "a"), &devices(&[&a]), &CompileOptions::default()).expect("loads");
    let report = runner.run(&inputs(0), RunOptions::default()).expect("runs").1;
    assert!(report.steps.is_empty() && report.partitions.is_empty() && report.total_ns > 0);
}

#[test]
fn the_trace_parses_and_its_spans_nest() {
    let (_, reports) = profiled(8, true);
    let trace: Value = serde_json::from_str(&chrome_trace(&reports)).expect("is JSON");
    let mut tracks: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let mut n_spans = 0;
    for event in trace["traceEvents"].as_array().expect("a list") {
        let (Some(tid), "X") = (event["tid"].as_u64(), event["ph"].as_str().unwrap_or("")) else { continue };
        let ns = |key: &str| (event[key].as_f64().expect("a number") * 1e3).round() as u64;
        let track = (event["pid"].as_u64().expect("a number"), tid);
        tracks.entry(track).or_default().push((ns("ts"), ns("ts") + ns("dur")));
        n_spans += 1;
    }
    let steps = reports.iter().flat_map(|r| &r.steps);
    let nodes: usize = steps.clone().map(|s| s.nodes.len()).sum();
    assert_eq!(n_spans, steps.count() + nodes + reports.len());
    for spans in tracks.values() {
        for (i, (a0, a1)) in spans.iter().enumerate() {
            for (b0, b1) in &spans[i + 1..] {
                let apart = a1 <= b0 || b1 <= a0;
                let nested = (a0 <= b0 && b1 <= a1) || (b0 <= a0 && a1 <= b1);
                assert!(apart || nested, "{a0}..{a1} {b0}..{b1}");
            }
        }
    }
}

#[test]
fn busy_times_are_no_longer_than_the_time_they_are_in() {
    let (_, reports) = profiled(8, true);
    let begin = reports.iter().map(|r| r.begin_ns).min().expect("some");
    let end = reports.iter().map(|r| r.begin_ns + r.total_ns).max().expect("some");
    let busy = busy_ns(&reports);
    assert_eq!(busy.keys().map(String::as_str).collect::<Vec<_>>(), ["a", "b", HOST]);
    assert!(busy.values().all(|ns| *ns > 0 && *ns <= end - begin), "{busy:?}");
    let ratio = overlap_ratio(&reports);
    assert!(ratio > 0.0 && ratio <= 2.0, "{ratio}");
}
