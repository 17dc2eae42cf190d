//! Measured times in place of estimates.

use crate::device::Fake;
use crate::network::{Devices, assert_equal, chain, order, planned, seat, with_reference};
use ottava_compiler::{Measured, Placement, signatures};
use ottava_graph::Graph;

/// An npu at 1 us and a cpu at 10 us per node, both for everything.
fn devices() -> Devices {
    with_reference(vec![("npu", Fake::new("npu", 1_000)), ("cpu", Fake::new("cpu", 10_000))])
}

/// The signature of the first node of an operator.
fn signature(graph: &Graph, op: &str) -> String {
    signatures(graph).into_iter().find(|s| s.op == op).expect("the chain has the operator").signature
}

fn measured(times: &[(&str, &str, u64)], graph: &Graph) -> Placement {
    let mut measured = Measured::default();
    times.iter().for_each(|(device, op, ns)| measured.insert(device, &signature(graph, op), *ns));
    Placement { measured, min_gain_ns: 0, min_gain: 0.0, ..Placement::default() }
}

#[test]
fn nodes_that_are_alike_share_a_signature() {
    let list = signatures(&chain(4));
    assert_eq!(list[0].signature, list[2].signature);
    assert_ne!(list[0].signature, list[1].signature);
    assert!(list.iter().all(|s| s.signature.len() == 16 && !s.node.is_empty()));
}

#[test]
fn a_node_leaves_a_device_on_which_it_was_measured_to_be_slow() {
    let graph = chain(6);
    let estimated = planned(&graph, &devices(), &measured(&[], &graph)).0;
    assert_eq!(order(&estimated), ["npu"]);
    let slow = measured(&[("npu", "MaxPool", 500_000), ("cpu", "MaxPool", 2_000)], &graph);
    let (plan, _) = planned(&graph, &devices(), &slow);
    assert_eq!(order(&plan), ["cpu", "npu", "cpu", "npu", "cpu", "npu"]);
    assert_eq!(seat(&plan, "net/pool0"), ("cpu", "cheapest: 2.0 us here, 500 us on npu"));
    assert_equal(&graph, &plan, &devices(), 1);
}

#[test]
fn opinions_say_which_costs_are_measured() {
    let graph = chain(2);
    let (plan, _) = planned(&graph, &devices(), &measured(&[("npu", "Relu", 700)], &graph));
    for placed in &plan.placed {
        for opinion in &placed.opinions {
            let expected = placed.op == "Relu" && opinion.device == "npu";
            assert_eq!(opinion.measured, expected, "{} on {}", placed.node, opinion.device);
        }
    }
}

#[test]
fn a_partition_costs_its_measured_nodes_and_the_estimated_share_of_the_others() {
    let graph = chain(4);
    let both = measured(&[("npu", "Relu", 700), ("npu", "MaxPool", 300)], &graph);
    assert_eq!(planned(&graph, &devices(), &both).0.partitions[0].est_ns, 2_000);
    let one = measured(&[("npu", "Relu", 700)], &graph);
    // Two nodes measured, and half of the estimate of 4 us.
    assert_eq!(planned(&graph, &devices(), &one).0.partitions[0].est_ns, 1_400 + 2_000);
}

#[test]
fn times_without_sense_neither_overflow_nor_divide_by_nothing() {
    let graph = chain(3);
    let free = with_reference(vec![("npu", Fake::new("npu", 0)), ("cpu", Fake::new("cpu", 0))]);
    for ns in [0, 1, u64::MAX] {
        let times = measured(&[("npu", "Relu", ns), ("cpu", "MaxPool", ns)], &graph);
        assert_equal(&graph, &planned(&graph, &free, &times).0, &free, 1);
    }
}
