//! Real networks and real data, where they are: `OTTAVA_TEST_ASSETS`, by default `../shared` beside the checkout.
//!
//! The files have terms of their own and are no part of this repository. A test that needs them and does not find them
//! calls [`skip`], which `tests/run.sh` counts and prints.

use ottava::{Affine, Data, Model, QuantizeOptions, Registry, Source};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Folder of the assets, if it is there.
pub fn root() -> Option<PathBuf> {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("OTTAVA_TEST_ASSETS").map_or_else(default, PathBuf::from);
    root.join("models/README.md").is_file().then_some(root)
}

/// Says that a test, or a part of it, did not run, and why.
pub fn skip(test: &str, reason: &str) {
    let line = format!("{test}: {reason}\n");
    eprint!("skipped: {line}");
    if let Some(log) = std::env::var_os("OTTAVA_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut f| f.write_all(line.as_bytes())).expect("the skip log can be written");
    }
}

/// The assets' folder of networks, or a counted skip of the named test.
pub fn models_or_skip(test: &str) -> Option<PathBuf> {
    let found = root().map(|r| r.join("models"));
    if found.is_none() {
        skip(test, "no test assets");
    }
    found
}

/// Already quantized files of others, their data and how it is fed.
pub const FILES: &[(&str, &str, &str)] = &[
    ("resnet8_cifar10_int8_qdq.onnx", "cifar10_ic01_200.npz", "1.0,-128.0"),
    ("kws_dscnn_int8_qdq.onnx", "kws01_600.npz", "1.0,0.0"),
    ("kws_dscnn_ort_u8s8_pc_qdq.onnx", "kws01_600.npz", "0.58470291,-48.53034153"),
    ("kws_dscnn_ort_u8s8_pc_qoperator.onnx", "kws01_600.npz", "0.58470291,-48.53034153"),
    ("mobilenet_v1_025_128_uint8_qdq.onnx", "imagenet_128_eval_100.npz", "1.0,0.0"),
];

/// A float network of the accuracy protocol with its data.
pub struct Network {
    /// Short name.
    pub name: &'static str,
    /// Model file.
    pub model: &'static str,
    /// Calibration data.
    pub calibration: &'static str,
    /// Evaluation data.
    pub evaluation: &'static str,
    /// How the data is fed, as on the command line.
    pub affine: &'static str,
}

/// The networks of the protocol that this version covers.
pub const PROTOCOL: &[Network] = &[
    Network {
        name: "resnet8",
        model: "resnet8_cifar10_f32.onnx",
        calibration: "cifar10_calib_128_jpeg.npz",
        evaluation: "cifar10_ic01_200.npz",
        affine: "1.0,0.0",
    },
    Network {
        name: "kws",
        model: "kws_dscnn_f32_bn.onnx",
        calibration: "kws01_calib_100.npz",
        evaluation: "kws01_eval_500.npz",
        affine: "0.58470291,-48.53034153",
    },
    Network {
        name: "vww96",
        model: "vww96_f32.onnx",
        calibration: "vww01_calib_100.npz",
        evaluation: "vww01_eval_300.npz",
        affine: "0.00392156863,0.0",
    },
    Network {
        name: "mobilenet_v1_025",
        model: "mobilenet_v1_025_128_f32deq.onnx",
        calibration: "imagenet_128_calib_60.npz",
        evaluation: "imagenet_128_eval_100.npz",
        affine: "0.0078125,-1.0",
    },
    Network {
        name: "ad01",
        model: "ad01_f32.onnx",
        calibration: "ad01_calib_10.npz",
        evaluation: "ad01_eval_50.npz",
        affine: "1.0,0.0",
    },
];

/// A network of the protocol, loaded.
pub struct Loaded {
    /// The float network.
    pub model: Model,
    /// Calibration data.
    pub calibration: Data,
    /// Evaluation data.
    pub evaluation: Data,
    /// How the data is fed.
    pub affine: Affine,
}

impl Network {
    /// A network of the protocol by its short name.
    pub fn named(name: &str) -> &'static Self {
        PROTOCOL.iter().find(|n| n.name == name).expect("a network of the protocol")
    }

    /// Loads network and data.
    pub fn load(&self, models: &std::path::Path) -> Loaded {
        let data = |file: &str| Data::load(models.join("data").join(file), None).expect(file);
        Loaded {
            model: Model::load(models.join(self.model)).expect(self.model),
            calibration: data(self.calibration),
            evaluation: data(self.evaluation),
            affine: self.affine.parse().expect("an affine map"),
        }
    }
}

/// Whether every combination is asked for (`tests/full.sh`), not only a covering choice.
pub fn exhaustive() -> bool {
    std::env::var_os("OTTAVA_EXHAUSTIVE").is_some_and(|v| v == "1")
}

impl Loaded {
    /// The network quantized with defaults on its calibration data.
    pub fn quantized(&self, registry: &Registry) -> ottava::QuantizedModel {
        let source = Source::Data { data: &self.calibration, affine: Some(self.affine) };
        self.model.quantize(source, registry, &QuantizeOptions::default(), &mut |_, _| {}).expect("quantizes")
    }
}

/// Built-in drivers: the CPU first, the simulated NPU, the reference behind them.
pub fn registry() -> Registry {
    let gpus = crate::gpus::drivers().into_iter().map(|(_, driver)| driver);
    let built_in = Registry::new().with(Arc::new(ottava_driver_cpu::CpuDriver));
    gpus.fold(built_in.with(Arc::new(ottava_driver_npu::NpuDriver::new())), Registry::with)
}

/// Instruction sets of the CPU driver that this machine has.
pub fn isas() -> Vec<String> {
    ottava_kernels::Isa::available().into_iter().map(|isa| isa.name().to_owned()).collect()
}
