//! What a pass says about results holds on its golden cases: the graph before and after gives the same bits where the
//! effect is exact, and floats within 2^-17 of the largest where it rounds (numerics.md section 7: sums and functions of
//! a few ulp, over rows of a few elements). Integers are always the same. Passes that give float operators an integer
//! meaning are compared value by value elsewhere, for their results are another definition's.

use ottava_compiler::passes::{CANONICAL, Effect, Pass, QUANTIZED};
use ottava_compiler::{Cx, run_pass};
use ottava_graph::{Graph, bind, infer_types, text, to_program};
use ottava_hal::{CompileOptions, DataType, Device, Tensor, TensorType};
use ottava_reference::ReferenceDevice;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const BOUND: f32 = 1.0 / 131_072.0;

fn cases(pass: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(pass);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "graph"));
    paths.sort();
    paths
}

/// Numbers of -3..3 that depend on the seed only (scalars, which may be scales, are positive); bytes take every value,
/// other integers, which may be indices, 0 and 1.
fn data(ty: &TensorType, seed: &mut u64) -> Tensor {
    let shape = ty.shape.known().unwrap();
    let n = shape.iter().product();
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 40
    };
    if ty.dtype.is_float() {
        let lowest = if shape.is_empty() { 0.5 } else { -3.0 };
        let reals: Vec<f32> = (0..n).map(|_| next() as f32 / (1 << 24) as f32 * (3.0 - lowest) + lowest).collect();
        return Tensor::from_f32s(ty.dtype, &shape, &reals).unwrap();
    }
    let (lo, hi) = match ty.dtype {
        DataType::S32 | DataType::S64 | DataType::U32 | DataType::U64 | DataType::Bool => (0, 1),
        small => small.int_range().unwrap(),
    };
    let ints: Vec<i64> = (0..n).map(|_| lo + next() as i64 % (hi - lo + 1)).collect();
    Tensor::from_ints(ty.dtype, &shape, &ints).unwrap()
}

fn evaluate(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let executable = ReferenceDevice::new().compile(&to_program(graph), &CompileOptions::default()).unwrap();
    executable.run_dynamic(inputs).unwrap()
}

fn differs(before: &Tensor, after: &Tensor, effect: Effect) -> bool {
    if before.bytes() == after.bytes() || effect == Effect::Exact || !before.dtype().is_float() {
        return before.bytes() != after.bytes();
    }
    let (a, b) = (before.to_f32s().unwrap(), after.to_f32s().unwrap());
    let largest = a.iter().fold(1.0f32, |m, v| m.max(v.abs()));
    a.iter().zip(&b).any(|(x, y)| x.to_bits() != y.to_bits() && ((x - y).abs() > BOUND * largest || (x - y).is_nan()))
}

fn check(pass: &Pass, case: &Path) {
    let mut graph = text::parse(&std::fs::read_to_string(case).unwrap()).unwrap();
    infer_types(&mut graph).unwrap();
    let graph = bind(&graph, &BTreeMap::new(), 2).unwrap();
    let device = ReferenceDevice::new();
    let mut after = graph.clone();
    if run_pass(&mut after, pass, &mut Cx::new(&device)).unwrap() == 0 {
        return;
    }
    for seed in 0..8 {
        let mut state = seed;
        let inputs: Vec<Tensor> = graph.inputs.iter().map(|id| data(graph.ty(*id), &mut state)).collect();
        let (old, new) = (evaluate(&graph, &inputs), evaluate(&after, &inputs));
        for ((a, b), id) in old.iter().zip(&new).zip(&graph.outputs) {
            let name = graph.name_of(*id);
            assert!(!differs(a, b, pass.about.effect), "{}: `{name}` was {a:?} and is {b:?}", case.display());
        }
    }
}

#[test]
fn passes_keep_results_as_their_effect_says() {
    let mut n = 0;
    for pass in CANONICAL.iter().chain(QUANTIZED).filter(|p| p.about.effect != Effect::Quantizes) {
        for case in cases(pass.name) {
            check(pass, &case);
            n += 1;
        }
    }
    assert!(n > 40, "only {n} cases were found");
}
