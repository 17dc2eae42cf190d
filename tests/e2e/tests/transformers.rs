//! A transformer through the quantizer: static with defaults, in integers only, and quantized at run time. The measure is
//! Spearman's correlation of the cosine of sentence pairs with what people say; the float network has 0.876.

use ottava::{
    CalibrateOptions, Calibration, Data, EvaluateOptions, Evaluation, Metric, Model, QuantizeOptions, QuantizedModel,
    Recipe, Session, SessionOptions, Source, calibrate, evaluate,
};
use ottava_e2e::assets::{Network, models_or_skip, registry};
use ottava_e2e::spearman::of_pairs;
use ottava_hal::{DataType, Node, Program, ValueId};
use ottava_plan::Plan;
use std::path::Path;

const FLOAT: f64 = 0.8759;
/// Products alone in integers, the default.
const PRODUCTS: f64 = 0.874;
/// Products, Softmax, LayerNormalization, Gelu and all the rest.
const INTEGER_ONLY: f64 = 0.870;
/// Integer weights, rows quantized at run time.
const DYNAMIC: f64 = 0.871;
/// What integers alone may lose against the default recipe.
const LOSS: f64 = 0.01;

struct MiniLm {
    model: Model,
    calibration: Calibration,
    evaluation: Data,
}

impl MiniLm {
    fn load(models: &Path) -> Self {
        let data = |name: &str| Data::load(models.join("data").join(name), None).expect(name);
        let model = Model::load(models.join("minilm_l3_f16w.onnx")).expect("the model");
        let samples = data("minilm_l3_calib_50.npz");
        let options = CalibrateOptions::default();
        let calibration = calibrate(&model, &samples, &registry(), &options, &mut |_, _| {}).expect("calibrates");
        Self { model, calibration, evaluation: data("minilm_l3_eval_150.npz") }
    }

    fn quantized(&self, source: Source, integer_only: bool) -> QuantizedModel {
        let options =
            QuantizeOptions { recipe: Recipe { integer_only, ..Recipe::default() }, ..QuantizeOptions::default() };
        self.model.quantize(source, &registry(), &options, &mut |_, _| {}).expect("quantizes")
    }

    fn outputs(&self, model: &Model, device: &str, limit: Option<usize>) -> Evaluation {
        let session = SessionOptions { device: Some(device.into()), batch: 4, ..SessionOptions::default() };
        let options = EvaluateOptions { keep_outputs: true, limit, session, ..EvaluateOptions::default() };
        evaluate(model, &self.evaluation, &registry(), &options, None, &mut |_, _| {}).expect("evaluates")
    }

    fn spearman(&self, model: &Model) -> f64 {
        let evaluation = self.outputs(model, "cpu", None);
        let embeddings = evaluation.outputs.values().next().expect("one output");
        of_pairs(embeddings, self.evaluation.labels.as_ref().expect("labels"))
    }

    /// The plan for sentences of 48 tokens on the CPU.
    fn plan(&self, model: &Model) -> Plan {
        let dims = [("sequence_length".to_owned(), 48)].into();
        let options = SessionOptions { device: Some("cpu".into()), dims, batch: 2, ..SessionOptions::default() };
        Session::new(model, &registry(), &options).expect("compiles").plan().clone()
    }
}

/// The nodes of a plan that compute with floats: all that read or write a plain float, but for Quantize of what the caller
/// gives and Dequantize of what the caller gets.
fn float_nodes(plan: &Plan) -> Vec<String> {
    let name = |node: &Node| format!("{} ({})", node.name, node.full_op());
    let partitions = plan.partitions.iter().map(|p| &p.program);
    partitions.flat_map(|p| p.nodes.iter().filter(|n| computes_floats(p, n)).map(name).collect::<Vec<_>>()).collect()
}

fn computes_floats(program: &Program, node: &Node) -> bool {
    let is_float = |id: &ValueId| program.ty(*id).quant.is_none() && program.ty(*id).dtype == DataType::F32;
    let reads = node.inputs.iter().flatten().any(|id| is_float(id) && program.value(*id).constant.is_none());
    match node.full_op().as_str() {
        "ottava::Dequantize" => !node.outputs.iter().all(|out| program.outputs.contains(out)),
        "ottava::Quantize" => !node.inputs.iter().flatten().all(|id| program.inputs.contains(id)),
        _ => reads || node.outputs.iter().any(is_float),
    }
}

#[test]
fn minilm_keeps_its_ranking() {
    let Some(models) = models_or_skip("minilm_keeps_its_ranking") else { return };
    let net = MiniLm::load(&models);
    let products = net.quantized(Source::Calibration(&net.calibration), false);
    let integers = net.quantized(Source::Calibration(&net.calibration), true);
    let dynamic = net.quantized(Source::Dynamic, false);
    let [float, products, whole, dynamic] =
        [&net.model, &products.model, &integers.model, &dynamic.model].map(|model| net.spearman(model));
    println!("Spearman: float {float:.4}, products {products:.4}, integers only {whole:.4}, dynamic {dynamic:.4}");
    assert!((float - FLOAT).abs() < 5e-4, "float {float}");
    assert!(products >= PRODUCTS, "products {products}");
    assert!(whole >= INTEGER_ONLY && whole >= products * (1.0 - LOSS), "integers only {whole}, products {products}");
    assert!(dynamic >= DYNAMIC, "dynamic {dynamic}");
    assert_eq!(integers.report.float, [], "integer_only leaves nothing in float");
}

#[test]
fn minilm_in_integers_runs_whole_on_the_cpu_and_equals_the_reference() {
    let Some(models) = models_or_skip("minilm_in_integers_runs_whole_on_the_cpu_and_equals_the_reference") else {
        return;
    };
    let net = MiniLm::load(&models);
    let integers = net.quantized(Source::Calibration(&net.calibration), true);
    let plan = net.plan(&integers.model);
    assert_eq!(float_nodes(&plan), Vec::<String>::new());
    let elsewhere: Vec<&str> = plan.placed.iter().filter(|p| p.device != "cpu").map(|p| p.node.as_str()).collect();
    assert_eq!(elsewhere, Vec::<&str>::new(), "not on the cpu");
    let ops = |op: &str| plan.placed.iter().filter(|p| p.op.ends_with(op)).count();
    assert_eq!((ops("MaskedSoftmax"), ops("LayerNormalization"), ops("MaskedMean")), (3, 7, 1));
    let dynamic = net.quantized(Source::Dynamic, false);
    for model in [&integers.model, &dynamic.model] {
        let [cpu, reference] = ["cpu", "reference"].map(|device| net.outputs(model, device, Some(8)).outputs);
        assert_eq!(cpu, reference);
    }
}

#[test]
fn convolutional_networks_in_integers_only_lose_nothing() {
    let Some(models) = models_or_skip("convolutional_networks_in_integers_only_lose_nothing") else { return };
    for name in ["kws", "resnet8"] {
        let loaded = Network::named(name).load(&models);
        let source = || Source::Data { data: &loaded.calibration, affine: Some(loaded.affine) };
        let quantize = |integer_only: bool| {
            let recipe = Recipe { integer_only, ..Recipe::default() };
            let options = QuantizeOptions { recipe, ..QuantizeOptions::default() };
            loaded.model.quantize(source(), &registry(), &options, &mut |_, _| {}).expect("quantizes")
        };
        let (default, integers) = (quantize(false), quantize(true));
        assert_eq!(integers.report.float, [], "{name}");
        let session = Session::new(&integers.model, &registry(), &SessionOptions::default()).expect("compiles");
        assert_eq!(float_nodes(session.plan()), Vec::<String>::new(), "{name}");
        let measure = |model: &Model, metric: Metric| {
            let options =
                EvaluateOptions { metric: Some(metric), affine: Some(loaded.affine), ..EvaluateOptions::default() };
            let against = (metric == Metric::Agree).then_some(&loaded.model);
            evaluate(model, &loaded.evaluation, &registry(), &options, against, &mut |_, _| {}).expect("evaluates")
        };
        for metric in [Metric::Top1, Metric::Agree] {
            let [a, b] = [&default.model, &integers.model].map(|model| measure(model, metric).hits as f64);
            println!("{name} {}: default {a}, integers only {b}", metric.name());
            assert!(b >= a * (1.0 - LOSS), "{name} {}: {b} against {a}", metric.name());
        }
    }
}
