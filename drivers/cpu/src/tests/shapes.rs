//! Random shapes against the reference, biased to where kernels change what they do: one more and one less than the edges of tiles,
//! panels, windows of activations, K blocks and cache blocks, with extreme weights, activations and zero points.
//!
//! `OTTAVA_SHAPES` says how many (default 1500; `tests/full.sh` runs 200,000). A failure names its seed: `OTTAVA_SHAPES_SEED` runs
//! that one alone.

use super::product::{add_bias, add_residual, fuse, typed_output};
use crate::device::CpuDevice;
use crate::testing::{Net, Rng, assert_same, data, describe, op, reference, run_once};
use ottava_hal::{Attr, DataType, Node, Program, QuantParams, Tensor, TensorType, ValueId};
use ottava_kernels::Isa;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Units at whose multiples some kernel changes its way: groups, half panels, panels, tiles, windows, blocks.
const UNITS: [usize; 7] = [1, 4, 6, 8, 16, 32, 64];

/// A number at or beside a multiple of a unit, at most `max`.
fn edge(rng: &mut Rng, max: usize) -> usize {
    let unit = rng.pick(&UNITS);
    let at = unit * rng.range(1, 4) as usize;
    (at + rng.range(0, 2) as usize).saturating_sub(1).clamp(1, max)
}

/// Weights: all of one extreme, alternating, bells of several widths, full range.
fn weights(rng: &mut Rng, ty: &TensorType) -> Tensor {
    let dims = ty.shape.known().unwrap();
    let (lo, hi) = ty.dtype.int_range().unwrap();
    let (kind, width) = (rng.range(0, 7), rng.range(1, 40));
    let mut value = |i: usize| match kind {
        0 => lo,
        1 => hi,
        2 => [lo, hi][i % 2],
        3 => [lo, hi][rng.range(0, 1) as usize],
        4 => rng.range(lo, hi),
        _ => ((lo + hi) / 2 + (0..4).map(|_| rng.range(-width, width)).sum::<i64>()).clamp(lo, hi),
    };
    let n: usize = dims.iter().product();
    let values: Vec<i64> = (0..n).map(&mut value).collect();
    Tensor::from_ints(ty.dtype, &dims, &values).unwrap()
}

/// Weight type: symmetric s8 mostly; zero points at both ends and between.
fn weight_type(rng: &mut Rng, dims: &[usize], axis: usize) -> TensorType {
    let dtype = rng.pick(&[DataType::S8, DataType::S8, DataType::S8, DataType::U8]);
    let (lo, hi) = dtype.int_range().unwrap();
    let zero = match rng.range(0, 5) {
        0 => lo,
        1 => hi,
        2 => rng.range(lo, hi),
        _ => (lo + hi + 1) / 2,
    };
    let scales: Vec<f32> = (0..dims[axis]).map(|_| rng.scale() * 0.05).collect();
    let zero_points = vec![zero as i32; scales.len()];
    TensorType::fixed(dtype, dims)
        .quantized(QuantParams { zero_points, ..QuantParams::per_axis_symmetric(axis, scales) })
}

/// An activation type whose zero point is often at an end.
fn activation_type(rng: &mut Rng, dims: &[usize]) -> TensorType {
    let dtype = rng.pick(&[DataType::U8, DataType::S8]);
    let (lo, hi) = dtype.int_range().unwrap();
    let zero = [lo, hi, (lo + hi + 1) / 2, rng.range(lo, hi)][rng.range(0, 3) as usize];
    TensorType::fixed(dtype, dims).quantized(QuantParams::per_tensor(rng.scale(), zero as i32))
}

/// Activations: all of one extreme, both extremes, anything.
fn activations(program: &Program, rng: &mut Rng) -> Vec<Tensor> {
    let mut all = data(program, rng);
    let kind = rng.range(0, 4);
    for (tensor, id) in all.iter_mut().zip(&program.inputs).filter(|_| kind < 3) {
        if let Some((lo, hi)) = program.ty(*id).dtype.int_range() {
            let n = tensor.elements();
            let values: Vec<i64> = (0..n).map(|_| [lo, hi, rng.pick(&[lo, hi])][kind as usize]).collect();
            *tensor = Tensor::from_ints(tensor.dtype(), tensor.shape(), &values).unwrap();
        }
    }
    all
}

/// Extents of a convolution: input, weights, groups. Its multiply-adds stay small enough for the reference.
fn conv_extents(rng: &mut Rng) -> (Vec<usize>, Vec<usize>, usize) {
    let kind = rng.range(0, 5);
    let (k_max, hw_max) = if kind == 0 { (1, 12) } else { (5, 9) };
    let kernel = [rng.range(1, k_max) as usize, rng.range(1, k_max) as usize];
    let hw = [rng.range(kernel[0] as i64, hw_max + 4) as usize, rng.range(kernel[1] as i64, hw_max + 4) as usize];
    let (groups, c_in, c_out) = match kind {
        1 => {
            let c = edge(rng, 80);
            (c, 1, 1)
        }
        2 => (rng.range(2, 5) as usize, edge(rng, 12), edge(rng, 20)),
        3 => (1, rng.range(1, 4) as usize, edge(rng, 70)),
        _ => (1, edge(rng, 48), edge(rng, 40)),
    };
    let batch = rng.range(1, 2) as usize;
    (vec![batch, groups * c_in, hw[0], hw[1]], vec![groups * c_out, c_in, kernel[0], kernel[1]], groups)
}

fn conv(rng: &mut Rng) -> Program {
    let (x, w, groups) = conv_extents(rng);
    let mut node = op("Conv");
    let mut set = |name: &str, n: usize, lo: i64, hi: i64| {
        let v = (0..n).map(|_| rng.range(lo, hi)).collect();
        node.attrs.set(name, Attr::Ints(v));
    };
    set("pads", 4, 0, 2);
    set("strides", 2, 1, 3);
    let reach = |axis: usize| (x[2 + axis] - 1) / (w[2 + axis] - 1).max(1);
    let dilation = |rng: &mut Rng, axis: usize| rng.range(1, 2).min(reach(axis).max(1) as i64);
    let dilations = vec![dilation(rng, 0), dilation(rng, 1)];
    node.attrs.set("dilations", Attr::Ints(dilations));
    node.attrs.set("group", Attr::Int(groups as i64));
    product(rng, node, &x, &w, 0)
}

fn matrix(rng: &mut Rng) -> Program {
    let (m, k, n) = (edge(rng, 40), edge(rng, 260), edge(rng, 80));
    let k = if rng.range(0, 40) == 0 { k * 17 } else { k };
    let mut node = op("Gemm");
    let transposed = rng.range(0, 1);
    node.attrs.set("transB", Attr::Int(transposed));
    let (w, axis) = if transposed == 1 { ([n, k], 0) } else { ([k, n], 1) };
    product(rng, node, &[m, k], &w, axis)
}

/// A program of one product with random bias, fusions and output.
fn product(rng: &mut Rng, mut node: Node, x: &[usize], w: &[usize], axis: usize) -> Program {
    let mut net = Net::default();
    let x = net.input(activation_type(rng, x));
    let ty = weight_type(rng, w, axis);
    let values = weights(rng, &ty);
    let y = typed_output(rng);
    let mut inputs: Vec<ValueId> = vec![x, net.constant(ty, values)];
    inputs.extend(add_bias(&mut net, rng, w[axis], y.quant.is_none()));
    fuse(rng, &mut node, &y);
    if rng.range(0, 3) == 0 {
        add_residual(&mut net, rng, &mut node, &mut inputs, &y);
    }
    let y = net.node(node, &inputs, &y);
    net.output(y)
}

/// The devices that every shape runs on: all instruction sets of this machine, one and two threads.
fn devices() -> Vec<(String, CpuDevice)> {
    let both = |isa: Isa| [1, 2].map(|n| (format!("{}, {n} threads", isa.name()), CpuDevice::new(isa, n).unwrap()));
    Isa::available().into_iter().flat_map(both).collect()
}

/// Runs the shape of a seed everywhere; the operator that it was.
fn check(seed: u64, devices: &[(String, CpuDevice)]) -> String {
    let mut rng = Rng::new(seed);
    let program = if rng.range(0, 2) == 0 { matrix(&mut rng) } else { conv(&mut rng) };
    let inputs = activations(&program, &mut rng);
    let expect = reference(&program, &inputs);
    for (name, device) in devices {
        let found = run_once(device, &program, &inputs);
        let what = || format!("seed {seed}: {} on {name}", describe(&program));
        found.iter().zip(&expect).for_each(|(f, e)| assert_same(f, e, &what()));
    }
    program.nodes[0].op.clone()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, expected a number")))
}

#[test]
fn random_shapes_equal_the_reference() {
    let seeds = match number("OTTAVA_SHAPES_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("OTTAVA_SHAPES").unwrap_or(1500),
    };
    let (next, counts) = (Mutex::new(seeds.clone()), Mutex::new(BTreeMap::<String, u64>::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let devices = devices();
                while let Some(seed) = { next.lock().unwrap().next() } {
                    *counts.lock().unwrap().entry(check(seed, &devices)).or_default() += 1;
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    println!("random shapes: {counts:?} on {:?}, 1 and 2 threads", Isa::available());
    assert_eq!(counts.values().sum::<u64>(), seeds.end - seeds.start);
}

/// A Gemm whose sums reach as far as i32 does: the largest K that the contract allows, extreme operands.
fn at_the_bound(k: usize, weight: i64, zero_point: i32) -> Program {
    let mut net = Net::default();
    let quant = QuantParams::per_tensor(0.01, zero_point);
    let x = net.input(TensorType::fixed(DataType::U8, &[2, k]).quantized(quant));
    let ty = TensorType::fixed(DataType::S8, &[k, 3]).quantized(QuantParams::per_tensor(1e-6, 0));
    let w = Tensor::from_ints(DataType::S8, &[k, 3], &vec![weight; k * 3]).unwrap();
    let w = net.constant(ty, w);
    let y = net.node(op("Gemm"), &[x, w], &TensorType::fixed(DataType::F32, &[]));
    net.output(y)
}

#[test]
fn sums_at_the_bound_of_i32_are_exact() {
    for (k, weight, zero_point) in [(65_793, -128, 0), (65_793, -128, 255), (66_311, 127, 0), (66_311, -127, 255)] {
        let program = at_the_bound(k, weight, zero_point);
        for byte in [0, 255] {
            let x = Tensor::from_ints(DataType::U8, &[2, k], &vec![byte; 2 * k]).unwrap();
            crate::testing::check_with(&program, &[x]);
        }
    }
}
