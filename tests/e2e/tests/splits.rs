//! One network split over devices gives the bits of the whole: the reference, the CPU, the simulated NPU, and splits that
//! alternate, convert between u8 and s8, requantize at the cut, or have a device in the middle that knows floats only; from
//! the model and from the plan, built in and from libraries, with 1 and 2 threads, with 1 and 8 inferences in flight.

use ottava::{Config, Data, DeviceOptions, Model, SessionOptions, Tensor, compile};
use ottava_e2e::assets::{PROTOCOL, models_or_skip, registry};
use ottava_e2e::split::{
    alternating, configured, device, from_library, in_flight, one_by_one, plugin, priority, rows, session,
};
use std::path::Path;

/// Already quantized files, their data and how it is fed.
const FILES: &[(&str, &str, &str)] = &[
    ("resnet8_cifar10_int8_qdq.onnx", "cifar10_ic01_200.npz", "1.0,-128.0"),
    ("kws_dscnn_int8_qdq.onnx", "kws01_600.npz", "1.0,0.0"),
    ("kws_dscnn_ort_u8s8_pc_qdq.onnx", "kws01_600.npz", "0.58470291,-48.53034153"),
    ("kws_dscnn_ort_u8s8_pc_qoperator.onnx", "kws01_600.npz", "0.58470291,-48.53034153"),
    ("mobilenet_v1_025_128_uint8_qdq.onnx", "imagenet_128_eval_100.npz", "1.0,0.0"),
];
/// Rows of each network.
const N_ROWS: usize = 8;
/// Inferences in flight.
const IN_FLIGHT: usize = 8;

/// A network with some rows of its data, and the bits that every split must give.
struct Case {
    name: String,
    model: Model,
    rows: Vec<Vec<Tensor>>,
    expected: Vec<Vec<Tensor>>,
}

impl Case {
    fn new(name: &str, model: Model, data: &Data, affine: &str) -> Self {
        let rows = rows(&model, data, affine.parse().expect(affine), N_ROWS);
        let reference = SessionOptions { device: Some("reference".into()), ..SessionOptions::default() };
        let expected = one_by_one(&session(&model, &Config::default(), &reference), &rows);
        Self { name: name.into(), model, rows, expected }
    }

    /// Compares the bits of a configuration, one by one and all in flight; the devices named must have a part in it.
    fn check(&self, label: &str, config: &Config, options: &SessionOptions, devices: &[&str]) {
        let config = Config { in_flight: IN_FLIGHT, ..config.clone() };
        let session = session(&self.model, &config, options);
        let used = session.report().devices();
        assert!(devices.iter().all(|d| used.contains(d)), "{}: {label}: runs on {used:?}", self.name);
        assert!(one_by_one(&session, &self.rows) == self.expected, "{}: {label}: one by one", self.name);
        assert!(in_flight(&session, &self.rows) == self.expected, "{}: {label}: in flight", self.name);
    }

    /// The same from a plan file.
    fn check_plan(&self, label: &str, config: &Config, folder: &Path) {
        let path = folder.join("p.plan");
        let options = SessionOptions::default();
        compile(&self.model, &configured(config), &options).expect("compiles").save(&path).expect("saves");
        let plan = Model::load(&path).expect("opens");
        let session = session(&plan, config, &options);
        assert!(one_by_one(&session, &self.rows) == self.expected, "{}: {label}: from the plan", self.name);
    }
}

/// Calls `check` with every quantized network.
fn for_each_network(test: &str, mut check: impl FnMut(&Case)) {
    let Some(models) = models_or_skip(test) else { return };
    for (file, data, affine) in FILES {
        let model = Model::load(models.join(file)).expect(file);
        let data = Data::load(models.join("data").join(data), None).expect(data);
        check(&Case::new(file, model, &data, affine));
    }
    for network in PROTOCOL {
        let loaded = network.load(&models);
        let quantized = loaded.quantized(&registry());
        check(&Case::new(network.name, quantized.model, &loaded.evaluation, network.affine));
    }
}

fn npu_and_cpu() -> Config {
    priority(vec![device("npu", "npu", &[("config", "edge16")]), device("cpu", "cpu", &[])])
}

fn threads(n: usize) -> SessionOptions {
    let devices = DeviceOptions { threads: Some(n), ..DeviceOptions::default() };
    SessionOptions { devices, ..SessionOptions::default() }
}

#[test]
fn npu_and_alternating_layers_give_the_bits_of_the_reference() {
    let folder = tempfile::tempdir().expect("a folder");
    for_each_network("npu_and_alternating_layers_give_the_bits_of_the_reference", |case| {
        let config = npu_and_cpu();
        case.check("npu first, 1 thread", &config, &threads(1), &["npu"]);
        case.check("npu first, 2 threads", &config, &threads(2), &["npu"]);
        let config = alternating(&case.model, config);
        assert!(config.bans.len() > 1, "{}: layers alternate", case.name);
        case.check("alternating, 1 thread", &config, &threads(1), &["cpu", "npu"]);
        case.check("alternating, 2 threads", &config, &threads(2), &["cpu", "npu"]);
        case.check_plan("alternating", &config, folder.path());
    });
}

#[test]
fn two_chips_of_different_size_give_the_bits_of_the_reference() {
    for_each_network("two_chips_of_different_size_give_the_bits_of_the_reference", |case| {
        let chips = vec![
            device("big", "npu", &[("config", "edge32")]),
            device("small", "npu", &[("config", "edge8")]),
            device("cpu", "cpu", &[]),
        ];
        let config = alternating(&case.model, priority(chips));
        case.check("two chips", &config, &threads(1), &["big", "small"]);
    });
}

#[test]
fn libraries_give_the_bits_of_the_built_in_drivers() {
    plugin("npu");
    for_each_network("libraries_give_the_bits_of_the_built_in_drivers", |case| {
        for name in ["cpu", "npu"] {
            let config = from_library(alternating(&case.model, npu_and_cpu()), name);
            case.check(&format!("{name} from its library"), &config, &threads(1), &["cpu", "npu"]);
        }
    });
}
