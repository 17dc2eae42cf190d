//! Weights in blocks of 4-bit integers: the file, its size, and the same floats on every device.

use ottava::{
    Data, EvaluateOptions, Evaluation, Granularity, Model, QuantizeOptions, QuantizedModel, Recipe, SessionOptions,
    Source, evaluate,
};
use ottava_e2e::assets::{models_or_skip, registry};
use ottava_e2e::spearman::of_pairs;
use ottava_hal::DataType;
use ottava_quantize::recipe::Weights;

/// A file that comes with the command line.
fn bundled(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/cli/assets").join(name)
}

fn in_blocks(model: &Model, dtype: DataType, block: usize) -> QuantizedModel {
    let weights = Weights { dtype, granularity: Granularity::Blocked(block), ..Weights::default() };
    let options = QuantizeOptions { recipe: Recipe { weights, ..Recipe::default() }, ..QuantizeOptions::default() };
    model.quantize(Source::Dynamic, &registry(), &options, &mut |_, _| {}).expect("quantizes")
}

fn outputs(model: &Model, data: &Data, device: &str, limit: Option<usize>) -> Evaluation {
    let session = SessionOptions { device: Some(device.into()), batch: 4, ..SessionOptions::default() };
    let options = EvaluateOptions { keep_outputs: true, limit, session, ..EvaluateOptions::default() };
    evaluate(model, data, &registry(), &options, None, &mut |_, _| {}).expect("evaluates")
}

/// Nodes of the file that dequantize blocks.
fn blocked_nodes(q: &QuantizedModel) -> usize {
    q.model.graph.nodes.iter().filter(|n| n.op == "DequantizeLinear" && n.attrs.get("block_size").is_some()).count()
}

#[test]
fn a_small_network_in_blocks_is_the_same_on_every_device() {
    let model = Model::load(bundled("digits.onnx")).expect("the model");
    let data = Data::load(bundled("digits_test.npz"), None).expect("the data");
    for (dtype, block) in [(DataType::S4, 8), (DataType::U4, 16), (DataType::S8, 32)] {
        let q = in_blocks(&model, dtype, block);
        assert!(blocked_nodes(&q) > 0, "{dtype}");
        let [cpu, reference] = ["cpu", "reference"].map(|device| outputs(&q.model, &data, device, Some(16)).outputs);
        assert_eq!(cpu, reference, "{dtype} in blocks of {block}");
    }
}

/// The measure is Spearman's correlation of the cosine of sentence pairs with what people say; the float network has 0.876.
#[test]
fn minilm_in_four_bits_keeps_its_ranking() {
    let Some(models) = models_or_skip("minilm_in_four_bits_keeps_its_ranking") else { return };
    let model = Model::load(models.join("minilm_l3_f16w.onnx")).expect("the model");
    let data = Data::load(models.join("data/minilm_l3_eval_150.npz"), None).expect("the data");
    let q = in_blocks(&model, DataType::S4, 32);
    let products = model.graph.nodes.iter().filter(|n| matches!(n.op.as_str(), "MatMul" | "Gemm")).count();
    // Two products of each of the three layers are of two activations: scores, and the sum that they weigh.
    assert_eq!(blocked_nodes(&q), products - 6);
    let found = outputs(&q.model, &data, "cpu", None);
    let embeddings = found.outputs.values().next().expect("one output");
    let spearman = of_pairs(embeddings, data.labels.as_ref().expect("labels"));
    let size = q.bytes.len() as f64 / model.size_bytes as f64;
    println!("MiniLM, s4 in blocks of 32: Spearman {spearman:.4}, {:.3} of a file that stores f16", size);
    assert!(spearman >= 0.86, "{spearman}");
    let [cpu, reference] = ["cpu", "reference"].map(|device| outputs(&q.model, &data, device, Some(4)).outputs);
    assert_eq!(cpu, reference);
}
