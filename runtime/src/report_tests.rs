//! Busy times of made-up profiles.

use super::*;

fn report(begin_ns: u64, total_ns: u64, steps: &[(&str, StepKind, u64, u64)]) -> RunReport {
    let step = |(device, kind, start_ns, duration_ns): &(&str, StepKind, u64, u64)| StepTime {
        name: "s".into(),
        device: (*device).into(),
        kind: *kind,
        start_ns: *start_ns,
        duration_ns: *duration_ns,
        bytes: 0,
        nodes: Vec::new(),
    };
    RunReport { begin_ns, total_ns, steps: steps.iter().map(step).collect(), ..RunReport::default() }
}

#[test]
fn a_device_is_busy_once_however_many_use_it() {
    use StepKind::{Copy, Run, Wait};
    let reports = [
        report(0, 100, &[("cpu", Run, 0, 50), (HOST, Copy, 50, 10), ("npu", Wait, 0, 60), ("npu", Run, 60, 40)]),
        report(40, 100, &[("cpu", Run, 0, 30), ("cpu", Run, 40, 20), ("npu", Run, 60, 40)]),
    ];
    let busy = busy_ns(&reports);
    // cpu: 0..50 and 40..70 and 80..100; npu: 60..100 and 100..140.
    assert_eq!(busy, BTreeMap::from([("cpu".into(), 90), (HOST.into(), 10), ("npu".into(), 80)]));
    assert_eq!(overlap_ratio(&reports), 170.0 / 140.0);
}

#[test]
fn nothing_has_no_overlap() {
    assert_eq!(overlap_ratio(&[]), 0.0);
    assert!(busy_ns(&[RunReport::default()]).is_empty());
}
