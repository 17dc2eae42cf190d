//! Small networks, and running plans of them.

use crate::device::Fake;
use crate::random_graph::random_graph;
use crate::rng::Rng;
use ottava_compiler::{Cx, Diagnostic, Placement, Target, canonicalize, integerize, place};
use ottava_graph::{Graph, Phase, verify};
use ottava_hal::{Attr, CompileOptions, DataType, Device, Node, QuantParams, Tensor, TensorType, ValueId};
use ottava_plan::Plan;
use ottava_reference::ReferenceDevice;
use ottava_runtime::{RunOptions, Runner};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Devices by id, in the order of targets.
pub type Devices = Vec<(&'static str, Arc<dyn Device>)>;

/// Devices and behind them the reference.
pub fn with_reference(fakes: Vec<(&'static str, Fake)>) -> Devices {
    let mut devices: Devices = fakes.into_iter().map(|(id, fake)| (id, fake.open())).collect();
    devices.push(("reference", Arc::new(ReferenceDevice::new())));
    devices
}

/// A quantized chain on u8 values of 32 bytes: `pool0`, `relu1`, `pool2`, ...
pub fn chain(n: usize) -> Graph {
    let mut graph = Graph { phase: Phase::Quantized, ..Graph::new("chain") };
    let ty = TensorType::fixed(DataType::U8, &[1, 2, 4, 4]).quantized(QuantParams::per_tensor(0.05, 120));
    let mut x = graph.add_input("x", ty.clone());
    for i in 0..n {
        let y = graph.add_value(format!("v{i}"), ty.clone());
        let mut node = if i % 2 == 0 {
            let mut pool = Node::new(format!("net/pool{i}"), "MaxPool", 22);
            pool.attrs.set("kernel_shape", Attr::Ints(vec![1, 1]));
            pool
        } else {
            Node::new(format!("net/relu{i}"), "Relu", 14)
        };
        node.inputs = vec![Some(x)];
        node.outputs = vec![y];
        graph.nodes.push(node);
        x = y;
    }
    graph.outputs = vec![x];
    verify(&graph).expect("the chain is well formed");
    graph
}

/// A random network with integer operators.
pub fn quantized(seed: u64) -> Graph {
    let reference = ReferenceDevice::new();
    let mut cx = Cx::new(&reference);
    let canonical = canonicalize(&random_graph(seed), &mut cx).expect("random networks are canonicalized");
    integerize(&canonical, &mut cx).expect("random networks are integerized")
}

/// Random data for the inputs of a graph.
pub fn inputs(graph: &Graph, seed: u64) -> Vec<Tensor> {
    let mut rng = Rng::new(seed);
    let mut one = |id: &ValueId| {
        let ty = graph.ty(*id);
        let shape = ty.shape.known().expect("shapes are fixed");
        let n: usize = shape.iter().product();
        match ty.dtype.storage_range() {
            Some((lo, hi)) => {
                let ints: Vec<i64> = (0..n).map(|_| rng.int(lo.into(), hi.into())).collect();
                Tensor::from_ints(ty.dtype, &shape, &ints).expect("integers of the type")
            }
            None => {
                let reals: Vec<f32> = (0..n).map(|_| rng.real(-3.0, 3.0)).collect();
                Tensor::from_f32s(ty.dtype, &shape, &reals).expect("reals of the type")
            }
        }
    };
    graph.inputs.iter().map(&mut one).collect()
}

/// The plan and the findings.
pub fn planned(graph: &Graph, devices: &Devices, placement: &Placement) -> (Plan, Vec<Diagnostic>) {
    let mut notes = Vec::new();
    let plan = try_plan(graph, devices, placement, &mut notes).unwrap_or_else(|e| panic!("{}: {e}", graph.name));
    (plan, notes)
}

/// The plan, or the error in words.
pub fn try_plan(
    graph: &Graph,
    devices: &Devices,
    placement: &Placement,
    notes: &mut Vec<Diagnostic>,
) -> Result<Plan, String> {
    let targets: Vec<Target> = devices.iter().map(|(id, d)| Target { id, device: d.as_ref() }).collect();
    place(graph, &targets, placement, notes).map_err(|e| e.to_string())
}

/// Runs a plan.
pub fn run(plan: &Plan, devices: &Devices, inputs: &[Tensor]) -> Vec<Tensor> {
    plan.check().expect("a plan of the compiler passes its check");
    let open: BTreeMap<String, Arc<dyn Device>> = devices.iter().map(|(id, d)| (id.to_string(), d.clone())).collect();
    let runner = Runner::new(plan.clone(), &open, &CompileOptions::default()).expect("every device takes its part");
    runner.run(inputs, RunOptions::default()).expect("the plan runs").0
}

/// The outputs of the whole graph on the reference.
pub fn expected(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let reference = with_reference(vec![]);
    run(&planned(graph, &reference, &Placement::default()).0, &reference, inputs)
}

/// Asserts that a plan computes what the reference computes.
pub fn assert_equal(graph: &Graph, plan: &Plan, devices: &Devices, seed: u64) {
    let inputs = inputs(graph, seed);
    let (found, wanted) = (run(plan, devices, &inputs), expected(graph, &inputs));
    assert_eq!(found.len(), wanted.len());
    for (i, (a, b)) in found.iter().zip(&wanted).enumerate() {
        assert!(a == b, "{}: output {i} is {a:?}, on the reference {b:?}", graph.name);
    }
}

/// The devices of a plan's partitions, in order.
pub fn order(plan: &Plan) -> Vec<&str> {
    plan.partitions.iter().map(|p| p.device.as_str()).collect()
}

/// The device of a node, with the reason.
pub fn seat<'p>(plan: &'p Plan, node: &str) -> (&'p str, &'p str) {
    let placed = plan.placed.iter().find(|p| p.node == node).unwrap_or_else(|| panic!("no node {node}"));
    (&placed.device, &placed.reason)
}
