//! Every pass, on random graphs that give it something to do: the reference evaluates the graph before the pass and
//! behind it, in the state in which the pipeline hands it over.
//!
//! * Exact passes change no bit.
//! * Passes that round change floats by at most 2^-15 of the largest: two motifs in a row carry the 2^-17 of one
//!   (numerics.md section 7) through sums of a few products. Integers stay.
//! * Passes that quantize change no bit either where all scales are powers of two, for then the float operators are exact;
//!   tables and Softmax may differ by one step.
//!
//! A pass of the pipelines that never had anything to do fails the test: then a motif is missing, or has become weak.

mod float;
mod integer;
mod net;

use net::Net;
use ottava_compiler::passes::{CANONICAL, Effect, Pass, QUANTIZED};
use ottava_compiler::{Cx, run_pass};
use ottava_graph::{Graph, bind, infer_types, text, to_program, verify};
use ottava_hal::{CompileOptions, DataType, Device, Tensor, TensorType, ValueId};
use ottava_reference::ReferenceDevice;
use std::collections::BTreeMap;

/// Graphs per motif.
const SEEDS: u64 = 12;
/// Of the largest value.
const BOUND: f32 = 1.0 / 32_768.0;

/// Part of a network that gives one pass something to do.
struct Motif {
    pass: &'static str,
    make: fn(&mut Net, ValueId) -> ValueId,
    /// What results may differ by where float operators become integer ones.
    step: f32,
}

impl Motif {
    const fn exact(pass: &'static str, make: fn(&mut Net, ValueId) -> ValueId) -> Self {
        Self { pass, make, step: 0.0 }
    }

    const fn within(pass: &'static str, step: f32, make: fn(&mut Net, ValueId) -> ValueId) -> Self {
        Self { pass, make, step }
    }
}

/// A graph of one motif, or of a float one behind another. Integers stand alone: behind roundings a value may fall on the
/// other side of a step.
fn graph_of(motif: &Motif, is_float: bool, seed: u64) -> Graph {
    // Other numbers for each motif, so that not all of them stand behind the same one.
    let name = motif.pass.bytes().fold(seed, |hash, b| hash.wrapping_mul(31).wrapping_add(b.into()));
    let (mut net, x) = Net::new(name);
    let mut start = x;
    if is_float && net.below(2) == 0 {
        let other = &float::FLOAT[net.below(float::FLOAT.len())];
        let y = (other.make)(&mut net, x);
        net.graph.outputs.push(y);
        start = if net.graph.ty(y).shape == net.graph.ty(x).shape { y } else { x };
    }
    let y = (motif.make)(&mut net, start);
    net.graph.outputs.push(y);
    let mut graph = net.graph;
    graph.opsets.insert(String::new(), 21);
    infer_types(&mut graph).unwrap();
    verify(&graph).unwrap();
    graph
}

/// Floats of -3..3; flags of which the first is set.
fn data(ty: &TensorType, seed: u64) -> Tensor {
    let shape = ty.shape.known().unwrap();
    let n = shape.iter().product();
    let mut state = seed ^ 0x5bd1_e995;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    if ty.dtype == DataType::S64 {
        let flags: Vec<i64> = (0..n).map(|i| if i == 0 { 1 } else { (next() & 1) as i64 }).collect();
        return Tensor::from_slice(&shape, &flags).unwrap();
    }
    let reals: Vec<f32> = (0..n).map(|_| next() as f32 / (1 << 24) as f32 * 6.0 - 3.0).collect();
    Tensor::from_slice(&shape, &reals).unwrap()
}

fn evaluate(graph: &Graph, seed: u64) -> Vec<Tensor> {
    let bound = bind(graph, &BTreeMap::from([("N".to_owned(), 2)]), 2).unwrap();
    let inputs: Vec<Tensor> = bound.inputs.iter().map(|id| data(bound.ty(*id), seed)).collect();
    let executable = ReferenceDevice::new().compile(&to_program(&bound), &CompileOptions::default()).unwrap();
    executable.run_dynamic(&inputs).unwrap()
}

/// What is wrong with a result, if anything is.
fn difference(before: &Tensor, after: &Tensor, effect: Effect, step: f32) -> Option<String> {
    if before.bytes() == after.bytes() && before.shape() == after.shape() {
        return None;
    }
    let say = |what: &str| Some(format!("{what}: {before:?} became {after:?}"));
    if before.dtype() != after.dtype() || before.shape() != after.shape() || !before.dtype().is_float() {
        return say("another type, or other integers");
    }
    let (a, b) = (before.to_f32s().unwrap(), after.to_f32s().unwrap());
    let largest = a.iter().fold(1.0f32, |m, v| m.max(v.abs()));
    let allowed = match effect {
        Effect::Exact => return say("an exact pass changed bits"),
        Effect::Rounds => BOUND * largest,
        Effect::Quantizes => step,
    };
    let off = |(x, y): (&f32, &f32)| x.to_bits() != y.to_bits() && ((x - y).abs() > allowed || (x - y).is_nan());
    if a.iter().zip(&b).any(off) { say("beyond the bound") } else { None }
}

fn check(pass: &Pass, before: &Graph, after: &Graph, motif: &Motif, seed: u64) {
    let context = || format!("{} on `{}` of seed {seed}", pass.name, motif.pass);
    verify(after).unwrap_or_else(|e| panic!("{}: {e}\n{}", context(), text::print(after)));
    for sample in 0..3 {
        let (old, new) = (evaluate(before, sample), evaluate(after, sample));
        assert_eq!(old.len(), new.len(), "{}", context());
        for (a, b) in old.iter().zip(&new) {
            if let Some(what) = difference(a, b, pass.about.effect, motif.step) {
                panic!("{}: {what}\n{}\n{}", context(), text::print(before), text::print(after));
            }
        }
    }
}

/// How often each pass changed a graph of a motif.
fn run_motif(motif: &Motif, is_float: bool, fired: &mut BTreeMap<&'static str, usize>) -> usize {
    let device = ReferenceDevice::new();
    let mut own = 0;
    for seed in 0..SEEDS {
        let mut cx = Cx::new(&device);
        let mut graph = graph_of(motif, is_float, seed);
        let mut met = false;
        for pass in CANONICAL.iter().chain(QUANTIZED) {
            let before = graph.clone();
            if run_pass(&mut graph, pass, &mut cx).unwrap() == 0 {
                continue;
            }
            *fired.entry(pass.name).or_default() += 1;
            met |= pass.name == motif.pass;
            check(pass, &before, &graph, motif, seed);
        }
        own += usize::from(met);
    }
    own
}

#[test]
fn every_pass_keeps_what_random_graphs_compute() {
    let mut fired: BTreeMap<&'static str, usize> = BTreeMap::new();
    let motifs = float::FLOAT.iter().map(|m| (m, true)).chain(integer::INTEGER.iter().map(|m| (m, false)));
    let mut weak = Vec::new();
    for (motif, is_float) in motifs {
        let own = run_motif(motif, is_float, &mut fired);
        if own < SEEDS as usize / 2 {
            weak.push(format!("`{}` changed {own} of {SEEDS} graphs that were made for it", motif.pass));
        }
    }
    let idle: Vec<&str> =
        CANONICAL.iter().chain(QUANTIZED).map(|p| p.name).filter(|n| !fired.contains_key(n)).collect();
    assert!(weak.is_empty() && idle.is_empty(), "{}; never: {}", weak.join("; "), idle.join(", "));
}
