//! Random networks on random devices: every plan holds, computes what the reference computes, says why, and comes out the
//! same twice.

use crate::device::{Fake, YES, no};
use crate::network::{Devices, assert_equal, planned, quantized, with_reference};
use crate::rng::Rng;
use ottava_compiler::partition::{Placement, Policy};
use ottava_graph::text;
use ottava_hal::device::LinkMode;
use ottava_hal::{DataType, Node, Program, Reason, Verdict};

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

/// A device that takes about three nodes of four, some of one sign only, at random prices.
fn random_device(id: &'static str, seed: u64) -> Fake {
    let mut rng = draw(seed, id);
    let refused = [None, Some(DataType::U8), Some(DataType::S8)][rng.below(3)];
    let mode = [LinkMode::Native, LinkMode::Copy][rng.below(2)];
    Fake::new(id, 0)
        .rule(move |program, node| match refused {
            Some(dtype) if touches(program, node, dtype) => Verdict::rejected(Reason::Dtype, "of the wrong sign"),
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
    let (mut n_split, mut n_bridges, mut n_twins) = (0, 0, 0);
    for seed in SEEDS {
        let graph = quantized(seed);
        let devices = random_devices(seed);
        let policy = if seed % 3 == 0 { Policy::Priority } else { Policy::default() };
        let placement = Placement { policy, min_gain_ns: seed % 5 * 100, ..Placement::default() };
        let (plan, notes) = planned(&graph, &devices, &placement);
        assert_equal(&graph, &plan, &devices, seed);
        let nodes: usize = plan.partitions.iter().map(|p| p.program.nodes.len()).sum();
        assert_eq!(plan.placed.len(), nodes);
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
        assert_eq!(planned(&graph, &random_devices(seed), &placement), (plan, notes), "seed {seed} differs");
    }
    println!("{n_split} split plans, {n_bridges} bridges, {n_twins} twins");
    assert!(n_split > 150 && n_bridges > 100 && n_twins > 200, "{n_split} {n_bridges} {n_twins}");
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
