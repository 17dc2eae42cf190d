//! Values that stay on the chip between layers: the same bytes with and without, and exactly the traffic less that the
//! values make up.

use crate::common::{CHIPS, Net, Rng, compile, data, describe, npu, op, reference, run, try_chip};
use crate::network::network;
use ottava_driver_npu::NodeCycles;
use ottava_hal::{Attr, DataType, Program, QuantParams, RequantMode, TensorType, ValueId};

/// A chip that keeps values, and the same without.
fn both(text: &str) -> [String; 2] {
    let inner = text.strip_prefix("Npu(").unwrap().strip_suffix(')').unwrap();
    let comma = if inner.is_empty() { "" } else { ", " };
    [true, false].map(|on| format!("Npu({inner}{comma}fusion: {on})"))
}

fn s8(dims: &[usize]) -> TensorType {
    TensorType::fixed(DataType::S8, dims).quantized(QuantParams::per_tensor(0.05, 3))
}

fn product(net: &mut Net, rng: &mut Rng, x: ValueId, columns: usize) -> ValueId {
    let k = net.dims(x)[1];
    let w = TensorType::fixed(DataType::S8, &[k, columns]).quantized(QuantParams::per_tensor(0.01, 0));
    let w = net.random(w, rng);
    let mut node = op("MatMul");
    node.requant = Some(RequantMode::Fp32Rne);
    net.node(node, &[x, w], &s8(&[]))
}

fn convolution(net: &mut Net, rng: &mut Rng, x: ValueId, (n, kernel, groups): (usize, usize, usize)) -> ValueId {
    let c = net.dims(x)[1];
    let w = TensorType::fixed(DataType::S8, &[n, c / groups, kernel, kernel]);
    let w = net.random(w.quantized(QuantParams::per_tensor(0.01, 0)), rng);
    let mut node = op("Conv");
    node.requant = Some(RequantMode::Fp32Rne);
    node.attrs.set("pads", Attr::Ints(vec![kernel as i64 / 2; 4]));
    node.attrs.set("group", Attr::Int(groups as i64));
    net.node(node, &[x, w], &s8(&[]))
}

fn sum(nodes: &[NodeCycles], of: impl Fn(&NodeCycles) -> u64) -> u64 {
    nodes.iter().map(of).sum()
}

/// The cycles of both chips; their bytes are those of the reference.
fn compare(text: &str, program: &Program, rng: &mut Rng) -> [Vec<NodeCycles>; 2] {
    let inputs = data(program, rng);
    let expect = reference(program, &inputs);
    both(text).map(|text| {
        let device = npu(&text);
        let exe = compile(device.as_ref(), program);
        let found = run(device.as_ref(), &exe, &inputs).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(found, expect, "{} on {text}", describe(program));
        device.cycles(program).unwrap()
    })
}

/// Bytes of a value.
fn bytes(program: &Program, id: ValueId) -> u64 {
    program.ty(id).byte_len().unwrap() as u64
}

#[test]
fn a_pair_moves_exactly_the_bytes_of_its_value_less() {
    let mut rng = Rng::new(1);
    let mut net = Net::default();
    let x = net.input(s8(&[96, 64]));
    let y = product(&mut net, &mut rng, x, 48);
    let z = product(&mut net, &mut rng, y, 32);
    let program = net.output(z);
    let [on, off] = compare("Npu()", &program, &mut rng);
    let less = |of: fn(&NodeCycles) -> u64| sum(&off, of) - sum(&on, of);
    assert_eq!(less(|n| n.counters.dram_bytes_written), bytes(&program, y), "not stored");
    assert_eq!(less(|n| n.counters.dram_bytes_read), bytes(&program, y), "not loaded");
    assert_eq!(less(|n| n.dram_bytes), 2 * bytes(&program, y));
    assert_eq!((on[0].kept_on_chip, on[1].kept_on_chip), (bytes(&program, y), 0));
    assert!(off.iter().all(|n| n.kept_on_chip == 0));
    assert!(sum(&on, |n| n.total) < sum(&off, |n| n.total));
}

#[test]
fn a_value_that_is_also_an_output_is_stored_and_not_loaded() {
    let mut rng = Rng::new(2);
    let mut net = Net::default();
    let x = net.input(s8(&[96, 64]));
    let y = product(&mut net, &mut rng, x, 48);
    let z = product(&mut net, &mut rng, y, 32);
    let mut program = net.output(z);
    program.outputs.insert(0, y);
    let [on, off] = compare("Npu()", &program, &mut rng);
    let total = |nodes: &[NodeCycles], of: fn(&NodeCycles) -> u64| sum(nodes, of);
    let written = |n: &NodeCycles| n.counters.dram_bytes_written;
    let read = |n: &NodeCycles| n.counters.dram_bytes_read;
    assert_eq!(total(&on, written), total(&off, written));
    assert_eq!(total(&off, read) - total(&on, read), bytes(&program, y), "not loaded");
    assert_eq!(on[0].kept_on_chip, bytes(&program, y));
}

/// A block with windows, a depthwise convolution, a value that is needed twice, and a pool.
fn block(rng: &mut Rng, channels: usize, size: usize) -> Program {
    let mut net = Net::default();
    let x = net.input(s8(&[1, channels, size, size]));
    let a = convolution(&mut net, rng, x, (channels, 3, 1));
    let b = convolution(&mut net, rng, a, (channels, 3, channels));
    let c = convolution(&mut net, rng, b, (channels, 1, 1));
    let sum = net.node(op("Add"), &[a, c], &s8(&[]));
    let mut pool = op("MaxPool");
    pool.attrs.set("kernel_shape", Attr::Ints(vec![2, 2]));
    pool.attrs.set("strides", Attr::Ints(vec![2, 2]));
    let pooled = net.node(pool, &[sum], &s8(&[]));
    let mut mean = op("GlobalAveragePool");
    mean.requant = Some(RequantMode::Fp32Rne);
    let y = net.node(mean, &[pooled], &s8(&[]));
    net.output(y)
}

#[test]
fn chains_and_values_of_several_layers_stay_on_the_chip() {
    let mut rng = Rng::new(3);
    let program = block(&mut rng, 16, 16);
    let [on, off] = compare("Npu()", &program, &mut rng);
    let kept = on.iter().filter(|n| n.kept_on_chip > 0).count();
    assert!(kept >= 5, "of 5 values between layers {kept} are kept: {on:?}");
    // What is left are the input in its two orders, weights with their tables, and the output.
    let (a, b) = (sum(&on, |n| n.dram_bytes), sum(&off, |n| n.dram_bytes));
    assert!(2 * a < b, "{a} of {b} bytes are left");
    assert!(sum(&on, |n| n.total) < sum(&off, |n| n.total));
}

#[test]
fn every_chip_gives_the_same_bytes_with_and_without_and_is_not_slower() {
    let more = [
        "Npu(sram: (a: (bytes: 8192), w: (bytes: 4096), acc: (bytes: 4096)))",
        "Npu(array: (rows: 32, cols: 8, dataflow: Is), sram: (a: (bytes: 32768), w: (bytes: 8192)))",
        "Npu(dma: (in_flight: 1), dram: Simple(bytes_per_cycle: 2.0, latency: 300))",
        "Npu(dma: (overlap: None), dram: Simple(bytes_per_cycle: 64.0, latency: 0))",
        "Npu(dram: Banked(bytes_per_cycle: 8.0, latency: 40, channels: 2, banks: 4, row_bytes: 1024, row_miss: 30, turnaround: 6))",
    ];
    let mut saved = 0;
    for seed in 0..6 {
        let mut rng = Rng::new(400 + seed);
        let program = if seed == 0 { block(&mut rng, 6, 9) } else { network(&mut rng) };
        for text in CHIPS.iter().chain(&more) {
            let [on, off] = compare(text, &program, &mut rng);
            let (fast, slow) = (sum(&on, |n| n.total), sum(&off, |n| n.total));
            assert!(fast <= slow, "{} on {text}: {fast} cycles, {slow} without", describe(&program));
            saved += u64::from(sum(&on, |n| n.dram_bytes) < sum(&off, |n| n.dram_bytes));
        }
    }
    assert!(saved > 20, "of 54 programs {saved} move less");
}

#[test]
fn a_chip_without_room_keeps_nothing() {
    let mut rng = Rng::new(5);
    let program = block(&mut rng, 4, 8);
    let tiny = "Npu(array: (rows: 8, cols: 8), sram: (a: (bytes: 96, banks: 1), w: (bytes: 128, banks: 1), acc: (bytes: 64, banks: 1)))";
    let [on, off] = compare(tiny, &program, &mut rng);
    // Only values of a few bytes fit: the pooled one.
    assert!(on.iter().all(|n| n.kept_on_chip <= 64), "{on:?}");
    assert!(sum(&on, |n| n.total) <= sum(&off, |n| n.total));
}

#[test]
fn the_option_of_the_driver_goes_before_the_chips_own() {
    let mut rng = Rng::new(6);
    let program = block(&mut rng, 8, 8);
    let [on, off] = compare("Npu()", &program, &mut rng);
    let time = |text: &str, option: &str| {
        let device = try_chip(text, &[("fusion", option)]).unwrap();
        device.estimate(&program).unwrap().time_ns
    };
    // 2 ns a cycle.
    assert_eq!(time("Npu(fusion: true)", "off"), 2 * sum(&off, |n| n.total));
    assert_eq!(time("Npu(fusion: false)", "on"), 2 * sum(&on, |n| n.total));
    assert!(try_chip("Npu()", &[("fusion", "maybe")]).err().unwrap().to_string().contains("on or off"));
}
