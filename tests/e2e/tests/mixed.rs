//! Mixed precision on the bundled network: a wanted ratio is reached, for as little as possible, the same on every run.

use ottava::{Data, Model, QuantizeOptions, QuantizedModel, Recipe, Result, Source};
use ottava_e2e::assets::registry;

fn quantize(recipe: &str) -> Result<QuantizedModel> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/cli/assets");
    let model = Model::load(folder.join("digits.onnx"))?;
    let data = Data::load(folder.join("digits_calib.npz"), None)?;
    let options = QuantizeOptions { recipe: Recipe::parse(recipe).expect("a recipe"), ..QuantizeOptions::default() };
    model.quantize(Source::Data { data: &data, affine: None }, &registry(), &options, &mut |_, _| {})
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
