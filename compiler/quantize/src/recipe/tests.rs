//! The recipe of the command's documentation, its errors, and its way through text and back.

use super::*;

const FULL: &str = r#"Recipe(
  activations: (dtype: U8, symmetric: false, observer: Percentile(99.999)),    // MinMax, MovingAverage(0.01), ...
  weights: (dtype: S8, granularity: PerChannel),                               // PerTensor, Blocked(32)
  corrections: [BiasCorrection, CrossLayerEqualization, Smooth(alpha: 0.5), LearnedRounding(steps: 500)],
  preprocess: Some((resize: (128, 128), crop: Some(0.875), color: Rgb, layout: Nhwc, scale: 0.0078125, offset: -1.0)),
  integer_only: false, target_sqnr_db: None, max_float_macs: Some(0.10),
  nodes: [ (name: "*/softmax", activations: Float), (name: "head/*", activations: (dtype: S16)),
           (name: "head/cls", activations: Float) ],
)"#;

fn error(text: &str) -> Error {
    Recipe::parse(text).expect_err("the recipe is wrong")
}

fn place(text: &str) -> (usize, usize) {
    match error(text) {
        Error::Recipe { line, column, .. } => (line, column),
        other => panic!("{other}"),
    }
}

#[test]
fn the_documented_recipe_is_read() {
    let recipe = Recipe::parse(FULL).unwrap();
    assert_eq!(recipe.corrections.len(), 4);
    assert_eq!(recipe.corrections[2], Correction::Smooth { alpha: 0.5 });
    assert_eq!(recipe.preprocess.unwrap().resize, (128, 128));
    assert_eq!((recipe.target_sqnr_db, recipe.max_float_macs), (None, Some(0.1)));
    assert_eq!(recipe.for_node("encoder/attention/softmax").activations, None);
    let head = recipe.for_node("head/cls").activations.unwrap();
    assert_eq!((head.dtype, head.observer), (DataType::S16, Observer::Percentile(99.999)));
    assert_eq!(recipe.for_node("stem/conv").activations, Some(Activations::default()));
}

#[test]
fn an_empty_recipe_is_the_default() {
    let recipe = Recipe::parse("Recipe()").unwrap();
    assert_eq!(recipe.to_ron(), Recipe::default().to_ron());
    assert_eq!(recipe.corrections, [Correction::CrossLayerEqualization, Correction::BiasCorrection]);
}

#[test]
fn text_round_trips() {
    for text in [
        FULL,
        "()",
        "(weights: (dtype: S4, granularity: Blocked(32)), activations: (observer: Mse, dtype: S16))",
        "(weights: (dtype: U4, granularity: Blocked(128), zero_point: Free))",
    ] {
        let written = Recipe::parse(text).unwrap().to_ron();
        assert_eq!(Recipe::parse(&written).unwrap().to_ron(), written);
        assert!(written.starts_with("Recipe("), "{written}");
    }
    let written = Recipe::parse(FULL).unwrap().to_ron();
    assert!(written.contains("activations: Float"), "{written}");
    assert!(written.contains("Percentile(99.999)"), "{written}");
}

#[test]
fn unknown_keys_have_a_place_and_a_neighbour() {
    let text = "Recipe(\n  activations: (dtype: U8),\n  wieghts: (dtype: S8),\n)";
    let message = error(text).to_string();
    assert!(message.contains("line 3, column"), "{message}");
    assert!(message.contains("did you mean `weights`?"), "{message}");
    let message = error("Recipe(weights: (dtyp: S8))").to_string();
    assert!(message.contains("did you mean `dtype`?"), "{message}");
}

#[test]
fn unknown_variants_have_a_neighbour() {
    let message = error("Recipe(activations: (observer: Percentil(99.9)))").to_string();
    assert!(message.contains("did you mean `Percentile`?"), "{message}");
    let message = error("Recipe(activations: (dtype: Int8))").to_string();
    assert!(message.contains("line 1") && message.contains("S8"), "{message}");
}

#[test]
fn overrides_tell_their_place_in_the_whole_file() {
    let text = "Recipe(\n  nodes: [\n    (name: \"a\", activations: Flaot),\n  ],\n)";
    let (line, column) = place(text);
    assert_eq!(line, 3);
    assert!((30..40).contains(&column), "{column}");
    assert!(error(text).to_string().contains("did you mean `Float`?"));
    let text = "Recipe(nodes: [(name: \"a\", activations: (dtype: S16, obsrever: Mse))])";
    assert!(error(text).to_string().contains("did you mean `observer`?"), "{}", error(text));
}

#[test]
fn impossible_numbers_are_refused() {
    for (text, expected) in [
        ("(activations: (observer: Percentile(10.0)))", "`Percentile` is 10"),
        ("(activations: (observer: MovingAverage(0.0)))", "`MovingAverage` is 0"),
        ("(weights: (granularity: Blocked(0)))", "`Blocked` is 0"),
        ("(max_float_macs: 2.0)", "`max_float_macs` is 2"),
        ("(corrections: [Smooth(alpha: 7.0)])", "`alpha` is 7"),
        ("(version: 9)", "version 9"),
        ("(nodes: [(name: \"a[\", activations: Float)])", "no glob"),
        ("(nodes: [(activations: Float)])", "name"),
    ] {
        let message = error(text).to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn keeping_a_node_in_float_matches_that_node_alone() {
    let mut recipe = Recipe::default();
    recipe.keep_float("block[1]/conv*");
    assert_eq!(recipe.for_node("block[1]/conv*").activations, None);
    assert!(recipe.for_node("block1/convA").activations.is_some());
    let read = Recipe::parse(&recipe.to_ron()).unwrap();
    assert_eq!(read.for_node("block[1]/conv*").activations, None);
}
