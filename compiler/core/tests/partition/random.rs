//! Random networks on random devices: every plan holds, computes what the reference computes, says why, and comes out the
//! same twice.

use crate::device::{Fake, YES, no};
use crate::network::{Devices, assert_equal, planned, quantized, with_reference};
use crate::rng::Rng;
use ottava_compiler::{Placement, Policy};
use ottava_driver_cpu::CpuDriver;
use ottava_graph::text;
use ottava_hal::device::LinkMode;
use ottava_hal::{DataType, Driver, Node, Options, Program, Reason, Verdict};
use std::collections::BTreeSet;

const SEEDS: std::ops::Range<u64> = 0..300;

/// A number that depends on a seed and a text alone.
fn draw(seed: u64, text: &str) -> Rng {
    Rng::new(text.bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)))
}

/// Whether an 8-bit activation of a node has this storage.
fn touches(program: &Program, node: &Node, dtype: DataType) -> bool {
    let ids = node.inputs.iter().flatten().chain(&node.outputs);
    ids.map(|id| program.value(*id)).any(|v| v.constant.is_none() && v.ty.dtype == dtype)
}

/// Whether a node reads or writes quantized activations.
fn quantized_operands(program: &Program, node: &Node) -> bool {
    let ids = node.inputs.iter().flatten().chain(&node.outputs);
    ids.map(|id| program.value(*id)).any(|v| v.constant.is_none() && v.ty.quant.is_some())
}

/// A device that takes about three nodes of four, some of one sign only or only floats, at random prices.
fn random_device(id: &'static str, seed: u64) -> Fake {
    let mut rng = draw(seed, id);
    let refused = [None, Some(DataType::U8), Some(DataType::S8)][rng.below(3)];
    let float_only = rng.chance(25);
    let mode = [LinkMode::Native, LinkMode::Copy][rng.below(2)];
    Fake::new(id, 0)
        .rule(move |program, node| match refused {
            Some(dtype) if touches(program, node, dtype) => Verdict::rejected(Reason::Dtype, "of the wrong sign"),
            _ if float_only && quantized_operands(program, node) => Verdict::rejected(Reason::Dtype, "is no float"),
            _ if draw(seed, &format!("{id}{}", node.name)).chance(25) => no("by lot"),
            _ => YES,
        })
        .price(move |_, node| 100 + draw(seed, &format!("{id}{}", node.op)).below(5_000) as u64)
        .fixed(rng.below(300) as u64)
        .link(mode, rng.below(1_000) as u64)
}

fn random_devices(seed: u64) -> Devices {
    with_reference(["a", "b", "c"].map(|id| (id, random_device(id, seed))).into())
}

#[test]
fn random_splits_compute_what_the_whole_computes() {
    let (mut n_split, mut n_bridges, mut n_twins, mut n_real) = (0, 0, 0, 0);
    for seed in SEEDS {
        let graph = quantized(seed);
        let devices = random_devices(seed);
        let policy = if seed % 3 == 0 { Policy::Priority } else { Policy::default() };
        let placement = Placement { policy, min_gain_ns: seed % 5 * 100, ..Placement::default() };
        let (plan, notes) = planned(&graph, &devices, &placement);
        assert_equal(&graph, &plan, &devices, seed);
        let nodes: usize = plan.partitions.iter().map(|p| p.program.nodes.len()).sum();
        assert_eq!(plan.placed.len(), nodes);
        let names: BTreeSet<&str> = plan.placed.iter().map(|p| p.node.as_str()).collect();
        let slots: BTreeSet<&str> = plan.slots.iter().map(|s| s.name.as_str()).collect();
        assert_eq!((names.len(), slots.len()), (nodes, plan.slots.len()), "seed {seed}: a name is taken twice");
        for placed in &plan.placed {
            assert!(!placed.reason.is_empty(), "seed {seed}: no reason for {}\n{}", placed.node, text::print(&graph));
            assert_eq!(plan.partitions[placed.partition].device, placed.device);
            assert_eq!(placed.opinions.len(), 4);
            assert!(placed.opinions.iter().all(|o| !o.code.is_empty() && !o.text.is_empty()));
            let own = placed.opinions.iter().find(|o| o.device == placed.device);
            assert!(own.is_some_and(|o| o.ok && o.code == "OK"), "seed {seed}: {placed:?}");
        }
        let counted: usize = plan.partitions.iter().map(|p| p.bridges).sum();
        assert_eq!(plan.placed.iter().filter(|p| p.bridge).count(), counted);
        n_split += usize::from(plan.partitions.len() > 1);
        n_bridges += plan.placed.iter().filter(|p| p.bridge).count();
        n_twins += plan.placed.iter().filter(|p| p.reason.contains(" twin (")).count();
        n_real += plan.placed.iter().filter(|p| p.reason.contains(" f32 twin (")).count();
        assert_eq!(planned(&graph, &random_devices(seed), &placement), (plan, notes), "seed {seed} differs");
    }
    println!("{n_split} split plans, {n_bridges} bridges, {n_twins} twins, {n_real} of them on real numbers");
    assert!(
        n_split > 150 && n_bridges > 100 && n_twins > 200 && n_real > 5,
        "{n_split} {n_bridges} {n_twins} {n_real}"
    );
}

#[test]
fn unsigned_networks_are_equal_on_a_signed_device() {
    let mut n_twins = 0;
    for seed in SEEDS {
        let graph = quantized(seed);
        let npu = Fake::new("npu", 1_000).signed();
        let devices = with_reference(vec![("npu", npu), ("cpu", Fake::new("cpu", 40_000))]);
        let (plan, _) = planned(&graph, &devices, &Placement::default());
        assert_equal(&graph, &plan, &devices, seed);
        n_twins += plan.placed.iter().filter(|p| p.device == "npu" && p.reason.contains("as its s8 twin")).count();
    }
    println!("{n_twins} nodes ran as twins");
    assert!(n_twins > 500, "only {n_twins} nodes ran as twins");
}

#[test]
fn the_cpu_and_a_signed_device_share_random_networks() {
    let (mut n_cpu, mut n_npu, mut n_split) = (0, 0, 0);
    for seed in SEEDS {
        let graph = quantized(seed);
        let cpu = CpuDriver.open("cpu", &Options::from([("threads".into(), "1".into())])).expect("the CPU opens");
        let npu = Fake::new("npu", 0).signed().price(|_, n| if n.op == "Conv" { 50 } else { 400 });
        let mut devices = with_reference(vec![("npu", npu.link(LinkMode::Copy, 100))]);
        devices.insert(1, ("cpu", cpu));
        let placement = Placement { min_gain_ns: 0, alternatives: seed % 10 == 0, ..Placement::default() };
        let (plan, _) = planned(&graph, &devices, &placement);
        assert_equal(&graph, &plan, &devices, seed);
        plan.alternatives.iter().for_each(|a| assert_equal(&graph, &a.plan, &devices, seed));
        let on = |id: &str| plan.placed.iter().filter(|p| p.device == id).count();
        (n_cpu, n_npu) = (n_cpu + on("cpu"), n_npu + on("npu"));
        n_split += usize::from(plan.partitions.len() > 1);
    }
    println!("{n_cpu} nodes on the cpu, {n_npu} on the npu, {n_split} split plans");
    assert!(n_cpu > 200 && n_npu > 200 && n_split > 50, "{n_cpu} {n_npu} {n_split}");
}
