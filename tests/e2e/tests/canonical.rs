//! The canonical form of float networks: what exporters spell out is recognised, shape arithmetic and inner Transposes
//! go, and results stay. Random networks are compared value by value; real ones by their outputs on the reference: the
//! same bits where no pass that rounds found work, and otherwise within [`BOUND`] of the largest.

use ottava::Model;
use ottava_compiler::{Cx, PassReport, canonicalize, passes::Effect};
use ottava_e2e::assets::models_or_skip;
use ottava_e2e::lockstep::{Policy, compare, random_inputs};
use ottava_e2e::random_float::{FUSED, SPELLED, random_float};
use ottava_e2e::rng::Rng;
use ottava_graph::{Graph, bind, text, to_program, verify};
use ottava_hal::{CompileOptions, DataType, Device, Node, Tensor};
use ottava_reference::ReferenceDevice;
use std::collections::BTreeMap;
use std::path::Path;

/// Roundings of many layers (numerics.md section 7 bounds each) over the largest output.
const BOUND: f32 = 1.0 / 4096.0;

fn canonical(graph: &Graph) -> (Graph, Vec<PassReport>) {
    let device = ReferenceDevice::new();
    let mut cx = Cx::new(&device);
    let after = canonicalize(graph, &mut cx).unwrap_or_else(|e| panic!("{}: {e}", graph.name));
    (after, cx.passes)
}

#[test]
fn what_exporters_spell_out_is_recognised_and_means_the_same() {
    for seed in 0..200 {
        let net = random_float(seed);
        verify(&net.graph).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let (after, _) = canonical(&net.graph);
        let counts = after.op_counts();
        let fail =
            |e: String| -> usize { panic!("seed {seed}: {e}\n{}\n{}", text::print(&net.graph), text::print(&after)) };
        for op in FUSED {
            let (found, wanted) = (counts.get(*op).copied().unwrap_or(0), net.fused.get(op).copied().unwrap_or(0));
            if found != wanted {
                fail(format!("{found} {op}, expected {wanted}"));
            }
        }
        if let Some(op) = SPELLED.iter().find(|op| counts.contains_key(**op)) {
            fail(format!("{op} is left"));
        }
        let inputs = random_inputs(&net.graph, seed);
        compare(&net.graph, &after, &inputs, Policy::Exact).unwrap_or_else(fail);
    }
}

fn load(models: &Path, file: &str, dims: &[(&str, usize)]) -> Graph {
    let graph = Model::load(models.join(file)).unwrap_or_else(|e| panic!("{file}: {e}")).graph;
    let dims: BTreeMap<String, usize> = dims.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    bind(&graph, &dims, 1).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Floats of -1..1; integers that are tokens; a mask that keeps everything.
fn inputs(graph: &Graph, seed: u64) -> Vec<Tensor> {
    let mut rng = Rng::new(seed);
    let one = |id: &ottava_hal::ValueId| {
        let (ty, name) = (graph.ty(*id), graph.name_of(*id));
        let shape = ty.shape.known().expect("a bound graph");
        let n = shape.iter().product();
        if ty.dtype == DataType::F32 {
            let reals: Vec<f32> = (0..n).map(|_| rng.real(-1.0, 1.0)).collect();
            return Tensor::from_f32s(ty.dtype, &shape, &reals).expect("floats fit their shape");
        }
        let (lo, hi) = if name.contains("mask") { (1, 1) } else { (0, 255) };
        let ints: Vec<i64> = (0..n).map(|_| rng.int(lo, hi)).collect();
        Tensor::from_ints(ty.dtype, &shape, &ints).expect("tokens fit their type")
    };
    graph.inputs.iter().map(one).collect()
}

fn run(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let program = to_program(graph);
    let executable = ReferenceDevice::new().compile(&program, &CompileOptions::default()).expect(&graph.name);
    executable.run_dynamic(inputs).expect(&graph.name)
}

/// The canonical form, whose results agree with those of the network.
fn checked(file: &str, graph: &Graph) -> Graph {
    let (after, passes) = canonical(graph);
    let data = inputs(graph, 7);
    let rounds = passes.iter().any(|p| p.about.effect != Effect::Exact);
    for (old, new) in run(graph, &data).iter().zip(&run(&after, &data)) {
        assert_eq!(old.shape(), new.shape(), "{file}");
        if old.bytes() == new.bytes() {
            continue;
        }
        assert!(rounds, "{file}: results differ although no pass rounds");
        let (a, b) = (old.to_f32s().expect("floats"), new.to_f32s().expect("floats"));
        let largest = a.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let worst = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0.0f32, f32::max);
        println!("{file}: worst difference {worst:e} of {largest:e}");
        assert!(worst <= BOUND * largest, "{file}: differs by {worst} where the largest is {largest}");
    }
    println!("{file}: {:?} -> {:?}", graph.op_counts(), after.op_counts());
    after
}

/// Nodes that turn the layout between two layers.
fn inner_transposes(graph: &Graph) -> Vec<&str> {
    let inner = |n: &&Node| {
        let from_outside = n.input(0).is_some_and(|id| graph.inputs.contains(&id));
        n.op == "Transpose" && !from_outside && !n.outputs.iter().any(|id| graph.outputs.contains(id))
    };
    graph.nodes.iter().filter(inner).map(|n| n.name.as_str()).collect()
}

#[test]
fn networks_of_channels_last_files_lose_their_inner_transposes() {
    let Some(models) = models_or_skip("networks_of_channels_last_files_lose_their_inner_transposes") else { return };
    for file in ["resnet8_cifar10_f32.onnx", "mobilenet_v1_025_128_f32deq.onnx"] {
        let after = checked(file, &load(&models, file, &[]));
        assert_eq!(inner_transposes(&after), [""; 0], "{file}");
    }
}

#[test]
fn a_bound_transformer_has_no_shape_arithmetic_left() {
    let Some(models) = models_or_skip("a_bound_transformer_has_no_shape_arithmetic_left") else { return };
    let file = "minilm_l3_f16w.onnx";
    let after = checked(file, &load(&models, file, &[("sequence_length", 48)]));
    let counts = after.op_counts();
    for op in ["Shape", "Size", "ConstantOfShape", "Range", "Concat", "Erf", "Pow", "Sqrt"] {
        assert!(!counts.contains_key(op), "{op} is left in {counts:?}");
    }
    assert_eq!(counts.get("Gelu"), Some(&3), "{counts:?}");
    let tables = |n: &&Node| n.op == "Gather" && after.ty(n.outputs[0]).dtype == DataType::F32;
    assert_eq!(after.nodes.iter().filter(|n| n.op == "Gather").count(), after.nodes.iter().filter(tables).count());
}

#[test]
fn detectors_and_others_keep_their_results() {
    let Some(models) = models_or_skip("detectors_and_others_keep_their_results") else { return };
    let files = [
        "fastestdet_352.onnx",
        "yunet_n_320.onnx",
        "silero_vad_16k_sequence.onnx",
        "mnist_cntk.onnx",
        "kws_dscnn_f32_bn.onnx",
    ];
    for file in files {
        let after = checked(file, &load(&models, file, &[]));
        assert!(!after.op_counts().contains_key("BatchNormalization"), "{file}");
    }
    let file = "ppocr_cls_v2.onnx";
    let after = checked(file, &load(&models, file, &[("x_dim2", 48), ("x_dim3", 192)]));
    assert!(!after.op_counts().contains_key("BatchNormalization"), "{file}");
}

/// Its norms go along the second axis, and Expands that change nothing stand in them.
#[test]
fn norms_softmax_and_gelu_of_magika_are_recognised() {
    let Some(models) = models_or_skip("norms_softmax_and_gelu_of_magika_are_recognised") else { return };
    let file = "magika_standard_v3_3.onnx";
    let counts = checked(file, &load(&models, file, &[])).op_counts();
    for (op, n) in [("LayerNormalization", 2), ("Softmax", 1), ("Gelu", 2)] {
        assert_eq!(counts.get(op), Some(&n), "{op} in {counts:?}");
    }
}
