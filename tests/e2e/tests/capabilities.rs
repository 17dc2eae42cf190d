//! What a recipe asks that no chosen device has: something near it with a warning, or an error that names it.

use ottava::{
    Config, Data, DataType, DeviceEntry, Diagnostic, Fallback, Model, QuantizeOptions, QuantizedModel, Recipe, Result,
    Source, codes,
};
use ottava_e2e::assets::registry;
use ottava_e2e::devices::OneScale;
use std::path::Path;
use std::sync::Arc;

/// A way to quantize the bundled network.
struct Wanted<'a> {
    recipe: &'a str,
    strict: bool,
    fallback: Fallback,
}

impl<'a> Wanted<'a> {
    fn new(recipe: &'a str) -> Self {
        Self { recipe, strict: false, fallback: Fallback::Reference }
    }

    /// For one device alone.
    fn on(&self, device: DeviceEntry) -> Result<QuantizedModel> {
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/cli/assets");
        let config = Config { fallback: self.fallback, devices: vec![device], ..Config::default() };
        let model = Model::load(assets.join("digits.onnx"))?;
        let data = Data::load(assets.join("digits_calib.npz"), None)?;
        let recipe = Recipe::parse(self.recipe).expect("a recipe");
        let options = QuantizeOptions { recipe, strict: self.strict, ..QuantizeOptions::default() };
        let source = Source::Data { data: &data, affine: None };
        let registry = registry().with(Arc::new(OneScale)).configured(config);
        model.quantize(source, &registry, &options, &mut |_, _| {})
    }

    /// For a chip that is described by its differences from the preset.
    fn on_chip(&self, chip: &str) -> Result<QuantizedModel> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("chip.ron");
        std::fs::write(&file, chip).expect("the chip is written");
        let options = [("config".to_owned(), file.display().to_string())].into();
        self.on(DeviceEntry { id: "npu".into(), driver: "npu".into(), options })
    }
}

fn said(q: &QuantizedModel) -> Vec<&Diagnostic> {
    q.diagnostics.iter().filter(|d| d.code == codes::STORAGE).collect()
}

/// Constants of integer weights, by type.
fn weights_of(q: &QuantizedModel, dtype: DataType) -> usize {
    let constants = q.model.graph.values.iter().filter_map(|v| v.constant.as_ref());
    constants.filter(|t| t.dtype() == dtype && t.shape().len() > 1).count()
}

const S4: &str = "(weights: (dtype: S4))";

#[test]
fn a_chip_without_four_bits_gets_eight_and_is_named() {
    let q = Wanted::new(S4).on_chip("Npu(dtypes: [S8, U8])").expect("quantizes");
    let found = said(&q);
    assert!(found.iter().any(|d| d.message.starts_with("Conv with 4-bit weights (")), "{found:?}");
    assert!(found.iter().all(|d| d.message.contains("`npu`") && d.message.contains("s8 with a scale per channel")));
    assert_eq!(weights_of(&q, DataType::S4), 0);
    assert!(q.report.recipe.contains("S8"), "{}", q.report.recipe);
    for wanted in [Wanted { strict: true, ..Wanted::new(S4) }, Wanted { fallback: Fallback::Error, ..Wanted::new(S4) }]
    {
        let e = wanted.on_chip("Npu(dtypes: [S8, U8])").expect_err("no device has it").to_string();
        assert!(e.contains("with 4-bit weights") && e.contains("`npu`"), "{e}");
    }
    let q = Wanted { strict: true, ..Wanted::new(S4) }.on_chip("Npu(dtypes: [S8, U8, S4])").expect("it has them");
    assert!(weights_of(&q, DataType::S4) > 0 && said(&q).is_empty(), "{:?}", q.diagnostics);
}

#[test]
fn a_convolution_without_room_for_a_block_is_adapted_like_any_other() {
    // Two convolutions have fewer input channels than a block, the first among them: they stay integer operators.
    let q = Wanted::new("(weights: (dtype: U4, granularity: Blocked(8)))").on_chip("Npu(dtypes: [S8, U8])");
    let q = q.expect("quantizes");
    assert!(said(&q).iter().any(|d| d.message.starts_with("Conv with 4-bit weights (2 nodes)")), "{:?}", said(&q));
    let first = q.model.graph.nodes.iter().find(|n| n.op == "Conv").and_then(|n| n.input(1)).expect("weights");
    let stored = q.model.graph.nodes.iter().find(|n| n.outputs.contains(&first)).and_then(|n| n.input(0));
    assert_eq!(stored.and_then(|id| q.model.graph.constant(id)).map(|t| t.dtype()), Some(DataType::S8));
}

#[test]
fn a_chip_without_the_requantization_of_the_file_is_named() {
    let chip = "Npu(requant: [Q31Double])";
    let q = Wanted::new("()").on_chip(chip).expect("quantizes");
    let found = said(&q);
    let text = &found.first().expect("a warning").message;
    assert!(text.contains("Conv with the requantization fp32_rne") && text.contains("`npu`"), "{text}");
    let e = Wanted { strict: true, ..Wanted::new("()") }.on_chip(chip).expect_err("no device has it").to_string();
    assert!(e.contains("the requantization fp32_rne") && e.contains("`npu`"), "{e}");
    let q = Wanted { strict: true, ..Wanted::new("()") }.on_chip("Npu(requant: [Fp32Rne])").expect("it has the mode");
    assert!(said(&q).is_empty(), "{:?}", q.diagnostics);
}

#[test]
fn a_device_with_one_scale_per_tensor_gets_it() {
    let coarse = || DeviceEntry { id: "coarse".into(), driver: "coarse".into(), options: Default::default() };
    let q = Wanted::new("(corrections: [])").on(coarse()).expect("quantizes");
    let found = said(&q);
    assert!(!found.is_empty(), "{:?}", q.diagnostics);
    for d in &found {
        assert!(
            d.message.contains("a weight scale per channel") && d.message.contains("with one scale instead"),
            "{d:?}"
        );
    }
    let plain = Wanted::new("(corrections: [], weights: (granularity: PerTensor))").on(coarse()).expect("quantizes");
    assert!(said(&plain).is_empty(), "{:?}", plain.diagnostics);
    let constants = |q: &QuantizedModel| {
        let mut all: Vec<Vec<u8>> =
            q.model.graph.values.iter().filter_map(|v| v.constant.as_ref()).map(|t| t.bytes().to_vec()).collect();
        all.sort();
        all
    };
    assert!(constants(&q) == constants(&plain), "the weights are those of the recipe that asks for one scale");
    let e = Wanted { strict: true, ..Wanted::new("()") }.on(coarse()).expect_err("no device has it").to_string();
    assert!(e.contains("a weight scale per channel") && e.contains("`coarse`"), "{e}");
}
