//! The quantized set on the Vulkan and OpenCL devices of this machine: every output byte is that of the reference, with
//! every dot product and work-group size, whole and split over four devices.
//!
//! By default each network runs one row on one variant of each driver, another one from network to network.
//! `OTTAVA_GPU=full` runs every network on every variant.

use ottava::{
    Config, Data, DeviceEntry, Model, QuantizeOptions, Recipe, SessionOptions, Source, Tensor, calibrate, compile,
};
use ottava_e2e::assets::{FILES, Network, PROTOCOL, models_or_skip, registry, skip};
use ottava_e2e::gpus::{Gpu, gpus};
use ottava_e2e::split::{configured, device, in_flight, one_by_one, priority, rows, session};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

/// Options of each driver that change how kernels compute, and never what.
const VARIANTS: &[(&str, &[(&str, &str)])] = &[
    ("opencl", &[("work_group", "1")]),
    ("opencl", &[("work_group", "37")]),
    ("opencl", &[("work_group", "4096")]),
    ("vulkan", &[("dot_product", "off")]),
    ("vulkan", &[("dot_product", "packed")]),
];
/// Networks that are quantized here when not all are asked for.
const OURS: &[&str] = &["kws", "resnet8"];
/// Inferences in flight.
const IN_FLIGHT: usize = 4;

fn is_full() -> bool {
    std::env::var("OTTAVA_GPU").is_ok_and(|v| v == "full")
}

/// A network in integers with a row of its data, and the bytes that every device must give.
struct Case {
    name: String,
    model: Model,
    rows: Vec<Vec<Tensor>>,
    options: SessionOptions,
    expected: Vec<Vec<Tensor>>,
}

impl Case {
    fn new(name: &str, model: Model, rows: Vec<Vec<Tensor>>, options: SessionOptions) -> Self {
        let reference = SessionOptions { device: Some("reference".into()), ..options.clone() };
        let expected = one_by_one(&session(&model, &Config::default(), &reference), &rows);
        Self { name: name.into(), model, rows, options, expected }
    }

    /// An already quantized file.
    fn file(models: &Path, (file, data, affine): (&str, &str, &str)) -> Self {
        let model = Model::load(models.join(file)).expect(file);
        let data = Data::load(models.join("data").join(data), None).expect(data);
        let rows = rows(&model, &data, affine.parse().expect(affine), 1);
        Self::new(file, model, rows, SessionOptions::default())
    }

    /// A float network, quantized to integers only.
    fn ours(models: &Path, network: &Network) -> Self {
        let loaded = network.load(models);
        let recipe = Recipe { integer_only: true, ..Recipe::default() };
        let quantize = QuantizeOptions { recipe, ..QuantizeOptions::default() };
        let source = Source::Data { data: &loaded.calibration, affine: Some(loaded.affine) };
        let quantized = loaded.model.quantize(source, &registry(), &quantize, &mut |_, _| {}).expect("quantizes");
        let rows = rows(&quantized.model, &loaded.evaluation, loaded.affine, 1);
        Self::new(network.name, quantized.model, rows, SessionOptions::default())
    }

    /// Compares bytes, one by one and in flight; returns the operators that no GPU runs.
    fn check(&self, label: &str, config: &Config) -> BTreeSet<String> {
        let config = Config { in_flight: IN_FLIGHT, ..config.clone() };
        let session = session(&self.model, &config, &self.options);
        assert!(one_by_one(&session, &self.rows) == self.expected, "{}: {label}: one by one", self.name);
        let many: Vec<_> = (0..IN_FLIGHT).flat_map(|_| self.rows.clone()).collect();
        let all: Vec<_> = (0..IN_FLIGHT).flat_map(|_| self.expected.clone()).collect();
        assert!(in_flight(&session, &many) == all, "{}: {label}: in flight", self.name);
        let other = session.plan().placed.iter().filter(|p| p.device == "cpu");
        other.map(|p| p.op.rsplit("::").next().unwrap_or_default().to_owned()).collect()
    }
}

/// Every network; made once for all tests, since quantizing takes longer than running.
fn cases(models: &Path) -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(|| {
        let ours = PROTOCOL.iter().filter(|n| is_full() || OURS.contains(&n.name));
        FILES.iter().map(|f| Case::file(models, *f)).chain(ours.map(|n| Case::ours(models, n))).collect()
    })
}

/// The variants of the drivers that have a device here.
fn variants(present: &[Gpu]) -> Vec<DeviceEntry> {
    let here = VARIANTS.iter().filter(|(driver, _)| present.iter().any(|g| g.driver == *driver));
    here.map(|(driver, options)| device("gpu", driver, options)).collect()
}

#[test]
fn networks_run_whole_and_exactly() {
    let test = "networks_run_whole_and_exactly";
    let Some(models) = models_or_skip(test) else { return };
    let variants = variants(&gpus(test));
    let drivers: BTreeSet<&str> = variants.iter().map(|v| v.driver.as_str()).collect();
    for (turn, case) in cases(&models).iter().enumerate() {
        for driver in &drivers {
            let own: Vec<_> = variants.iter().filter(|v| v.driver == *driver).collect();
            let taken: Vec<_> = if is_full() { own } else { vec![own[turn % own.len()]] };
            for entry in taken {
                let label = format!("{driver} {:?}", entry.options);
                let elsewhere = case.check(&label, &priority(vec![entry.clone(), device("cpu", "cpu", &[])]));
                println!("{} on {label}: equal; elsewhere {elsewhere:?}", case.name);
                assert!(elsewhere.is_empty(), "{}: {label}: {elsewhere:?} are not on the device", case.name);
            }
        }
    }
}

/// The nodes that a configuration puts on a device.
fn nodes_on(case: &Case, config: &Config, device: &str) -> Vec<String> {
    let plan = compile(&case.model, &configured(config), &case.options).expect("compiles").plan;
    plan.placed.into_iter().filter(|p| !p.bridge && p.device == device).map(|p| p.node).collect()
}

/// What the GPUs run, pinned in turn to Vulkan, OpenCL, the NPU where it can, and the CPU.
fn split_over_four(case: &Case) -> Config {
    let npu = device("npu", "npu", &[("config", "edge16")]);
    let chip = priority(vec![npu.clone(), device("cpu", "cpu", &[])]);
    let on_npu: BTreeSet<String> = nodes_on(case, &chip, "npu").into_iter().collect();
    let gpus = [device("vk", "vulkan", &[]), device("cl", "opencl", &[])];
    let config = priority([gpus.to_vec(), vec![npu, device("cpu", "cpu", &[])]].concat());
    let pin = |(i, node): (usize, String)| {
        let turn = ["vk", "cl", "npu", "cpu"][i % 4];
        let device = if turn == "npu" && !on_npu.contains(&node) { "cl" } else { turn };
        (node, device.to_owned())
    };
    let pins = nodes_on(case, &config, "vk").into_iter().enumerate().map(pin).collect();
    Config { pins, ..config }
}

#[test]
fn four_devices_share_a_network() {
    let test = "four_devices_share_a_network";
    let Some(models) = models_or_skip(test) else { return };
    if gpus(test).len() < 2 {
        return;
    }
    for case in cases(&models) {
        let config = split_over_four(case);
        let session = session(&case.model, &config, &case.options);
        let used: BTreeSet<_> = session.report().devices().into_iter().map(str::to_owned).collect();
        println!("{}: {} pins, on {used:?}", case.name, config.pins.len());
        assert!(used.len() == 4, "{}: runs on {used:?}", case.name);
        case.check("four devices", &config);
    }
}

#[test]
fn a_transformer_in_integers_runs_exactly() {
    let test = "a_transformer_in_integers_runs_exactly";
    if !is_full() {
        return skip(test, "it takes minutes to calibrate; OTTAVA_GPU=full runs it");
    }
    let Some(models) = models_or_skip(test) else { return };
    let case = transformer(&models);
    for entry in variants(&gpus(test)) {
        let label = format!("{} {:?}", entry.driver, entry.options);
        let elsewhere = case.check(&label, &priority(vec![entry, device("cpu", "cpu", &[])]));
        println!("minilm on {label}: equal; elsewhere {elsewhere:?}");
        assert!(elsewhere.is_empty(), "minilm: {label}: {elsewhere:?} are not on the device");
    }
}

/// The transformer in integers only, and one sentence.
fn transformer(models: &Path) -> Case {
    let data = |name: &str| Data::load(models.join("data").join(name), None).expect(name);
    let model = Model::load(models.join("minilm_l3_f16w.onnx")).expect("the model");
    let samples = data("minilm_l3_calib_50.npz");
    let calibration =
        calibrate(&model, &samples, &registry(), &Default::default(), &mut |_, _| {}).expect("calibrates");
    let recipe = Recipe { integer_only: true, ..Recipe::default() };
    let quantize = QuantizeOptions { recipe, ..QuantizeOptions::default() };
    let source = Source::Calibration(&calibration);
    let quantized = model.quantize(source, &registry(), &quantize, &mut |_, _| {}).expect("quantizes").model;
    let affine = "1.0,0.0".parse().expect("an affine map");
    let rows = rows(&quantized, &data("minilm_l3_eval_150.npz"), affine, 1);
    let dims = [("sequence_length".to_owned(), 48)].into();
    Case::new("minilm", quantized, rows, SessionOptions { dims, ..SessionOptions::default() })
}
