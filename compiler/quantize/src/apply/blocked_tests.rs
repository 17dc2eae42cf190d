//! Weights in blocks: what is stored, what stays in float, and that the network still computes the same.

use ottava_graph::Graph;
use ottava_hal::{Attr, DataType, Tensor};

use super::testing::*;
use super::*;
use crate::recipe::Recipe;

/// A convolution of 3 channels, one of 8, and a dense layer of 32 by 5.
fn network() -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 3, 8, 8]);
    let c1 = net.conv("c1", x, (3, 8));
    let c2 = net.conv("c2", c1, (8, 32));
    let pool = net.node("GlobalAveragePool", "pool", &[c2], &[]);
    let flat = net.node("Flatten", "flat", &[pool], &[]);
    let (w, b) = (net.noisy("fc.w", &[32, 5]), net.noisy("fc.b", &[5]));
    let y = net.node("Gemm", "fc", &[flat, w, b], &[]);
    net.finish(&[y])
}

/// Two products, the second with its weights transposed.
fn products() -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 5, 24]);
    let w1 = net.noisy("w1", &[24, 16]);
    let m1 = net.node("MatMul", "m1", &[x, w1], &[]);
    let t = net.node("Tanh", "t", &[m1], &[]);
    let shape = net.graph.add_const("rows", Tensor::from_slice(&[2], &[5i64, 16]).unwrap());
    let rows = net.node("Reshape", "r", &[t, shape], &[]);
    let w2 = net.noisy("w2", &[7, 16]);
    let y = net.node("Gemm", "y", &[rows, w2], &[("transB", Attr::Int(1))]);
    net.finish(&[y])
}

fn shape_of<'a>(graph: &'a Graph, name: &str) -> &'a [usize] {
    let id = graph.find_value(name).unwrap_or_else(|| panic!("no value {name}"));
    graph.constant(id).unwrap().shape()
}

#[test]
fn a_dense_layer_takes_blocks_and_a_convolution_with_few_channels_keeps_its_own_scales() {
    let float = network();
    let q = quantized(&float, "(weights: (dtype: S4, granularity: Blocked(8)), corrections: [])");
    let reasons: Vec<(&str, bool)> =
        q.report.float.iter().map(|f| (f.name.as_str(), f.reason.contains("a scale for every 8"))).collect();
    assert_eq!(reasons, [("c2", true), ("pool", false), ("flat", false), ("fc", true)]);
    assert_eq!(q.report.quantized, ["c1"]);
    let notes: Vec<&str> = q.diagnostics.iter().filter(|d| d.code == "Q0108").map(|d| d.node.as_str()).collect();
    assert_eq!(notes, ["c1"]);
    for (name, scales, axis) in [("c2.w", &[32, 1, 3, 3][..], 1), ("fc.w", &[4, 5], 0)] {
        let node = producer(&q.graph, &format!("{name}/dq"));
        let attrs = (node.attrs.int("axis", 9), node.attrs.int("block_size", 0), node.inputs.len());
        assert_eq!(attrs, (Ok(axis), Ok(8), 2), "{name}");
        assert_eq!(shape_of(&q.graph, &format!("{name}/scale")), scales);
    }
    assert!(q.graph.opsets[""] >= 21);
    assert!(sqnr(&float, &q.graph) > 15.0, "{}", sqnr(&float, &q.graph));
}

#[test]
fn every_storage_of_weights_comes_in_blocks() {
    let float = products();
    for (dtype, zero, floor) in [
        ("S8", "Auto", 40.0),
        ("U8", "Middle", 40.0),
        ("S4", "Auto", 17.0),
        ("U4", "Auto", 17.0),
        ("S4", "Free", 17.0),
        ("U4", "Free", 17.0),
    ] {
        let recipe = format!("(weights: (dtype: {dtype}, granularity: Blocked(8), zero_point: {zero}))");
        let q = quantized(&float, &recipe);
        assert_eq!(shape_of(&q.graph, "w1/scale"), [3, 16], "{recipe}");
        assert_eq!(shape_of(&q.graph, "w2/scale"), [7, 2], "{recipe}");
        assert_eq!(q.report.values.len(), 0, "{recipe}: activations stay float");
        assert!(sqnr(&float, &q.graph) > floor, "{recipe}: {}", sqnr(&float, &q.graph));
        // The same without data: nothing that a calibration knows goes into blocks.
        let dynamic = quantize_dynamic(&float, &Recipe::parse(&recipe).unwrap()).unwrap();
        assert_eq!(dynamic.graph, q.graph, "{recipe}");
    }
}

#[test]
fn smaller_blocks_lose_less_than_a_scale_per_channel() {
    let float = products();
    let loss = |granularity: &str| {
        let recipe = format!("(weights: (dtype: S4, granularity: {granularity}))");
        sqnr(&float, &quantized(&float, &recipe).graph)
    };
    let (channels, sixteen, four) = (loss("PerChannel"), loss("Blocked(16)"), loss("Blocked(4)"));
    assert!(channels < four && sixteen < four, "{channels} {sixteen} {four}");
}

#[test]
fn one_node_may_take_blocks_and_integers_alone_refuse_them() {
    let float = products();
    let rule = "nodes: [(name: \"m1\", weights: (dtype: U4, granularity: Blocked(12)))]";
    let q = quantized(&float, &format!("({rule})"));
    assert_eq!(q.graph.constant(q.graph.find_value("w1/q").unwrap()).unwrap().dtype(), DataType::U4);
    assert_eq!(shape_of(&q.graph, "w1/scale"), [2, 16]);
    assert_eq!(q.report.quantized, ["r", "y"]);
    let calibration = calibrate(&float, &samples(&[1, 5, 24], 2));
    let strict = Recipe::parse(&format!("(integer_only: true, {rule})")).unwrap();
    let error = quantize(&float, &calibration, &strict).unwrap_err().to_string();
    assert!(error.contains("`m1` (MatMul)") && error.contains("a scale for every 12"), "{error}");
    // A node that the recipe keeps in float keeps its weights.
    let q = quantized(&float, "(weights: (granularity: Blocked(8)), nodes: [(name: \"y\", activations: Float)])");
    assert!(q.graph.find_value("w2/q").is_none());
    let error = quantize_dynamic(&float, &Recipe::parse("(weights: (dtype: S4))").unwrap()).unwrap_err().to_string();
    assert!(error.contains("`m1` with s4 weights") && error.contains("Blocked"), "{error}");
}
