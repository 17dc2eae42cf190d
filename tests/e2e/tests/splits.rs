//! One network split over devices gives the bits of the whole: the reference, the CPU, the simulated NPU, and splits that
//! alternate, convert between u8 and s8, requantize at the cut, or have a device in the middle that knows floats only; from
//! the model and from the plan, built in and from libraries, with 1 and 2 threads, with 1 and 8 inferences in flight.

use ottava::{
    Config, Data, DataType, DeviceOptions, Model, QuantizeOptions, Recipe, SessionOptions, Source, Tensor, TensorType,
    compile,
};
use ottava_e2e::assets::{FILES, Network, PROTOCOL, models_or_skip, registry};
use ottava_e2e::split::{
    alternating, configured, device, from_library, in_flight, one_by_one, plugin, priority, rows, session,
};
use ottava_hal::Node;
use std::path::Path;
use std::sync::OnceLock;

/// Rows of each network where much is in flight.
const MANY: usize = 4;
/// Rows of each network elsewhere.
const FEW: usize = 2;
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
    fn new(name: &str, model: Model, data: &Data, affine: &str, n_rows: usize) -> Self {
        let rows = rows(&model, data, affine.parse().expect(affine), n_rows);
        let reference = SessionOptions { device: Some("reference".into()), ..SessionOptions::default() };
        let expected = one_by_one(&session(&model, &Config::default(), &reference), &rows);
        Self { name: name.into(), model, rows, expected }
    }

    /// The same network with its first rows only.
    fn first(&self, n: usize) -> Self {
        let few = |all: &[Vec<Tensor>]| all[..n].to_vec();
        Self {
            name: self.name.clone(),
            model: self.model.clone(),
            rows: few(&self.rows),
            expected: few(&self.expected),
        }
    }

    /// Compares the bits of a configuration, one by one and all in flight; the devices named must have a part in it.
    fn check(&self, label: &str, config: &Config, options: &SessionOptions, devices: &[&str]) {
        let config = Config { in_flight: IN_FLIGHT, ..config.clone() };
        let session = session(&self.model, &config, options);
        let used = session.report().devices();
        assert!(devices.iter().all(|d| used.contains(d)), "{}: {label}: runs on {used:?}", self.name);
        assert!(one_by_one(&session, &self.rows) == self.expected, "{}: {label}: one by one", self.name);
        // Each row again and again, until enough are in flight.
        let filled = |all: &[Vec<Tensor>]| all.iter().cycle().take(IN_FLIGHT).cloned().collect::<Vec<_>>();
        assert!(
            in_flight(&session, &filled(&self.rows)) == filled(&self.expected),
            "{}: {label}: in flight",
            self.name
        );
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

/// Every quantized network with `MANY` rows; made once for all tests, since quantizing takes longer than running.
fn cases(models: &Path) -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(|| {
        let files = FILES.iter().map(|(file, data, affine)| {
            let model = Model::load(models.join(file)).expect(file);
            let data = Data::load(models.join("data").join(data), None).expect(data);
            Case::new(file, model, &data, affine, MANY)
        });
        let ours = PROTOCOL.iter().map(|network| {
            let loaded = network.load(models);
            let quantized = loaded.quantized(&registry());
            Case::new(network.name, quantized.model, &loaded.evaluation, network.affine, MANY)
        });
        files.chain(ours).collect()
    })
}

/// Calls `check` with every quantized network and its first rows.
fn for_each_network(test: &str, n_rows: usize, mut check: impl FnMut(&Case)) {
    let Some(models) = models_or_skip(test) else { return };
    cases(&models).iter().for_each(|case| check(&case.first(n_rows)));
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
    for_each_network("npu_and_alternating_layers_give_the_bits_of_the_reference", MANY, |case| {
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
    for_each_network("two_chips_of_different_size_give_the_bits_of_the_reference", FEW, |case| {
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
    for_each_network("libraries_give_the_bits_of_the_built_in_drivers", FEW, |case| {
        for name in ["cpu", "npu"] {
            let config = from_library(alternating(&case.model, npu_and_cpu()), name);
            case.check(&format!("{name} from its library"), &config, &threads(1), &["cpu", "npu"]);
        }
    });
}

/// A chip as a file.
fn chip(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("the chip is written");
    path.display().to_string()
}

#[test]
fn a_chip_without_u8_runs_u8_networks_behind_xor_bridges() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = chip(folder.path(), "s8.ron", "Npu(name: \"s8only\", dtypes: [S8])");
    for_each_network("a_chip_without_u8_runs_u8_networks_behind_xor_bridges", FEW, |case| {
        let config = priority(vec![device("npu", "npu", &[("config", &file)]), device("cpu", "cpu", &[])]);
        case.check("s8 only", &config, &threads(1), &["npu"]);
        let plan = compile(&case.model, &configured(&config), &threads(1)).expect("compiles").plan;
        let bridges = plan.placed.iter().filter(|p| p.bridge).count();
        println!("{}: {bridges} bridges", case.name);
        // Where float stands at both ends, quantization and dequantization take the border; where u8 does, bridges do.
        let ends = [case.model.inputs(), case.model.outputs()].concat();
        let u8 = ends.iter().all(|(_, ty)| ty.dtype == DataType::U8);
        assert!(!u8 || bridges > 0, "{}: no bridge at a border of u8", case.name);
        case.check("s8 only, alternating", &alternating(&case.model, config), &threads(2), &["cpu", "npu"]);
    });
}

/// The model with a second quantization, of other scale and zero point, in front of every second Conv.
fn quantized_twice(model: &Model) -> Model {
    let mut model = model.clone();
    let g = &mut model.graph;
    let convs: Vec<usize> = (0..g.nodes.len()).filter(|i| g.nodes[*i].op == "Conv").step_by(2).collect();
    let (scale, zp) = (g.add_const("twice/s", Tensor::scalar(0.037f32)), g.add_const("twice/z", Tensor::scalar(101u8)));
    for i in convs.into_iter().rev() {
        let Some(x) = g.nodes[i].input(0) else { continue };
        let float = g.ty(x).clone();
        let q = g.add_value(format!("twice/{i}/q"), TensorType { dtype: DataType::U8, ..float.clone() });
        let y = g.add_value(format!("twice/{i}/y"), float);
        for (op, from, to, at) in [("QuantizeLinear", x, q, i), ("DequantizeLinear", q, y, i + 1)] {
            let mut node = Node::new(format!("twice/{i}/{op}"), op, 13);
            node.inputs = vec![Some(from), Some(scale), Some(zp)];
            node.outputs = vec![to];
            g.nodes.insert(at, node);
        }
        g.nodes[i + 2].inputs[0] = Some(y);
    }
    model
}

#[test]
fn a_cut_between_two_scales_requantizes() {
    let test = "a_cut_between_two_scales_requantizes";
    let Some(models) = models_or_skip(test) else { return };
    for (file, data, affine) in [FILES[0], FILES[2], FILES[4]] {
        let model = quantized_twice(&Model::load(models.join(file)).expect(file));
        let data = Data::load(models.join("data").join(data), None).expect(data);
        let case = Case::new(file, model, &data, affine, FEW);
        let config = alternating(&case.model, npu_and_cpu());
        case.check("two scales at the cut", &config, &threads(1), &["cpu", "npu"]);
        let plan = compile(&case.model, &configured(&config), &threads(1)).expect("compiles").plan;
        let requantized: Vec<&str> =
            plan.placed.iter().filter(|p| p.op.ends_with("Requantize")).map(|p| p.device.as_str()).collect();
        println!("{file}: {} requantizations, on {requantized:?}", requantized.len());
        assert!(!requantized.is_empty(), "{file}: {:?}", plan.placed);
    }
}

#[test]
fn a_device_that_knows_floats_only_takes_the_middle() {
    let test = "a_device_that_knows_floats_only_takes_the_middle";
    let Some(models) = models_or_skip(test) else { return };
    for (name, layer) in [("kws", 3), ("resnet8", 4)] {
        let loaded = Network::named(name).load(&models);
        let convs: Vec<&str> =
            loaded.model.graph.nodes.iter().filter(|n| n.op == "Conv").map(|n| n.name.as_str()).collect();
        let middle = convs[layer].to_owned();
        let recipe =
            Recipe::parse(&format!("Recipe(nodes: [(name: {middle:?}, activations: Float)])")).expect("parses");
        let source = Source::Data { data: &loaded.calibration, affine: Some(loaded.affine) };
        let options = QuantizeOptions { recipe, ..QuantizeOptions::default() };
        let quantized = loaded.model.quantize(source, &registry(), &options, &mut |_, _| {}).expect("quantizes");
        let case = Case::new(name, quantized.model, &loaded.evaluation, Network::named(name).affine, FEW);
        let devices = vec![device("npu", "npu", &[]), device("floats", "floats", &[]), device("cpu", "cpu", &[])];
        let config = Config { pins: vec![(middle, "floats".into())], ..priority(devices) };
        case.check("floats in the middle", &config, &threads(1), &["floats", "npu"]);
    }
}

#[test]
fn a_plan_of_another_instruction_set_is_compiled_anew() {
    let Some(models) = models_or_skip("a_plan_of_another_instruction_set_is_compiled_anew") else { return };
    let (file, data, affine) = FILES[2];
    let data = Data::load(models.join("data").join(data), None).expect(data);
    let case = Case::new(file, Model::load(models.join(file)).expect(file), &data, affine, FEW);
    let folder = tempfile::tempdir().expect("a folder");
    for (made, run) in [("portable", "auto"), ("auto", "portable")] {
        let with = |isa: &str| {
            let devices = DeviceOptions { isa: Some(isa.into()), threads: Some(1), ..DeviceOptions::default() };
            SessionOptions { devices, ..SessionOptions::default() }
        };
        let path = folder.path().join(format!("{made}.plan"));
        let config = Config::default();
        compile(&case.model, &configured(&config), &with(made)).expect("compiles").save(&path).expect("saves");
        let session = session(&Model::load(&path).expect("opens"), &config, &with(run));
        assert!(one_by_one(&session, &case.rows) == case.expected, "made for {made}, run on {run}");
    }
}
