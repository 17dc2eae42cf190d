//! The search against all assignments: on small networks every way to pin nodes to devices is planned and priced by an
//! independent count of partitions, copies and submissions.

use crate::device::Fake;
use crate::network::{Devices, chain, planned, quantized, with_reference};
use crate::rng::Rng;
use ottava_compiler::Placement;
use ottava_graph::Graph;
use ottava_hal::device::LinkMode;
use ottava_plan::{Plan, Work};

/// Largest network whose assignments are all tried.
const MAX_NODES: usize = 7;

/// The graph with a version of its own for each node, by which devices can price it. It is planned, not run.
fn numbered(mut graph: Graph) -> Graph {
    graph.nodes.iter_mut().zip(1_000..).for_each(|(node, n)| node.version = n);
    graph
}

/// Two devices that take everything at random prices per node; the second one copies.
fn devices(seed: u64) -> Devices {
    let fake = |id: &'static str, mode, latency| {
        let start = seed * 2 + u64::from(id == "b");
        let price = move |version: u32| 100 + Rng::new(start << 16 | u64::from(version)).below(3_000) as u64;
        let fake = Fake::new(id, 0).price(move |_, n| if n.version < 1_000 { 100 } else { price(n.version) });
        (id, fake.link(mode, latency))
    };
    with_reference(vec![fake("a", LinkMode::Native, 150), fake("b", LinkMode::Copy, 300)])
}

/// Partitions, submissions and copies of a plan, one after the other. A byte takes a nanosecond to or from `b`.
fn latency(plan: &Plan, devices: &Devices) -> u64 {
    let link = |id: &str| devices.iter().find(|(d, _)| *d == id).map_or(0, |(_, d)| d.info().link.latency_ns);
    let runs = plan.partitions.iter().map(|p| p.est_ns + link(&p.device));
    let place = |place: &ottava_plan::Place| match place {
        ottava_plan::Place::Device(d) => plan.devices[*d].id == "b",
        ottava_plan::Place::Host => false,
    };
    let copies = plan.steps.iter().map(|s| match &s.work {
        Work::Copy { slot, from, to } => {
            let bytes = plan.slots[*slot].ty.byte_len().unwrap_or(0) as u64;
            if place(from) || place(to) { link("b") + bytes } else { 0 }
        }
        _ => 0,
    });
    runs.chain(copies).sum()
}

/// Latency of the plan that the search finds, and the least of all assignments.
fn found_and_least(graph: &Graph, seed: u64) -> (u64, u64) {
    let devices = devices(seed);
    let free = Placement { min_gain_ns: 0, min_gain: 0.0, ..Placement::default() };
    let n = graph.nodes.len();
    let pinned = |mask: usize| {
        let on = |i: usize| if mask >> i & 1 == 0 { "a" } else { "b" };
        let pins = graph.nodes.iter().enumerate().map(|(i, node)| (node.name.clone(), on(i).to_string())).collect();
        latency(&planned(graph, &devices, &Placement { pins, ..free.clone() }).0, &devices)
    };
    let least = (0..1usize << n).map(pinned).min().expect("there is an assignment");
    (latency(&planned(graph, &devices, &free).0, &devices), least)
}

#[test]
fn the_best_split_of_a_chain_is_found() {
    for seed in 0..6 {
        let (found, least) = found_and_least(&numbered(chain(MAX_NODES)), seed);
        assert_eq!(found, least, "seed {seed}");
    }
}

#[test]
fn splits_of_small_networks_are_near_the_best() {
    let (mut n, mut n_best, mut worst) = (0, 0, 1.0f64);
    for seed in 0..90 {
        let graph = numbered(quantized(seed));
        if graph.nodes.len() > MAX_NODES {
            continue;
        }
        let (found, least) = found_and_least(&graph, seed);
        n += 1;
        n_best += usize::from(found == least);
        worst = worst.max(found as f64 / least as f64);
    }
    println!("{n_best} of {n} networks have their best split, the worst is {worst:.3} times as slow");
    assert!(n >= 10 && n_best * 10 >= n * 8 && worst <= 1.2, "{n_best} of {n}, worst {worst}");
}
