//! Pins, bans, fallback, and what is said where they cannot be honoured.

use crate::device::{Fake, YES, no};
use crate::network::{Devices, assert_equal, chain, order, planned, seat, try_plan, with_reference};
use ottava_compiler::{Fallback, Placement, Policy};
use ottava_hal::{Reason, Verdict};

fn devices() -> Devices {
    let npu = Fake::new("npu", 1_000).only(&["Relu"]);
    with_reference(vec![("npu", npu), ("cpu", Fake::new("cpu", 10_000))])
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
}

fn pinned(pins: &[(&str, &str)], bans: &[(&str, &str)]) -> Placement {
    Placement { pins: pairs(pins), bans: pairs(bans), ..Placement::default() }
}

#[test]
fn pins_and_bans_decide() {
    let graph = chain(6);
    let (plan, notes) = planned(&graph, &devices(), &pinned(&[("*/relu3", "cpu"), ("*/relu*", "npu")], &[]));
    assert_eq!(seat(&plan, "net/relu3"), ("cpu", "pinned by `*/relu3`"), "the first match counts");
    assert_eq!(seat(&plan, "net/relu1"), ("npu", "pinned by `*/relu*`"));
    assert!(notes.iter().all(|n| n.code != "P0103"));
    assert_equal(&graph, &plan, &devices(), 1);
    let (plan, notes) = planned(&graph, &devices(), &pinned(&[], &[("net/relu?", "npu"), ("net/pool0", "cpu")]));
    assert_eq!(seat(&plan, "net/relu1"), ("cpu", "npu is banned by `net/relu?`"));
    let (device, reason) = seat(&plan, "net/pool0");
    assert_eq!(device, "reference");
    assert!(reason.starts_with("fallback: npu refused (OP_UNKNOWN") && reason.contains("cpu is banned by"), "{reason}");
    let codes: Vec<&str> = plan.placed[0].opinions.iter().map(|o| o.code.as_str()).collect();
    assert_eq!(codes, ["OP_UNKNOWN", "BANNED", "OK"]);
    assert!(notes.iter().any(|n| n.code == "P0101" && n.node == "net/pool0"));
    assert_equal(&graph, &plan, &devices(), 2);
}

#[test]
fn what_cannot_be_honoured_is_an_error_with_names() {
    let graph = chain(4);
    let fails = |placement: &Placement| try_plan(&graph, &devices(), placement, &mut Vec::new()).unwrap_err();
    let e = fails(&pinned(&[("*/pool*", "npu")], &[]));
    assert!(e.contains("node `net/pool0` (MaxPool) is pinned to `npu` by `*/pool*`, which refused it"), "{e}");
    assert!(e.contains("OP_UNKNOWN: not in the table") && e.contains("net/pool2"), "{e}");
    assert!(e.starts_with("unsupported (POLICY): pins: node"), "{e}");
    let e = fails(&pinned(&[("net/relu1", "npu")], &[("*", "npu")]));
    assert!(e.contains("and banned from it by `*`"), "{e}");
    let e = fails(&pinned(&[("net/relu1", "npuu")], &[]));
    assert!(e.starts_with("pins: pin `net/relu1` names device `npuu`") && e.contains("did you mean `npu`?"), "{e}");
    let e = fails(&Placement { priority: vec!["cqu".into()], ..Placement::default() });
    assert!(e.contains("did you mean `cpu`? devices are: npu, cpu, reference"), "{e}");
    assert!(e.starts_with("placement: the order of priority names device `cqu`"), "{e}");
    assert!(fails(&pinned(&[("[", "npu")], &[])).contains("is no pattern"));
    assert!(fails(&pinned(&[], &[("x", "npux")])).starts_with("bans: ban `x` names device `npux`"));
    let strict = Placement { fallback: Fallback::Error, ..pinned(&[], &[("*relu1", "npu"), ("*relu1", "cpu")]) };
    let e = fails(&strict);
    assert!(e.contains("(POLICY): bans: node `net/relu1` (Relu): npu is banned by `*relu1`, cpu is banned"), "{e}");
}

#[test]
fn a_pattern_without_a_node_is_a_warning_with_the_nearest_one() {
    let (_, notes) = planned(&chain(4), &devices(), &pinned(&[("net/relu7", "npu")], &[]));
    let warning = notes.iter().find(|n| n.code == "P0103").expect("a warning");
    assert_eq!(warning.severity, ottava_graph::Severity::Warning);
    assert!(warning.message.contains("pin `net/relu7` for device `npu` matches no node"));
    assert_eq!(warning.help, "the nearest node is `net/relu1`");
}

#[test]
fn thousands_of_names_are_looked_up_and_more_are_refused() {
    let graph = chain(4);
    let many = |n: usize| {
        let mut pins: Vec<_> = (1..n).map(|i| (format!("net/none{i}"), "npu".to_string())).collect();
        pins.push(("net/relu1".into(), "npu".into()));
        Placement { pins, ..Placement::default() }
    };
    let (plan, notes) = planned(&graph, &devices(), &many(10_000));
    assert_eq!(seat(&plan, "net/relu1"), ("npu", "pinned by `net/relu1`"));
    let missed: Vec<_> = notes.iter().filter(|n| n.code == "P0103").collect();
    assert_eq!(missed.len(), 11);
    assert_eq!(missed[10].message, "pins: 9989 more entries match no node");
    let e = try_plan(&graph, &devices(), &many(100_000), &mut Vec::new()).unwrap_err();
    assert_eq!(e, "pins: 100000 entries, at most 10000 are taken; name groups of nodes by globs");
}

#[test]
fn without_a_fallback_what_only_the_reference_runs_is_an_error() {
    let only = with_reference(vec![("npu", Fake::new("npu", 1_000).only(&["Relu"]))]);
    let strict = Placement { fallback: Fallback::Error, ..Placement::default() };
    let e = try_plan(&chain(14), &only, &strict, &mut Vec::new()).unwrap_err();
    assert!(
        e.contains(
            "placement: node `net/pool0` (MaxPool): npu refused (OP_UNKNOWN: not in the table); allow a fallback"
        ),
        "{e}"
    );
    assert!(e.contains("2 more nodes likewise"), "{e}");
    let (plan, _) = planned(&chain(4), &only, &Placement::default());
    assert_eq!(order(&plan), ["reference", "npu", "reference", "npu"]);
}

#[test]
fn inexact_devices_are_never_chosen() {
    let fast = Fake::new("fast", 1).rule(|_, _| Verdict::Supported { exact: false });
    let devices = with_reference(vec![("fast", fast), ("cpu", Fake::new("cpu", 10_000))]);
    for policy in [Policy::default(), Policy::Priority] {
        let (plan, notes) = planned(&chain(4), &devices, &Placement { policy, ..Placement::default() });
        assert_eq!(order(&plan), ["cpu"]);
        assert_eq!(plan.placed[0].opinions[0].code, "INEXACT");
        assert!(notes.iter().any(|n| n.message.contains("fast refused (INEXACT: runs it, but not bit-equal")));
    }
    let pin = pinned(&[("*", "fast")], &[]);
    assert!(try_plan(&chain(2), &devices, &pin, &mut Vec::new()).unwrap_err().contains("INEXACT"));
}

#[test]
fn what_is_refused_together_is_placed_apart() {
    // Accepts every node alone and the whole graph, but no program of two to five nodes that has a Relu.
    let npu = Fake::new("npu", 1_000).rule(|p, n| {
        let crowded = (2..6).contains(&p.nodes.len());
        let pool = n.name == "net/pool0";
        match (pool, crowded && n.op == "Relu") {
            (true, _) => no("the first pool is not for the npu"),
            (_, true) => Verdict::rejected(Reason::Memory, "does not fit together"),
            _ => YES,
        }
    });
    let devices = with_reference(vec![("npu", npu), ("cpu", Fake::new("cpu", 10_000))]);
    let graph = chain(6);
    let (plan, notes) = planned(&graph, &devices, &Placement::default());
    assert_equal(&graph, &plan, &devices, 7);
    let (device, reason) = seat(&plan, "net/relu1");
    assert_eq!(device, "cpu");
    assert!(
        reason.contains("accepted it alone, refused it as a part of a partition: does not fit together"),
        "{reason}"
    );
    assert!(notes.iter().any(|n| n.code == "P0101" && n.node == "net/relu1"));
}

#[test]
fn no_device_is_an_error() {
    assert!(try_plan(&chain(2), &Vec::new(), &Placement::default(), &mut Vec::new()).is_err());
}
