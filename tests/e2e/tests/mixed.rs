//! Mixed precision on the bundled network: a wanted ratio is reached, for as little as possible, the same on every run.

use ottava::{
    Config, Data, Fallback, Model, Precision, QuantizeOptions, QuantizedModel, Recipe, Result, SessionOptions, Source,
    codes,
};
use ottava_e2e::assets::registry;

fn quantize(recipe: &str) -> Result<QuantizedModel> {
    quantize_for(recipe, None, Fallback::Reference)
}

/// Quantizes for a device, else for all that are there.
fn quantize_for(recipe: &str, device: Option<&str>, fallback: Fallback) -> Result<QuantizedModel> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/cli/assets");
    let model = Model::load(folder.join("digits.onnx"))?;
    let data = Data::load(folder.join("digits_calib.npz"), None)?;
    let session = SessionOptions { device: device.map(str::to_owned), ..SessionOptions::default() };
    let recipe = Recipe::parse(recipe).expect("a recipe");
    let options = QuantizeOptions { recipe, session, ..QuantizeOptions::default() };
    let registry = registry().configured(Config { fallback, ..Config::default() });
    model.quantize(Source::Data { data: &data, affine: None }, &registry, &options, &mut |_, _| {})
}

#[test]
fn a_target_is_reached_with_named_exceptions_and_the_same_bytes_each_time() {
    let easy = quantize("(target_sqnr_db: 1.0)").expect("quantizes");
    let easy = easy.mixed.expect("a search");
    assert!(easy.reached && easy.exceptions.is_empty() && easy.trials == 1, "{easy:?}");

    let recipe = format!("(target_sqnr_db: {})", easy.before_db + 3.0);
    let q = quantize(&recipe).expect("quantizes");
    let mixed = q.mixed.clone().expect("a search");
    assert!(mixed.reached && mixed.after_db >= easy.before_db + 3.0, "{mixed:?}");
    assert!(!mixed.exceptions.is_empty() && q.float_macs() < 1.0);
    for node in mixed.exceptions.iter().flat_map(|e| &e.nodes) {
        let named = q.report.float.iter().find(|n| n.name == *node).unwrap_or_else(|| panic!("{node} is not listed"));
        assert!(named.reason.contains("raises the output SQNR by"), "{}", named.reason);
    }
    assert!(q.bytes == quantize(&recipe).expect("quantizes").bytes, "another run gives other bytes");
}

#[test]
fn a_target_out_of_reach_is_an_error_that_says_how_far_it_got() {
    let e = quantize("(target_sqnr_db: 90.0, max_float_macs: 0.0)").expect_err("nothing may stay in float");
    let text = e.to_string();
    assert!(text.contains("90.0 dB is not reached") && text.contains("max_float_macs"), "{text}");
    let e = quantize("(target_sqnr_db: 30.0, integer_only: true)").expect_err("a contradiction");
    assert!(e.to_string().contains("integer_only"), "{e}");
}

#[test]
fn a_network_far_above_the_floor_stays_as_the_recipe_says() {
    let q = quantize("()").expect("quantizes");
    assert!(q.mixed.is_none());
    assert!(!q.report.recipe.contains("Float"), "{}", q.report.recipe);
}

const S16: &str = "(activations: (dtype: S16, symmetric: true))";

#[test]
fn sixteen_bits_that_no_chosen_device_runs_are_named() {
    let q = quantize(S16).expect("quantizes");
    let found = q.diagnostics.iter().find(|d| d.code == codes::STORAGE).expect("a warning");
    let text = format!("{found:?}");
    assert!(text.contains("Conv in s16") && text.contains("`cpu`"), "{text}");
    let e = quantize_for(S16, None, Fallback::Error).expect_err("nothing else may run it");
    assert!(e.to_string().contains("Conv in s16"), "{e}");
    // The reference interpreter by name is a device like any other; 8 bits run everywhere.
    for (recipe, device) in [(S16, Some("reference")), ("()", None)] {
        let q = quantize_for(recipe, device, Fallback::Error).expect("quantizes");
        assert!(!q.diagnostics.iter().any(|d| d.code == codes::STORAGE), "{:?}", q.diagnostics);
    }
}

#[test]
fn sixteen_bits_are_a_choice_where_the_device_runs_them() {
    let plain = quantize("(target_sqnr_db: 1.0)").expect("quantizes").mixed.expect("a search");
    // Float at the last table alone gives 26 dB.
    let recipe = format!("(target_sqnr_db: {})", plain.before_db + 28.0);
    let on = |device: &str| {
        let q = quantize_for(&recipe, Some(device), Fallback::Reference).expect("quantizes");
        q.mixed.expect("a search")
    };
    let (cpu, reference) = (on("cpu"), on("reference"));
    assert!(cpu.exceptions.iter().all(|e| e.precision == Precision::Float), "{cpu:?}");
    assert!(reference.reached && reference.wide().count() > 0, "{reference:?}");
    assert!(reference.wide().all(|(_, reason)| reason.contains("raises the output SQNR by")));
}

#[test]
fn half_floats_run_where_a_device_has_them_and_are_named_where_none_has() {
    for (recipe, dtype) in
        [("(activations: (dtype: F16))", "f16"), ("(nodes: [(name: \"*\", activations: (dtype: Bf16))])", "bf16")]
    {
        let e = quantize(recipe).expect_err("no device has them").to_string();
        assert!(e.contains(&format!("Conv in {dtype}")) && e.contains("`cpu`") && e.contains("reference"), "{e}");
        let q = quantize_for(recipe, Some("reference"), Fallback::Error).expect("the reference has them");
        let casts = q.model.graph.nodes.iter().filter(|n| n.op == "Cast").count();
        assert_eq!((casts, q.report.quantized.len()), (2, 0), "{recipe}");
        assert_eq!(q.bytes, quantize_for(recipe, Some("reference"), Fallback::Error).expect("again").bytes);
    }
}
