//! Rewrites keep what the network computes, and quantization loses less after them.

use ottava_graph::Graph;
use ottava_hal::{Attr, Tensor};

use super::*;
use crate::apply::testing::*;
use crate::recipe::Recipe;

const EQUALIZE: &str = "(corrections: [CrossLayerEqualization])";

/// A convolution whose channels reach unevenly far, an activation, a depthwise and a pointwise convolution.
fn uneven_net(activation: &str) -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 3, 8, 8]);
    let scales: Vec<f32> = (0..8).map(|c| libm::exp2f(-c as f32)).collect();
    let uneven = |values: Vec<f32>, per: usize| -> Vec<f32> {
        values.iter().enumerate().map(|(i, w)| w * scales[i / per]).collect()
    };
    let (w1, b1) = (uneven(net.noise(8 * 27), 27), uneven(net.noise(8), 1));
    let (w1, b1) = (net.constant("w1", &[8, 3, 3, 3], &w1), net.constant("b1", &[8], &b1));
    let c1 = net.node("Conv", "c1", &[x, w1, b1], &[("pads", Attr::Ints(vec![1; 4]))]);
    let bounds = [net.constant("lo", &[], &[0.0]), net.constant("hi", &[], &[6.0])];
    let a1 = match activation {
        "Clip" => net.node("Clip", "a1", &[c1, bounds[0], bounds[1]], &[]),
        op => net.node(op, "a1", &[c1], &[]),
    };
    let wd = net.noisy("wd", &[8, 1, 3, 3]);
    let dw = net.node("Conv", "dw", &[a1, wd], &[("group", Attr::Int(8)), ("pads", Attr::Ints(vec![1; 4]))]);
    let inverse: Vec<f32> = (0..8).map(|c| libm::exp2f(c as f32)).collect();
    let wp: Vec<f32> = net.noise(32).iter().enumerate().map(|(i, w)| w * inverse[i % 8]).collect();
    let wp = net.constant("wp", &[4, 8, 1, 1], &wp);
    let y = net.node("Conv", "y", &[dw, wp], &[]);
    net.finish(&[y])
}

/// A LayerNormalization with one outlier channel in front of a matrix product.
fn outlier_net(residual: bool) -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 6, 16]);
    let gamma: Vec<f32> = (0..16).map(|c| if c == 5 { 60.0 } else { 1.0 }).collect();
    let (gamma, beta) = (net.constant("gamma", &[16], &gamma), net.noisy("beta", &[16]));
    let norm = net.node("LayerNormalization", "norm", &[x, gamma, beta], &[]);
    net.graph.nodes.last_mut().expect("the norm").version = 17;
    let w: Vec<f32> =
        net.noise(16 * 16).iter().enumerate().map(|(i, w)| if i / 16 == 5 { w / 60.0 } else { *w }).collect();
    let w = net.constant("w", &[16, 16], &w);
    let y = net.node("MatMul", "y", &[norm, w], &[]);
    let y = if residual { net.node("Add", "sum", &[y, norm], &[]) } else { y };
    net.finish(&[y])
}

fn prepared(graph: &Graph, recipe: &str) -> Prepared {
    let shape = graph.ty(graph.inputs[0]).shape.known().unwrap();
    let calibration = calibrate(graph, &samples(&shape, 8));
    prepare(graph, &calibration, &Recipe::parse(recipe).unwrap()).unwrap()
}

/// The largest difference of the first output, relative to its largest magnitude.
fn difference(a: &Graph, b: &Graph) -> f64 {
    let shape = a.ty(a.inputs[0]).shape.known().unwrap();
    let output = |g: &Graph, x: &Tensor| run(g, x)[g.outputs[0].0].clone().unwrap().to_f32s().unwrap();
    let of = |x: &Tensor| {
        let (a, b) = (output(a, x), output(b, x));
        let reach = a.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        a.iter().zip(&b).map(|(a, b)| f64::from((a - b).abs() / reach)).fold(0.0, f64::max)
    };
    samples(&shape, 4).iter().map(of).fold(0.0, f64::max)
}

#[test]
fn equalization_keeps_the_float_function_through_activations() {
    for activation in ["Relu", "LeakyRelu", "Clip"] {
        let float = uneven_net(activation);
        let after = prepared(&float, EQUALIZE);
        assert!(after.rewritten, "{activation}");
        let off = difference(&float, &after.graph);
        assert!(off < 1e-5, "{activation}: {off}");
    }
}

#[test]
fn equalization_lowers_the_noise_of_activations_and_of_shared_weight_scales() {
    let float = uneven_net("Relu");
    for weights in ["PerChannel", "PerTensor"] {
        let recipe = |corrections: &str| format!("(weights: (granularity: {weights}), corrections: [{corrections}])");
        let ratio = |corrections: &str| sqnr(&float, &quantized(&float, &recipe(corrections)).graph);
        let (before, after) = (ratio(""), ratio("CrossLayerEqualization"));
        assert!(after > before + 2.0, "{weights}: {before} {after}");
    }
}

#[test]
fn scaled_channels_stay_below_a_clip_on_the_calibration_data() {
    let float = uneven_net("Clip");
    let after = prepared(&float, EQUALIZE);
    let (old, new) =
        (calibrate(&float, &samples(&[1, 3, 8, 8], 8)), calibrate(&after.graph, &samples(&[1, 3, 8, 8], 8)));
    let reaches = |calibration: &Calibration| calibration.get("a1").unwrap().channels.extremes();
    for (old, new) in reaches(&old).iter().zip(reaches(&new)) {
        // Channels that the Clip cuts are left alone, others never get there.
        assert!(if old.1 >= 6.0 { new.1 == 6.0 } else { new.1 < 6.0 }, "{old:?} {new:?}");
    }
    assert!(after.diagnostics.iter().any(|d| d.message.contains("its Clip")), "{:?}", after.diagnostics);
}

#[test]
fn derived_statistics_are_those_of_the_rewritten_network() {
    let after = prepared(&uneven_net("Relu"), EQUALIZE);
    let exact = calibrate(&after.graph, &samples(&[1, 3, 8, 8], 8));
    let (derived, exact) = (after.calibration.get("a1").unwrap(), exact.get("a1").unwrap());
    for (a, b) in derived.channels.extremes().iter().zip(exact.channels.extremes()) {
        assert!((a.1 - b.1).abs() <= 1e-5 * b.1, "{a:?} {b:?}");
    }
    for (a, b) in derived.channels.means().iter().zip(exact.channels.means()) {
        assert!((a - b).abs() <= 1e-5 * b.abs() + 1e-9, "{a} {b}");
    }
    let hi = f64::from(derived.histogram.extremes().unwrap().1) * derived.stretch.unwrap().1;
    assert!((hi - f64::from(exact.histogram.extremes().unwrap().1)).abs() < 1e-4 * hi);
}

#[test]
fn smoothing_folds_into_a_norm_and_only_where_nothing_else_reads_it() {
    let smooth = "(corrections: [Smooth(alpha: 0.5)])";
    let float = outlier_net(false);
    let after = prepared(&float, smooth);
    assert!(after.rewritten);
    let off = difference(&float, &after.graph);
    assert!(off < 1e-5, "{off}");
    let ratio = |recipe: &str| sqnr(&float, &quantized(&float, recipe).graph);
    assert!(ratio(smooth) > ratio("(corrections: [])") + 6.0);
    assert!(!prepared(&outlier_net(true), smooth).rewritten);
}

#[test]
fn constants_that_others_read_stay() {
    let mut float = uneven_net("Relu");
    // The pointwise weights serve a second convolution.
    let (dw, wp) = (float.find_value("dw").unwrap(), float.find_value("wp").unwrap());
    let mut second = float.nodes.last().unwrap().clone();
    second.name = "second".to_owned();
    second.inputs = vec![Some(dw), Some(wp)];
    let ty = float.ty(float.outputs[0]).clone();
    second.outputs = vec![float.add_value("z", ty)];
    float.outputs.push(second.outputs[0]);
    float.nodes.push(second);
    let after = prepared(&float, EQUALIZE);
    assert_eq!(after.graph.constant(wp), float.constant(wp));
    assert!(difference(&float, &after.graph) < 1e-5);
}
