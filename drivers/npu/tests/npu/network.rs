//! Small networks of many operators.

use crate::common::{CHIPS, Net, Rng, check, chip, compile, data, finish, npu, op, submission};
use crate::products::conv;
use ottava_driver_npu::NodeCycles;
use ottava_hal::{Attr, Device, Program, Tensor, ValueId};

/// A random network that ends in a matrix product, as classifiers do.
pub fn network(rng: &mut Rng) -> Program {
    let mut net = Net::default();
    let ty = rng.byte_type(&[1, 3, 12, 12]);
    let mut x = net.input(ty);
    for _ in 0..rng.size(2, 4) {
        x = layer(&mut net, rng, x);
    }
    let like = rng.byte_type(&[]);
    let mut mean = op("GlobalAveragePool");
    mean.requant = Some(ottava_hal::RequantMode::Fp32Rne);
    let pooled = net.node(mean, &[x], &like);
    let flat = net.node(op("Flatten"), &[pooled], &like);
    let k = net.dims(flat)[1];
    let w = ottava_hal::TensorType::fixed(ottava_hal::DataType::S8, &[10, k]);
    let w = net.random(w.quantized(ottava_hal::QuantParams::per_tensor(0.02, 0)), rng);
    let mut gemm = op("Gemm");
    gemm.attrs.set("transB", Attr::Int(1));
    gemm.requant = Some(ottava_hal::RequantMode::Fp32Rne);
    let like = rng.byte_type(&[]);
    let y = net.node(gemm, &[flat, w], &like);
    net.output(y)
}

fn layer(net: &mut Net, rng: &mut Rng, x: ValueId) -> ValueId {
    match rng.range(0, 4) {
        0 => {
            let ty = net.ty(x);
            let mut pool = op("MaxPool");
            pool.attrs.set("kernel_shape", Attr::Ints(vec![2, 2]));
            net.node(pool, &[x], &ty)
        }
        1 => {
            let like = rng.byte_type(&[]);
            let other = net.node(op("Relu"), &[x], &like);
            let like = rng.byte_type(&[]);
            net.node(op("Add"), &[x, other], &like)
        }
        2 => {
            let mut node = op("Concat");
            node.attrs.set("axis", Attr::Int(1));
            let like = rng.byte_type(&[]);
            net.node(node, &[x, x], &like)
        }
        3 if net.dims(x)[1] > 1 && net.dims(x)[2] > 5 && net.dims(x)[3] > 5 => conv(net, rng, x, true),
        _ if net.dims(x)[2] > 5 && net.dims(x)[3] > 5 => conv(net, rng, x, false),
        _ => x,
    }
}

#[test]
fn networks_equal_the_reference() {
    for seed in 0..25 {
        let mut rng = Rng::new(seed);
        let program = network(&mut rng);
        check(&program, &mut rng);
    }
}

#[test]
fn cycles_are_those_of_the_estimate_and_the_same_on_every_run() {
    let mut rng = Rng::new(11);
    let program = network(&mut rng);
    for text in CHIPS {
        let device = chip(text);
        let (exe, inputs) = (compile(device.as_ref(), &program), data(&program, &mut rng));
        let queue = device.create_queue().unwrap();
        let mut runs = Vec::new();
        for _ in 0..2 {
            let (mut s, _) = submission(device.as_ref(), &exe, &inputs);
            s.profile = true;
            let id = finish(device.as_ref(), queue.as_ref(), s).unwrap();
            let profile = queue.take_profile(id).expect("it was profiled");
            assert!(queue.take_profile(id).is_none(), "it is taken once");
            assert!(profile.begin <= profile.end);
            runs.push(profile.nodes.into_iter().map(|n| (n.node, n.kernel, n.cycles, n.bytes)).collect::<Vec<_>>());
        }
        assert_eq!(runs[0], runs[1]);
        // A node in the middle may find all that it reads on the chip and leave there what it makes.
        assert!(runs[0].iter().all(|(_, _, cycles, _)| *cycles > 0), "{:?}", runs[0]);
        assert!(runs[0].iter().map(|(.., bytes)| bytes).sum::<u64>() > 0, "{:?}", runs[0]);
        let cost = device.estimate(&program).unwrap();
        assert_eq!(cost.confidence, ottava_hal::Confidence::Simulated);
        // Nodes share the estimated time, at 2 ns a cycle.
        let cycles: u64 = runs[0].iter().map(|n| n.2).sum();
        assert_eq!(cycles * 2, cost.time_ns);
        assert!(cost.weight_bytes > 0);
    }
}

#[test]
fn cycles_are_divided_among_nodes_and_reasons() {
    for seed in 0..8 {
        let mut rng = Rng::new(seed);
        let program = network(&mut rng);
        let inputs = data(&program, &mut rng);
        for text in CHIPS {
            let device = npu(text);
            let nodes = device.cycles(&program).unwrap();
            assert_eq!(nodes.len(), program.nodes.len());
            for (n, node) in nodes.iter().zip(&program.nodes) {
                assert_eq!(n.node, node.name);
                assert_eq!(n.compute + n.stalls.values().sum::<u64>(), n.total, "{n:?}");
                assert_eq!(n.stalls.len(), 7, "every reason is there: {n:?}");
                let own = ["bank", "dma_in", "dma_out", "issue", "drain"];
                assert!(n.stalls.iter().all(|(r, cycles)| *cycles == 0 || own.contains(r)), "{n:?}");
                assert_eq!(n.total == 0, node.op == "Flatten", "{n:?}");
                // A classifier at the end: 10 columns, as many sums as channels.
                let depth = program.ty(node.inputs[0].unwrap()).shape.known().unwrap();
                assert!(node.op != "Gemm" || n.macs == 10 * depth[1] as u64, "{n:?}");
                assert!(n.macs == 0 || n.compute > 0, "{n:?}");
            }
            let total: u64 = nodes.iter().map(|n| n.total).sum();
            assert_eq!(device.estimate(&program).unwrap().time_ns, 2 * total, "at 500 MHz");
            check_run(device.as_ref(), &program, &inputs, &nodes);
        }
    }
}

/// A run reports the same cycles and bytes.
fn check_run(device: &dyn Device, program: &Program, inputs: &[Tensor], nodes: &[NodeCycles]) {
    let (exe, queue) = (compile(device, program), device.create_queue().unwrap());
    let (mut s, _) = submission(device, &exe, inputs);
    s.profile = true;
    let id = finish(device, queue.as_ref(), s).unwrap();
    let times = queue.take_profile(id).unwrap().nodes;
    let found: Vec<_> = times.iter().map(|n| (n.node.as_str(), n.cycles, n.bytes)).collect();
    let with_steps = nodes.iter().filter(|n| n.total > 0);
    assert_eq!(found, with_steps.map(|n| (n.node.as_str(), n.total, n.dram_bytes)).collect::<Vec<_>>());
}
