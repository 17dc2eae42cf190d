//! Random quantized networks: the CPU device (with the reference behind it for what it refuses) computes the same bits as
//! the reference alone, for every instruction set that this machine has and one and two threads.

use ottava_compiler::{Cx, Fallback, Placement, Target, compile};
use ottava_driver_cpu::CpuDriver;
use ottava_e2e::assets::isas;
use ottava_e2e::lockstep::random_inputs;
use ottava_e2e::random_graph::random_graph;
use ottava_graph::{Graph, text};
use ottava_hal::{CompileOptions, Device, Driver, Options, Tensor};
use ottava_reference::ReferenceDevice;
use ottava_runtime::{RunOptions, Runner};
use std::collections::BTreeMap;
use std::sync::Arc;

const SEEDS: std::ops::Range<u64> = 0..300;

fn cpu(isa: &str, threads: usize) -> Arc<dyn Device> {
    let options = Options::from([("isa".into(), isa.into()), ("threads".into(), threads.to_string())]);
    CpuDriver.open("cpu", &options).expect("the CPU device opens")
}

/// Runs a graph on a device before the reference; also says how many nodes the device took.
fn run(graph: &Graph, device: Option<&Arc<dyn Device>>, inputs: &[Tensor]) -> (Vec<Tensor>, usize) {
    let reference: Arc<dyn Device> = Arc::new(ReferenceDevice::new());
    let mut devices = BTreeMap::from([("reference".to_owned(), reference.clone())]);
    devices.extend(device.map(|d| ("cpu".to_owned(), d.clone())));
    let mut targets: Vec<Target> = device.iter().map(|d| Target { id: "cpu", device: d.as_ref() }).collect();
    targets.push(Target { id: "reference", device: reference.as_ref() });
    let placement = Placement { fallback: Fallback::Reference, ..Placement::default() };
    let plan = compile(graph, &targets, &placement, &mut Cx::new(reference.as_ref())).expect("compiles");
    let taken = plan.partitions.iter().filter(|p| p.device == "cpu").map(|p| p.program.nodes.len()).sum();
    let runner = Runner::new(plan, &devices, &CompileOptions::default()).expect("loads");
    let outputs = runner.run(inputs, RunOptions::default()).expect("runs").0;
    (outputs, taken)
}

#[test]
fn random_networks_are_bit_equal_on_the_cpu() {
    let devices: Vec<(String, Arc<dyn Device>)> = isas()
        .iter()
        .flat_map(|isa| [1, 2].map(|threads| (format!("{isa}, {threads} threads"), cpu(isa, threads))))
        .collect();
    let mut n_taken = 0;
    for seed in SEEDS {
        let graph = random_graph(seed);
        let inputs = random_inputs(&graph, seed);
        let (expected, _) = run(&graph, None, &inputs);
        for (label, device) in &devices {
            let (found, taken) = run(&graph, Some(device), &inputs);
            n_taken += taken;
            let equal = found.iter().zip(&expected).all(|(a, b)| a.bytes() == b.bytes() && a.shape() == b.shape());
            assert!(equal, "seed {seed} differs on {label}\n{}", text::print(&graph));
        }
    }
    println!("{} random networks equal on: {}", SEEDS.count(), isas().join(" "));
    assert!(n_taken > 1000, "the CPU took only {n_taken} nodes");
}
