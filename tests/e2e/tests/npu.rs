//! Acceptance S12 on real networks: the quantized set on simulated chips, where every node must be on the chip but those
//! that the table names, and every output byte must be that of the reference, whatever the array, the dataflow and the
//! bandwidth.
//!
//! By default each network runs one row on three chips that differ from network to network. `OTTAVA_S12=full` runs every
//! network on all 72 chips, and the transformer, which takes minutes to calibrate.

use ottava::{
    CalibrateOptions, Config, Data, Model, QuantizeOptions, Recipe, SessionOptions, Source, Tensor, calibrate,
};
use ottava_e2e::assets::{FILES, PROTOCOL, models_or_skip, registry, skip};
use ottava_e2e::split::{device, one_by_one, priority, rows, session};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// TFLite files, their data and how it is fed.
const TFLITE: &[(&str, &str, &str)] = &[
    ("resnet8_cifar10_int8.tflite", "cifar10_ic01_200.npz", "1.0,-128.0"),
    ("kws_dscnn_int8.tflite", "kws01_600.npz", "1.0,0.0"),
    ("vww96_int8.tflite", "vww01_eval_300.npz", "1.0,-128.0"),
];
/// Networks that are quantized here.
const OURS: &[&str] = &["kws", "resnet8", "ad01"];
/// What Softmax and norms over integers, masks and the embeddings of a transformer are made of.
const TRANSFORMER_ELSEWHERE: &[&str] =
    &["Gather", "Unsqueeze", "LayerNormalization", "MaskedSoftmax", "MaskedMean", "Dequantize"];
/// The bridges of float inputs and outputs.
const BRIDGES: &[&str] = &["Quantize", "Dequantize"];
/// Chips of each network in the short form.
const FEW: usize = 3;

const ARRAYS: [(usize, usize); 8] = [(8, 8), (16, 16), (32, 32), (8, 32), (32, 8), (12, 20), (64, 128), (128, 64)];
const DATAFLOWS: [&str; 3] = ["Ws", "Os", "Is"];
const BANDWIDTHS: [f64; 3] = [1.5, 16.0, 4096.0];

fn is_full() -> bool {
    std::env::var("OTTAVA_S12").is_ok_and(|v| v == "full")
}

/// Every chip, as files.
struct Chips {
    folder: tempfile::TempDir,
    next: usize,
}

impl Chips {
    const COUNT: usize = ARRAYS.len() * DATAFLOWS.len() * BANDWIDTHS.len();

    fn new() -> Self {
        let chips = Self { folder: tempfile::tempdir().expect("a folder"), next: 0 };
        let all = ARRAYS.iter().flat_map(|a| DATAFLOWS.iter().flat_map(move |d| BANDWIDTHS.map(|b| (a, d, b))));
        for (i, ((rows, cols), dataflow, bandwidth)) in all.enumerate() {
            let text = format!(
                "Npu(array: (rows: {rows}, cols: {cols}, dataflow: {dataflow}), \
                 dram: Simple(bytes_per_cycle: {bandwidth:?}, latency: 50))"
            );
            std::fs::write(chips.path(i), text).expect("a chip is written");
        }
        chips
    }

    fn path(&self, i: usize) -> PathBuf {
        self.folder.path().join(format!("{i}.ron"))
    }

    /// The chips of the next network.
    fn take(&mut self) -> Vec<PathBuf> {
        let count = if is_full() { Self::COUNT } else { FEW };
        // 7 and 72 have no common factor.
        let one = |_| {
            self.next = (self.next + 7) % Self::COUNT;
            self.path(self.next)
        };
        (0..count).map(one).collect::<Vec<_>>()
    }

    /// Runs rows on the chips and compares with the reference; the operators that are not on the chip.
    fn check(&mut self, name: &str, model: &Model, rows: &[Vec<Tensor>], options: &SessionOptions) -> BTreeSet<String> {
        let reference = SessionOptions { device: Some("reference".into()), ..options.clone() };
        let expected = one_by_one(&session(model, &Config::default(), &reference), rows);
        let chips = self.take();
        let mut elsewhere = BTreeSet::new();
        for chip in &chips {
            let path = chip.display().to_string();
            let config = priority(vec![device("npu", "npu", &[("config", &path)]), device("cpu", "cpu", &[])]);
            let session = session(model, &config, options);
            let other = session.plan().placed.iter().filter(|p| p.device != "npu");
            elsewhere.extend(other.map(|p| p.op.rsplit("::").next().unwrap_or_default().to_owned()));
            let text = || std::fs::read_to_string(chip).unwrap_or_default();
            assert!(one_by_one(&session, rows) == expected, "{name} differs on {}", text());
        }
        println!("S12 {name}: {} rows equal on {} chips; elsewhere {elsewhere:?}", rows.len(), chips.len());
        elsewhere
    }
}

/// Whether all of them are named.
fn assert_named(name: &str, elsewhere: &BTreeSet<String>, named: &[&str]) {
    let unnamed: Vec<_> = elsewhere.iter().filter(|op| !named.contains(&op.as_str())).collect();
    assert!(unnamed.is_empty(), "{name}: {unnamed:?} are not on the chip");
}

#[test]
fn convolutional_networks_run_whole_and_exactly() {
    let Some(models) = models_or_skip("convolutional_networks_run_whole_and_exactly") else { return };
    let (mut chips, options) = (Chips::new(), SessionOptions::default());
    for (file, data, affine) in FILES.iter().chain(TFLITE) {
        let model = Model::load(models.join(file)).expect(file);
        let data = Data::load(models.join("data").join(data), None).expect(data);
        let rows = rows(&model, &data, affine.parse().expect(affine), 1);
        let elsewhere = chips.check(file, &model, &rows, &options);
        assert_named(file, &elsewhere, BRIDGES);
    }
    let ours = PROTOCOL.iter().filter(|n| is_full() || OURS.contains(&n.name));
    for network in ours {
        let loaded = network.load(&models);
        let recipe = Recipe { integer_only: true, ..Recipe::default() };
        let quantize = QuantizeOptions { recipe, ..QuantizeOptions::default() };
        let source = Source::Data { data: &loaded.calibration, affine: Some(loaded.affine) };
        let quantized = loaded.model.quantize(source, &registry(), &quantize, &mut |_, _| {}).expect("quantizes");
        let rows = rows(&quantized.model, &loaded.evaluation, loaded.affine, 1);
        let elsewhere = chips.check(network.name, &quantized.model, &rows, &options);
        assert_named(network.name, &elsewhere, BRIDGES);
    }
}

#[test]
fn a_transformer_in_integers_runs_exactly() {
    let test = "a_transformer_in_integers_runs_exactly";
    if !is_full() {
        return skip(test, "it takes minutes to calibrate; OTTAVA_S12=full runs it");
    }
    let Some(models) = models_or_skip(test) else { return };
    let (model, rows) = transformer(&models);
    let dims = [("sequence_length".to_owned(), 48)].into();
    let options = SessionOptions { dims, ..SessionOptions::default() };
    let elsewhere = Chips::new().check("minilm", &model, &rows, &options);
    assert_named("minilm", &elsewhere, TRANSFORMER_ELSEWHERE);
}

/// The transformer in integers only, and one sentence.
fn transformer(models: &Path) -> (Model, Vec<Vec<Tensor>>) {
    let data = |name: &str| Data::load(models.join("data").join(name), None).expect(name);
    let model = Model::load(models.join("minilm_l3_f16w.onnx")).expect("the model");
    let (samples, options) = (data("minilm_l3_calib_50.npz"), CalibrateOptions::default());
    let calibration = calibrate(&model, &samples, &registry(), &options, &mut |_, _| {}).expect("calibrates");
    let recipe = Recipe { integer_only: true, ..Recipe::default() };
    let quantize = QuantizeOptions { recipe, ..QuantizeOptions::default() };
    let source = Source::Calibration(&calibration);
    let quantized = model.quantize(source, &registry(), &quantize, &mut |_, _| {}).expect("quantizes").model;
    let rows = rows(&quantized, &data("minilm_l3_eval_150.npz"), "1.0,0.0".parse().expect("an affine map"), 1);
    (quantized, rows)
}
