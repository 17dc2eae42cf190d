//! Files as the exporters of PyTorch and TensorFlow write them (`tests/data/routes`, with the scripts that made them):
//! every one runs on the reference and on the CPU device and gives what its framework gives, and quantized ones run on
//! integers.
//!
//! Float outputs agree within 1e-5 + 1e-4 |e|. How far quantized outputs may be from the plainest kernels of another
//! runtime says [`LIMITS`]. Integer networks are bit-equal on both devices.

use ottava::{Data, Model, Phase, Registry, Session, SessionOptions, Tensor};
use ottava_e2e::assets::registry;
use ottava_graph::{Graph, text};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How far the outputs of quantized files may be away.
struct Limit {
    /// Beginning of the names; the first line that fits holds. A file without a line fails.
    start: &'static str,
    /// Steps for every value.
    steps: f64,
    /// Share of the values that are equal (to a hundredth of a step where they are floats).
    equal: f64,
}

/// TFLite files give what LiteRT's reference kernels give, dynamic-range ones to a hundredth of a step. Q/DQ files:
/// onnxruntime computes them in f32, which rounds the ties of an average pooling at random and leaves a float bias as it is,
/// where the contract makes it an integer; with random weights one such step within the network moves a third of the
/// outputs. Both sides are deterministic: the limits are what was measured.
const LIMITS: &[Limit] = &[
    Limit { start: "keras_cnn_dynamic", steps: 0.01, equal: 1.0 },
    Limit { start: "keras_lstm_dynamic", steps: 0.01, equal: 1.0 },
    Limit { start: "keras_", steps: 0.0, equal: 1.0 },
    Limit { start: "pt2e_per_channel", steps: 1.0, equal: 0.925 },
    Limit { start: "qat_batch_norm", steps: 0.0, equal: 1.0 },
    Limit { start: "qat_per_channel", steps: 1.0, equal: 0.837 },
    Limit { start: "qat_per_tensor", steps: 1.0, equal: 0.712 },
    Limit { start: "tensorrt_mlp", steps: 0.29, equal: 0.979 },
    Limit { start: "tensorrt_residual", steps: 0.87, equal: 0.837 },
];
const RTOL: f64 = 1e-4;
const ATOL: f64 = 1e-5;
/// Operators that must not work on floats in a quantized file.
const HEAVY: &[&str] = &["Conv", "ConvTranspose", "Gemm", "MatMul"];

/// A file with inputs, expected outputs and, where it is quantized, the step of each output.
struct Case {
    name: String,
    model: Model,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    steps: Vec<f32>,
}

impl Case {
    fn load(file: &Path) -> Self {
        let data = Data::load(file.with_extension("npz"), None).expect("arrays beside the file");
        let series = |stem: &str| (0..).map_while(|i| data.arrays.get(&format!("{stem}{i}")).cloned()).collect();
        let step = |t: Tensor| t.to_f32s().expect("floats")[0];
        Self {
            name: file.file_stem().expect("a name").to_string_lossy().into_owned(),
            model: Model::load(file).expect("imports"),
            inputs: series("in"),
            outputs: series("out"),
            steps: Vec::into_iter(series("step")).map(step).collect(),
        }
    }

    fn is_quantized(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Runs all rows: at once, or one by one where the file fixes its batch at 1.
    fn run(&self, device: &str) -> Vec<Tensor> {
        let rows = self.inputs[0].shape()[0];
        let one_by_one = self.model.fixed_batch() == Some(1) && rows > 1;
        let batch = if one_by_one { 1 } else { rows };
        // LiteRT's rows were computed one by one, each from the first state.
        let reset_every = usize::from(!self.model.states().is_empty());
        let options = SessionOptions { device: Some(device.into()), batch, reset_every, ..SessionOptions::default() };
        let session = Session::new(&self.model, &registry(), &options).expect("compiles");
        let run = |inputs: &[Tensor]| session.run_ordered(inputs, false).expect("runs").0;
        if !one_by_one {
            return run(&self.inputs);
        }
        let each: Vec<Vec<Tensor>> = (0..rows).map(|i| run(&[row(&self.inputs[0], i)])).collect();
        vec![joined(&each)]
    }

    fn check(&self, device: &str, found: &[Tensor]) {
        assert_eq!(found.len(), self.outputs.len(), "{}: outputs", self.name);
        for (i, (found, expected)) in found.iter().zip(&self.outputs).enumerate() {
            let place = format!("{} output {i} on {device}", self.name);
            assert_eq!(found.shape(), expected.shape(), "{place}");
            assert_eq!(found.dtype(), expected.dtype(), "{place}");
            match self.steps.get(i) {
                Some(step) => self.within_steps(&place, found, expected, f64::from(*step)),
                None => close(&place, found, expected),
            }
        }
    }

    fn within_steps(&self, place: &str, found: &Tensor, expected: &Tensor, step: f64) {
        let limit = LIMITS.iter().find(|l| self.name.starts_with(l.start)).expect("a limit of this file");
        let pairs = values(found).into_iter().zip(values(expected));
        let distances: Vec<f64> = pairs.map(|(f, e)| (f - e).abs() / step).collect();
        let largest = distances.iter().copied().fold(0.0, f64::max);
        let equal = distances.iter().filter(|d| **d < 0.01).count() as f64 / distances.len() as f64;
        println!("{place}: {equal:.4} of {} values equal, largest distance {largest:.3} steps", distances.len());
        // A whole number of steps may read as a bit more.
        assert!(largest <= limit.steps * 1.001, "{place}: {largest} steps apart");
        assert!(equal >= limit.equal, "{place}: {equal} of the values equal");
    }
}

fn row(rows: &Tensor, i: usize) -> Tensor {
    let mut shape = rows.shape().to_vec();
    let bytes = rows.bytes().len() / shape[0];
    shape[0] = 1;
    Tensor::from_bytes(rows.dtype(), &shape, &rows.bytes()[i * bytes..(i + 1) * bytes]).expect("a row")
}

fn joined(rows: &[Vec<Tensor>]) -> Tensor {
    let first = &rows[0][0];
    let mut shape = first.shape().to_vec();
    shape[0] = rows.len();
    let bytes: Vec<u8> = rows.iter().flat_map(|r| r[0].bytes().to_vec()).collect();
    Tensor::from_bytes(first.dtype(), &shape, &bytes).expect("rows")
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f32s().expect("numbers").into_iter().map(f64::from).collect()
}

fn close(place: &str, found: &Tensor, expected: &Tensor) {
    for (i, (f, e)) in values(found).into_iter().zip(values(expected)).enumerate() {
        assert!((f - e).abs() <= ATOL + RTOL * e.abs(), "{place}: element {i} is {f}, expected {e}");
    }
}

/// All files with one of these beginnings of their names.
fn files(starts: &[&str]) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/routes/files");
    let paths = std::fs::read_dir(folder).expect("the files").map(|entry| entry.expect("an entry").path());
    let wanted = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        !name.ends_with(".npz") && starts.iter().any(|start| name.starts_with(start))
    };
    let found: BTreeSet<PathBuf> = paths.filter(wanted).collect();
    assert!(!found.is_empty(), "files of {starts:?}");
    found.into_iter().collect()
}

fn check_all(starts: &[&str]) {
    for file in files(starts) {
        let case = Case::load(&file);
        let reference = case.run("reference");
        case.check("reference", &reference);
        let cpu = case.run("cpu");
        case.check("cpu", &cpu);
        if case.is_quantized() {
            let equal = reference.iter().zip(&cpu).all(|(r, c)| r.bytes() == c.bytes());
            assert!(equal, "{}: reference and cpu differ", case.name);
        }
    }
}

/// The graph after all integer passes.
fn integer_graph(model: &Model) -> Graph {
    let printed = ottava::graph_text(model, &Registry::new(), &SessionOptions::default(), Phase::Quantized);
    text::parse(&printed.expect("compiles").text).expect("the printed graph parses")
}

/// Nodes that multiply floats, by name.
fn float_nodes(graph: &Graph) -> Vec<String> {
    let is_float = |n: &&ottava_graph::Node| {
        HEAVY.contains(&n.op.as_str()) && n.inputs.iter().take(2).flatten().any(|id| graph.ty(*id).dtype.is_float())
    };
    graph.nodes.iter().filter(is_float).map(|n| n.name.clone()).collect()
}

fn assert_integer(starts: &[&str]) {
    for file in files(starts) {
        let graph = integer_graph(&Model::load(&file).expect("imports"));
        let left = float_nodes(&graph);
        assert!(left.is_empty(), "{}: float products {left:?}", file.display());
        let n = graph.nodes.iter().filter(|n| HEAVY.contains(&n.op.as_str())).count();
        assert!(n > 0, "{}: there are products", file.display());
    }
}

#[test]
fn torchs_traced_graphs_give_what_torch_gives() {
    check_all(&["torchscript11_", "torchscript13_", "torchscript17_"]);
}

#[test]
fn torchs_captured_graphs_give_what_torch_gives() {
    check_all(&["dynamo18_", "dynamo23_"]);
}

#[test]
fn training_for_quantization_gives_integer_networks() {
    check_all(&["qat_", "pt2e_"]);
    assert_integer(&["qat_", "pt2e_"]);
}

#[test]
fn the_style_of_tensorrt_gives_integer_networks() {
    check_all(&["tensorrt_"]);
    assert_integer(&["tensorrt_"]);
}

#[test]
fn keras_networks_give_what_litert_gives() {
    check_all(&["keras_cnn_", "keras_attention_", "keras_gru_"]);
    assert_integer(&["keras_cnn_int8", "keras_cnn_uint8io", "keras_cnn_int16x8", "keras_attention_int8"]);
}

#[test]
fn recurrent_keras_networks_give_what_litert_gives() {
    check_all(&["keras_lstm_"]);
}
