//! Acceptance S12: the bytes are those of the reference on every array, dataflow and bandwidth, and the counters of a
//! run are those of every other run.
//!
//! What is run: every operator case of `hal/ops` that the device accepts, and random networks. `OTTAVA_S12=full` runs
//! each of them on all 72 chips; by default each runs on a few, and the chips take turns so that every one is used.

use crate::common::{Net, Rng, compile, data, describe, npu, op, reference, run};
use crate::network::network;
use ottava_driver_npu::NpuDevice;
use ottava_hal::{Attr, DataType, Device, Program, QuantParams, RequantMode, Tensor, TensorType};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows, columns and bytes of the scratchpads and the accumulators.
const ARRAYS: [(usize, usize, usize); 8] = [
    (8, 8, 4096),
    (16, 16, 262_144),
    (32, 32, 65_536),
    (8, 32, 16_384),
    (32, 8, 8192),
    (12, 20, 32_768),
    (64, 128, 1_048_576),
    (128, 64, 131_072),
];
const DATAFLOWS: [&str; 3] = ["Ws", "Os", "Is"];
const BANDWIDTHS: [f64; 3] = [1.5, 16.0, 4096.0];
/// Chips of each program in the short form.
const FEW: usize = 3;
/// Random programs: networks, and single products of 16 bits or computed operands.
const NETWORKS: u64 = 16;

fn is_full() -> bool {
    std::env::var("OTTAVA_S12").is_ok_and(|v| v == "full")
}

/// Every combination.
fn chips() -> Vec<Arc<NpuDevice>> {
    let mut chips = Vec::new();
    for (rows, cols, bytes) in ARRAYS {
        for dataflow in DATAFLOWS {
            for bandwidth in BANDWIDTHS {
                let ram = format!(
                    "sram: (a: (bytes: {bytes}, banks: 1), w: (bytes: {bytes}, banks: 1), acc: (bytes: {bytes}, banks: 1))"
                );
                chips.push(npu(&format!(
                    "Npu(array: (rows: {rows}, cols: {cols}, dataflow: {dataflow}), {ram}, \
                     dram: Simple(bytes_per_cycle: {bandwidth:?}, latency: 20))"
                )));
            }
        }
    }
    chips
}

/// Runs a program on its chips, twice each, and compares bytes and counters.
struct Bench {
    chips: Vec<Arc<NpuDevice>>,
    next: usize,
    used: BTreeSet<usize>,
    runs: usize,
}

impl Bench {
    fn new() -> Self {
        Self { chips: chips(), next: 0, used: BTreeSet::new(), runs: 0 }
    }

    fn check(&mut self, program: &Program, inputs: &[Tensor]) {
        let expect = reference(program, inputs);
        let count = if is_full() { self.chips.len() } else { FEW };
        for _ in 0..count {
            // 5 and 72 have no common factor: steps of 5 reach every chip, and arrays change from one to the next.
            self.next = (self.next + 5) % self.chips.len();
            self.used.insert(self.next);
            let device = &self.chips[self.next];
            let exe = compile(device.as_ref(), program);
            let counters = [(); 2].map(|()| {
                let found = run(device.as_ref(), &exe, inputs).unwrap_or_else(|e| panic!("{}: {e}", describe(program)));
                assert_eq!(found, expect, "{} on {:?}", describe(program), device.config());
                device.counters(exe.as_ref()).expect("it has run")
            });
            assert_eq!(counters[0], counters[1], "{}", describe(program));
            self.runs += 2;
        }
    }
}

#[test]
fn operator_cases_have_the_same_bytes_everywhere() {
    let (mut bench, mut n_cases) = (Bench::new(), 0);
    for case in ottava_ops::all().flat_map(|op| op.cases()) {
        let program = case.program();
        let accepted = |d: &Arc<NpuDevice>| d.assess(&program).unwrap().iter().all(|v| v.is_supported());
        if !accepted(&bench.chips[0]) {
            continue;
        }
        assert!(bench.chips.iter().all(accepted), "{} is accepted by some chips only", describe(&program));
        let runtime = case.inputs.iter().flatten().filter(|x| !x.constant);
        let inputs: Vec<Tensor> = runtime.map(|x| x.tensor.clone()).collect();
        bench.check(&program, &inputs);
        n_cases += 1;
    }
    println!("S12: {n_cases} operator cases, {} runs, every byte equal", bench.runs);
    assert!(n_cases >= 19, "{n_cases} cases");
}

/// A product of computed operands or with a result of 16 bits or f32.
fn product(rng: &mut Rng) -> Program {
    let mut net = Net::default();
    let (m, k, n) = (rng.size(1, 40), rng.size(1, 150), rng.size(1, 40));
    let (ta, tb) = (rng.byte_type(&[2, m, k]), rng.byte_type(&[2, k, n]));
    let (x, w) = (net.input(ta), net.input(tb));
    let mut node = op("MatMul");
    node.requant = Some(rng.pick(&RequantMode::ALL));
    let like = match rng.range(0, 2) {
        0 => TensorType::fixed(DataType::F32, &[]),
        1 => TensorType::fixed(DataType::S16, &[]).quantized(QuantParams::per_tensor(0.003, 0)),
        _ => rng.byte_type(&[]),
    };
    let y = net.node(node, &[x, w], &like);
    let mut turn = op("Transpose");
    turn.attrs.set("perm", Attr::Ints(vec![0, 2, 1]));
    let y = if like.quant.is_some() { net.node(turn, &[y], &like) } else { y };
    net.output(y)
}

#[test]
fn random_programs_have_the_same_bytes_everywhere() {
    let mut bench = Bench::new();
    for seed in 0..NETWORKS {
        let mut rng = Rng::new(1000 + seed);
        for program in [network(&mut rng), product(&mut rng)] {
            let inputs = data(&program, &mut rng);
            bench.check(&program, &inputs);
        }
    }
    println!("S12: {} random programs, {} runs, every byte equal", 2 * NETWORKS, bench.runs);
    assert_eq!(bench.used.len(), bench.chips.len(), "every chip is used");
}
