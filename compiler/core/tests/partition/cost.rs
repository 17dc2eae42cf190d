//! Placement by cost: what is cheapest with transfers and submissions, and what is too small to be worth a switch.

use crate::device::Fake;
use crate::network::{Devices, assert_equal, chain, order, planned, seat, with_reference};
use ottava_compiler::{Placement, Policy};
use ottava_graph::Graph;
use ottava_hal::device::LinkMode;
use ottava_hal::{DataType, Node, TensorType};

/// A free choice, without a minimum gain.
fn free() -> Placement {
    Placement { min_gain_ns: 0, min_gain: 0.0, ..Placement::default() }
}

/// An npu that does Relu at 1 us and a cpu that does everything at 10 us; a submission to the npu costs `latency`.
fn relu_npu(latency: u64) -> Devices {
    let npu = Fake::new("npu", 1_000).only(&["Relu"]).link(LinkMode::Copy, latency);
    with_reference(vec![("npu", npu), ("cpu", Fake::new("cpu", 10_000))])
}

#[test]
fn layers_alternate_where_a_switch_is_cheap() {
    let graph = chain(6);
    let devices = relu_npu(500);
    let (plan, notes) = planned(&graph, &devices, &free());
    assert_eq!(order(&plan), ["cpu", "npu", "cpu", "npu", "cpu", "npu"]);
    assert_eq!(seat(&plan, "net/relu1"), ("npu", "cheapest: 1.0 us here, 10 us on cpu"));
    assert_eq!(seat(&plan, "net/pool0"), ("cpu", "npu refused (OP_UNKNOWN: not in the table)"));
    let pools = notes.iter().find(|n| n.code == "P0101").expect("refusals leave a note");
    assert_eq!(pools.node, "net/pool0");
    assert!(pools.message.contains("runs on cpu: npu refused") && pools.message.ends_with("also net/pool2, net/pool4"));
    let summary = notes.iter().find(|n| n.code == "P0100").expect("two devices leave a summary");
    assert!(summary.message.starts_with("npu: 3 nodes in 3 partitions, cpu: 3 nodes in 3 partitions; 0 bridges"));
    assert_equal(&graph, &plan, &devices, 1);
}

#[test]
fn nothing_switches_where_a_switch_costs_more_than_it_gains() {
    let graph = chain(6);
    let (plan, _) = planned(&graph, &relu_npu(50_000), &free());
    assert_eq!(order(&plan), ["cpu"]);
    let reason = seat(&plan, "net/relu1").1;
    assert!(reason.starts_with("joined the island of its neighbours: 10 us here, 1.0 us on npu"), "{reason}");
    let placed = plan.placed.iter().find(|p| p.node == "net/relu1").unwrap();
    let npu = &placed.opinions[0];
    assert_eq!((npu.device.as_str(), npu.ok, npu.code.as_str(), npu.cost_ns), ("npu", true, "COST", 1_000));
}

#[test]
fn the_order_of_priority_beats_cost() {
    let graph = chain(6);
    let placement = Placement { policy: Policy::Priority, ..Placement::default() };
    let (plan, _) = planned(&graph, &relu_npu(50_000), &placement);
    assert_eq!(order(&plan), ["cpu", "npu", "cpu", "npu", "cpu", "npu"]);
    assert_eq!(seat(&plan, "net/relu1").1, "the first in the order of priority");
    let placement = Placement { priority: vec!["cpu".into()], ..placement };
    assert_eq!(order(&planned(&graph, &relu_npu(0), &placement).0), ["cpu"]);
}

#[test]
fn small_islands_are_dissolved_and_large_ones_stay() {
    let graph = chain(3);
    // Relu on the npu gains 10 - 1 us, less two copies and a submission: a little over 7 us.
    let devices = relu_npu(500);
    let least = |min_gain_ns| planned(&graph, &devices, &Placement { min_gain_ns, min_gain: 0.0, ..free() });
    assert_eq!(order(&least(7_000).0), ["cpu", "npu", "cpu"]);
    let (plan, notes) = least(8_000);
    assert_eq!(order(&plan), ["cpu"]);
    let gone = notes.iter().find(|n| n.code == "P0102").expect("a dissolved island leaves a note");
    assert_eq!(gone.node, "net/relu1");
    assert!(gone.message.contains("an island of 1 node on npu was dissolved into cpu: it gains 7."), "{gone}");
    assert_eq!(seat(&plan, "net/relu1").1, gone.message);
    // As a part of the 10 us on the cpu.
    let part = |min_gain| planned(&graph, &devices, &Placement { min_gain_ns: 0, min_gain, ..free() }).0;
    assert_eq!(order(&part(0.7)).len(), 3);
    assert_eq!(order(&part(0.8)).len(), 1);
}

#[test]
fn bytes_that_cross_count() {
    // 1000 bytes at one nanosecond each, there and back: 2 us against a gain of 1.5 us.
    let big = |bytes: usize| {
        let mut graph = Graph { phase: ottava_graph::Phase::Quantized, ..Graph::new("big") };
        let ty = TensorType::fixed(DataType::F32, &[bytes / 4]);
        let x = graph.add_input("x", ty.clone());
        let y = graph.add_value("y", ty);
        let mut node = Node::new("relu", "Relu", 14);
        (node.inputs, node.outputs) = (vec![Some(x)], vec![y]);
        graph.nodes.push(node);
        graph.outputs = vec![y];
        graph
    };
    let npu = Fake::new("npu", 500).link(LinkMode::Copy, 0);
    let devices = with_reference(vec![("npu", npu), ("cpu", Fake::new("cpu", 2_000).link(LinkMode::Native, 0))]);
    assert_eq!(order(&planned(&big(1000), &devices, &free()).0), ["cpu"]);
    assert_eq!(order(&planned(&big(400), &devices, &free()).0), ["npu"]);
}

#[test]
fn partitions_are_priced_as_a_whole() {
    // Node by node the npu is cheaper, but each of its programs takes 1 ms more than its nodes alone.
    let npu = Fake::new("npu", 0).price(|p, _| if p.nodes.len() == 1 { 1_000 } else { 900_000 });
    let devices = with_reference(vec![("npu", npu), ("cpu", Fake::new("cpu", 10_000))]);
    let (plan, _) = planned(&chain(6), &devices, &free());
    assert_eq!(order(&plan), ["cpu"]);
    assert_eq!(plan.partitions[0].est_ns, 60_000);
}

#[test]
fn a_partition_that_costs_far_less_than_its_nodes_is_found() {
    // Alone each node costs 12 us on the npu and 10 us on the cpu; together they cost the npu 2 us each. The last pool
    // is not for the npu, and the node behind it is not worth a program of its own.
    let npu = Fake::new("npu", 0)
        .price(|p, _| if p.nodes.len() == 1 { 12_000 } else { 2_000 })
        .rule(|_, n| if n.name == "net/pool6" { crate::device::no("not this one") } else { crate::device::YES });
    let devices = with_reference(vec![("cpu", Fake::new("cpu", 10_000)), ("npu", npu.link(LinkMode::Copy, 500))]);
    let graph = chain(8);
    let (plan, _) = planned(&graph, &devices, &Placement::default());
    assert_eq!(order(&plan), ["npu", "cpu"]);
    assert_eq!(plan.partitions.iter().map(|p| p.est_ns).collect::<Vec<_>>(), [12_000, 20_000]);
    let reason = seat(&plan, "net/relu1").1;
    assert!(reason.starts_with("cheaper as a part of its partition, 12 us as a whole: alone 12 us, 10 us"), "{reason}");
    assert_equal(&graph, &plan, &devices, 3);
    let last = seat(&plan, "net/relu7").1;
    assert!(last.starts_with("a partition of 1 node on npu was moved to cpu: the plan is "), "{last}");
    let order_of_priority = vec!["npu".to_string(), "cpu".to_string()];
    let by_order =
        Placement { policy: Policy::Priority, priority: order_of_priority, min_gain: 0.0, ..Placement::default() };
    let est = |plan: &ottava_plan::Plan| plan.partitions.iter().map(|p| p.est_ns).sum::<u64>();
    assert!(est(&plan) <= est(&planned(&graph, &devices, &by_order).0));
}

#[test]
fn a_large_network_on_four_devices_gets_a_plan() {
    let graph = chain(300);
    let fake = |id: &'static str, relu: u64, pool: u64| {
        let fake = Fake::new(id, 0).price(move |_, n| if n.op == "Relu" { relu } else { pool });
        (id, fake.link(LinkMode::Copy, 700))
    };
    let devices = vec![fake("a", 900, 3_000), fake("b", 3_000, 900), fake("c", 1_500, 1_600), fake("d", 2_000, 800)];
    let devices = with_reference(devices);
    let (plan, _) = planned(&graph, &devices, &Placement::default());
    // All devices cost about the same per pair of layers, and every switch costs more than it gains: d is cheapest.
    assert_eq!(order(&plan), ["d"]);
    assert!(plan.placed.iter().all(|p| !p.reason.is_empty() && p.opinions.len() == 5));
}
