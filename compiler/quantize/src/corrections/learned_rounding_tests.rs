//! Learned roundings of whole networks: every form of product, determinism, notes.

use super::*;
use crate::apply::testing::*;
use crate::apply::{fingerprint, quantize, quantize_learned};
use ottava_hal::Attr;

const NEAREST: &str = "(weights: (dtype: S4), corrections: [BiasCorrection])";
const LEARNED: &str = "(weights: (dtype: S4), corrections: [BiasCorrection, LearnedRounding(steps: 4)])";

/// A convolution of two groups with a stride, a depthwise one, and a dense layer; inputs of neighbours are alike.
fn net() -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 4, 9, 9]);
    let (w1, b1) = (net.noisy("w1", &[8, 2, 3, 3]), net.noisy("b1", &[8]));
    let attrs = [("group", Attr::Int(2)), ("strides", Attr::Ints(vec![2, 2])), ("pads", Attr::Ints(vec![1; 4]))];
    let c1 = net.node("Conv", "c1", &[x, w1, b1], &attrs);
    let a1 = net.node("Relu", "a1", &[c1], &[]);
    let wd = net.noisy("wd", &[8, 1, 3, 3]);
    let dw = net.node("Conv", "dw", &[a1, wd], &[("group", Attr::Int(8))]);
    let flat = net.node("Flatten", "flat", &[dw], &[]);
    let (w2, b2) = (net.noisy("w2", &[5, 72]), net.noisy("b2", &[5]));
    let y = net.node("Gemm", "y", &[flat, w2, b2], &[("transB", Attr::Int(1))]);
    net.finish(&[y])
}

/// Samples with a common part, so that the inputs of a sum go together.
fn alike(graph: &Graph, n: usize) -> Vec<Tensor> {
    let shape = graph.ty(graph.inputs[0]).shape.known().unwrap();
    let blend = |(i, v): (usize, &f32)| 0.3 * v + libm::sinf(0.7 * (i % 9) as f32 + v);
    let one = |t: Tensor| -> Vec<f32> { t.as_slice::<f32>().unwrap().iter().enumerate().map(blend).collect() };
    samples(&shape, n).into_iter().map(|t| Tensor::from_slice(&shape, &one(t)).unwrap()).collect()
}

fn learn_on(graph: &Graph, calibration: &Calibration, recipe: &Recipe, data: &[Tensor]) -> Learned {
    let mut learning = Learning::new(graph, calibration, recipe, data.len()).unwrap().unwrap();
    while let Some(values) = learning.next_round() {
        for sample in data {
            let all = run(graph, sample);
            let observed: Vec<Tensor> = values.iter().map(|id| all[id.0].clone().unwrap()).collect();
            learning.observe(&observed, 1);
        }
        learning.finish_round().unwrap();
    }
    learning.finish()
}

/// Squared error of the outputs on the data.
fn noise(float: &Graph, other: &Graph, data: &[Tensor]) -> f64 {
    let of = |g: &Graph, x| run(g, x)[g.outputs[0].0].clone().unwrap().to_f32s().unwrap();
    let error = |x| of(float, x).iter().zip(of(other, x)).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
    data.iter().map(error).sum()
}

#[test]
fn learned_integers_lose_less_and_are_the_same_every_time() {
    let float = net();
    let data = alike(&float, 16);
    let calibration = calibrate(&float, &data);
    let (nearest, recipe) = (Recipe::parse(NEAREST).unwrap(), Recipe::parse(LEARNED).unwrap());
    let learned = learn_on(&float, &calibration, &recipe, &data);
    assert_eq!((learned.len(), learned.diagnostics.len()), (3, 0));
    assert_eq!(learned, learn_on(&float, &calibration, &recipe, &data));
    let before = quantize(&float, &calibration, &nearest).unwrap();
    let after = quantize_learned(&float, &calibration, &recipe, &learned).unwrap();
    ottava_graph::verify(&after.graph).unwrap();
    let (before, after) = (noise(&float, &before.graph, &data), noise(&float, &after.graph, &data));
    assert!(after < before, "{after} of {before}");
}

#[test]
fn without_data_or_for_another_choice_weights_round_to_nearest() {
    let float = net();
    let data = alike(&float, 4);
    let calibration = calibrate(&float, &data);
    let (nearest, recipe) = (Recipe::parse(NEAREST).unwrap(), Recipe::parse(LEARNED).unwrap());
    assert!(Learning::new(&float, &calibration, &nearest, 4).unwrap().is_none());
    let plain = quantize(&float, &calibration, &nearest).unwrap();
    let unlearned = quantize(&float, &calibration, &recipe).unwrap();
    assert_eq!(plain.graph, unlearned.graph);
    assert!(unlearned.diagnostics.iter().any(|d| d.code == "Q0107"));
    // Integers for s4 are no integers for s8.
    let learned = learn_on(&float, &calibration, &recipe, &data);
    let s8 = Recipe::parse("(corrections: [BiasCorrection])").unwrap();
    let with = quantize_learned(&float, &calibration, &s8, &learned).unwrap();
    assert_eq!(with.graph, quantize(&float, &calibration, &s8).unwrap().graph);
}

#[test]
fn layers_that_are_too_wide_or_never_reached_are_named() {
    let mut net = Net::new();
    let x = net.input("x", &[1, MAX_K + 1]);
    let w = net.noisy("w", &[MAX_K + 1, 2]);
    let y = net.node("MatMul", "y", &[x, w], &[]);
    let float = net.finish(&[y]);
    let data = samples(&[1, MAX_K + 1], 2);
    let calibration = calibrate(&float, &data);
    assert!(calibration.expect_model(fingerprint(&float)).is_ok());
    let recipe = Recipe::parse(LEARNED).unwrap();
    let learned = learn_on(&float, &calibration, &recipe, &data);
    assert!(learned.is_empty());
    assert!(learned.diagnostics[0].message.contains("at most 2304"), "{:?}", learned.diagnostics);

    let float = self::net();
    let zeros = vec![Tensor::zeros(ottava_hal::DataType::F32, &[1, 4, 9, 9]).unwrap()];
    let calibration = calibrate(&float, &alike(&float, 2));
    let learned =
        learn_on(&float, &calibration, &Recipe::parse("(corrections: [LearnedRounding(steps: 1)])").unwrap(), &zeros);
    assert!(learned.diagnostics.iter().any(|d| d.message.contains("inputs at zero")), "{:?}", learned.diagnostics);
}
