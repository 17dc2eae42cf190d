//! Plans for lost devices.

use crate::device::Fake;
use crate::network::{assert_equal, chain, order, planned, quantized, with_reference};
use ottava_compiler::{Fallback, Placement};
use ottava_hal::device::LinkMode;

fn asked() -> Placement {
    Placement { alternatives: true, min_gain_ns: 0, min_gain: 0.0, ..Placement::default() }
}

#[test]
fn each_device_that_is_used_can_be_lost() {
    let graph = chain(6);
    let npu = Fake::new("npu", 1_000).only(&["Relu"]).link(LinkMode::Copy, 200);
    let devices =
        with_reference(vec![("npu", npu), ("cpu", Fake::new("cpu", 10_000)), ("idle", Fake::new("idle", 99_999))]);
    let pins = vec![("net/relu1".to_string(), "npu".to_string())];
    let (plan, _) = planned(&graph, &devices, &Placement { pins, ..asked() });
    let lost: Vec<&str> = plan.alternatives.iter().map(|a| a.lost.as_str()).collect();
    assert_eq!(lost, ["npu", "cpu"], "the idle device and the reference need no alternative");
    for alternative in &plan.alternatives {
        assert!(!order(&alternative.plan).contains(&alternative.lost.as_str()));
        assert!(alternative.plan.alternatives.is_empty() && !alternative.plan.steps.is_empty());
        let opinion =
            |p: &ottava_plan::Placed| p.opinions.iter().any(|o| o.device == alternative.lost && o.code == "LOST");
        assert!(alternative.plan.placed.iter().all(opinion));
        assert_equal(&graph, &alternative.plan, &devices, 8);
    }
    assert_eq!(order(&plan.alternatives[0].plan), ["cpu"], "a pin to a lost device falls away");
}

#[test]
fn alternatives_compute_the_same_on_random_networks() {
    for seed in 0..40 {
        let graph = quantized(seed);
        let npu = Fake::new("npu", 1_000).signed().link(LinkMode::Copy, 200);
        let devices = with_reference(vec![("npu", npu), ("cpu", Fake::new("cpu", 3_000))]);
        let (plan, _) = planned(&graph, &devices, &asked());
        assert_equal(&graph, &plan, &devices, seed);
        let used = plan.devices.iter().filter(|d| d.id != "reference").count();
        assert_eq!(plan.alternatives.len(), used);
        plan.alternatives.iter().for_each(|a| assert_equal(&graph, &a.plan, &devices, seed));
    }
}

#[test]
fn none_where_nothing_asks_or_nothing_may_step_in() {
    let devices = with_reference(vec![("cpu", Fake::new("cpu", 10_000))]);
    assert!(planned(&chain(2), &devices, &Placement::default()).0.alternatives.is_empty());
    let strict = Placement { fallback: Fallback::Error, ..asked() };
    assert!(planned(&chain(2), &devices, &strict).0.alternatives.is_empty());
    assert_eq!(order(&planned(&chain(2), &devices, &asked()).0.alternatives[0].plan), ["reference"]);
}
