//! No pass changes what a graph means: every golden case, and random networks, are evaluated before and after.

use ottava_compiler::{Cx, canonicalize, integerize, passes, run_pass};
use ottava_e2e::lockstep::{Policy, compare, random_inputs};
use ottava_e2e::random_graph::random_graph;
use ottava_graph::{Graph, infer_types, text, verify};
use ottava_hal::Dim;
use ottava_reference::ReferenceDevice;
use std::path::{Path, PathBuf};

const SEEDS: std::ops::Range<u64> = 0..200;

fn golden_cases() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    let list = |dir: &Path| -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let folders = list(&root).into_iter().filter(|p| p.is_dir());
    let cases = folders.flat_map(|dir| {
        let pass = dir.file_name().unwrap().to_string_lossy().into_owned();
        list(&dir).into_iter().map(move |path| (pass.clone(), path))
    });
    cases.filter(|(_, path)| path.extension().is_some_and(|e| e == "graph")).collect()
}

fn policy_of(pass: &passes::Pass) -> Policy {
    if pass.about.effect == passes::Effect::Quantizes { Policy::Quantized } else { Policy::Exact }
}

fn transform(pass: &str, graph: &Graph) -> (Graph, Policy) {
    let device = ReferenceDevice::new();
    let mut cx = Cx::new(&device);
    match pass {
        "canonicalize" => (canonicalize(graph, &mut cx).unwrap(), Policy::Exact),
        "integerize" => (integerize(graph, &mut cx).unwrap(), Policy::Quantized),
        _ => {
            let (mut after, pass) = (graph.clone(), passes::find(pass).unwrap());
            run_pass(&mut after, pass, &mut cx).unwrap();
            (after, policy_of(pass))
        }
    }
}

#[test]
fn golden_cases_keep_their_meaning() {
    let cases = golden_cases();
    assert!(cases.len() > 40, "only {} golden cases were found", cases.len());
    for (pass, path) in cases {
        let mut graph = text::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        infer_types(&mut graph).unwrap();
        let (after, mut policy) = transform(&pass, &graph);
        if text::print(&after) == text::print(&graph) {
            continue;
        }
        // A fully masked row is uniform by definition (numerics.md section 4), which an added number is not.
        if pass == "mask_rows" {
            continue;
        }
        if pass == "integerize" && path.file_name().unwrap().to_string_lossy().starts_with("qoperator") {
            // A QOperator is an integer operator already.
            policy = Policy::Exact;
        }
        for seed in 0..8 {
            let inputs = random_inputs(&graph, seed);
            compare(&graph, &after, &inputs, policy).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }
}

#[test]
fn random_networks_keep_their_meaning() {
    let device = ReferenceDevice::new();
    let mut n_typed = 0;
    for seed in SEEDS {
        let graph = random_graph(seed);
        verify(&graph).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let mut cx = Cx::new(&device);
        let canonical = canonicalize(&graph, &mut cx).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let quantized = integerize(&canonical, &mut cx).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let inputs = random_inputs(&graph, seed);
        let fail = |stage: &str, e: String| -> usize {
            panic!("seed {seed}, {stage}: {e}\n{}\n{}", text::print(&graph), text::print(&quantized))
        };
        compare(&graph, &canonical, &inputs, Policy::Exact).unwrap_or_else(|e| fail("canonicalize", e));
        compare(&canonical, &quantized, &inputs, Policy::Quantized).unwrap_or_else(|e| fail("integerize", e));
        n_typed += quantized
            .nodes
            .iter()
            .filter(|n| n.domain.is_empty() && quantized.ty(n.outputs[0]).quant.is_some())
            .count();
    }
    assert!(n_typed > 300, "only {n_typed} integer operators: the generator or the folding has become weak");
}

/// What the pipelines leave, they leave; and a graph whose batch is a symbol means the same.
#[test]
fn random_networks_come_to_rest_and_may_be_symbolic() {
    let device = ReferenceDevice::new();
    let mut n_symbolic = 0;
    for seed in SEEDS {
        let mut cx = Cx::new(&device);
        let mut graph = random_graph(seed);
        if graph.ty(graph.inputs[0]).shape.0[0] == Dim::Known(2) {
            n_symbolic += 1;
            graph.inputs.clone().iter().for_each(|id| graph.values[id.0].ty.shape.0[0] = Dim::Sym("N".into()));
        }
        let canonical = canonicalize(&graph, &mut cx).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(text::print(&canonicalize(&canonical, &mut cx).unwrap()), text::print(&canonical), "seed {seed}");
        let quantized = integerize(&canonical, &mut cx).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(text::print(&integerize(&quantized, &mut cx).unwrap()), text::print(&quantized), "seed {seed}");
        let inputs = random_inputs(&graph, seed);
        compare(&canonical, &quantized, &inputs, Policy::Quantized).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    assert!(n_symbolic > 20, "only {n_symbolic} graphs had a symbol");
}

/// Each pass by itself, on networks in the state in which the pipeline hands them over.
#[test]
fn every_pass_keeps_the_meaning_of_random_networks() {
    let device = ReferenceDevice::new();
    for seed in SEEDS.step_by(5) {
        let mut cx = Cx::new(&device);
        let mut graph = random_graph(seed);
        let inputs = random_inputs(&graph, seed);
        for pass in passes::CANONICAL.iter().chain(passes::QUANTIZED) {
            let mut after = graph.clone();
            run_pass(&mut after, pass, &mut cx).unwrap_or_else(|e| panic!("seed {seed}, {}: {e}", pass.name));
            compare(&graph, &after, &inputs, policy_of(pass)).unwrap_or_else(|e| {
                panic!("seed {seed}, {}: {e}\n{}\n{}", pass.name, text::print(&graph), text::print(&after))
            });
            graph = after;
        }
    }
}

/// Fused and unfused residuals are the same function (numerics.md section 4).
#[test]
fn residual_fusion_is_exact() {
    let device = ReferenceDevice::new();
    let mut n_fused = 0;
    for seed in SEEDS {
        let mut cx = Cx::new(&device);
        let mut graph = canonicalize(&random_graph(seed), &mut cx).unwrap();
        for pass in passes::QUANTIZED.iter().take_while(|p| p.name != "fuse_residual") {
            run_pass(&mut graph, pass, &mut cx).unwrap();
        }
        let mut fused = graph.clone();
        run_pass(&mut fused, passes::find("fuse_residual").unwrap(), &mut cx).unwrap();
        n_fused += fused.nodes.iter().filter(|n| n.fused.residual).count();
        let inputs = random_inputs(&graph, seed);
        compare(&graph, &fused, &inputs, Policy::Exact).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    assert!(n_fused > 5, "only {n_fused} residuals were fused");
}
