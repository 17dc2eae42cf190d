//! Nodes in f16 and bf16: where the casts stand, and that the network computes what 16-bit storage means.

use ottava_graph::Graph;
use ottava_hal::{Attr, DataType, Tensor};

use super::testing::*;
use super::*;
use crate::recipe::Recipe;

/// Two convolutions with a pool, and a dense layer.
fn network() -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 3, 8, 8]);
    let c1 = net.conv("c1", x, (3, 8));
    let r1 = net.node("Relu", "r1", &[c1], &[]);
    let c2 = net.conv("c2", r1, (8, 8));
    let pool = net.node("MaxPool", "pool", &[c2], &[("kernel_shape", Attr::Ints(vec![8, 8]))]);
    let flat = net.node("Flatten", "flat", &[pool], &[]);
    let (w, b) = (net.noisy("fc.w", &[8, 4]), net.noisy("fc.b", &[4]));
    let y = net.node("Gemm", "fc", &[flat, w, b], &[]);
    net.finish(&[y])
}

fn count(graph: &Graph, op: &str) -> usize {
    graph.nodes.iter().filter(|n| n.op == op).count()
}

fn dtype_of(graph: &Graph, name: &str) -> DataType {
    graph.ty(graph.find_value(name).unwrap_or_else(|| panic!("no value {name}"))).dtype
}

#[test]
fn a_whole_network_in_half_precision_has_casts_at_its_ends_alone() {
    let float = network();
    for (name, dtype, floor) in [("F16", DataType::F16, 55.0), ("Bf16", DataType::BF16, 38.0)] {
        let recipe = format!("(activations: (dtype: {name}))");
        let q = quantized(&float, &recipe);
        assert_eq!((count(&q.graph, "Cast"), count(&q.graph, "QuantizeLinear")), (2, 0), "{name}");
        assert_eq!(q.report.quantized, Vec::<String>::new());
        assert!(
            q.report.float.iter().all(|f| f.reason.contains("the recipe has it compute in")),
            "{:?}",
            q.report.float
        );
        for value in ["x", "fc"] {
            assert_eq!(dtype_of(&q.graph, value), DataType::F32, "inputs and outputs keep their types");
            assert_eq!(dtype_of(&q.graph, &format!("{value}/{dtype}")), dtype);
        }
        assert_eq!(inputs_of(&q.graph, producer(&q.graph, &format!("c2/{dtype}")))[0], format!("r1/{dtype}"));
        assert_eq!(dtype_of(&q.graph, &format!("c2.w/{dtype}")), dtype);
        assert!(q.graph.opsets[""] >= if dtype == DataType::BF16 { 22 } else { 13 });
        let found = sqnr(&float, &q.graph);
        assert!(found > floor && found < 100.0, "{name}: {found}");
        // No data is needed for any of it.
        let dynamic = quantize_dynamic(&float, &Recipe::parse(&format!("(corrections: [], {}", &recipe[1..])).unwrap());
        assert_eq!(dynamic.unwrap().graph, quantized(&float, &format!("(corrections: [], {}", &recipe[1..])).graph);
    }
}

#[test]
fn one_node_in_half_precision_stands_between_integers() {
    let float = network();
    let q = quantized(&float, "(nodes: [(name: \"c2\", activations: (dtype: F16))])");
    assert_eq!(q.report.quantized, ["c1", "r1", "pool", "flat", "fc"]);
    assert_eq!(count(&q.graph, "Cast"), 2);
    // The convolution before it hands its sum on in float, as to any float reader; what comes back is f32 again.
    let c2 = producer(&q.graph, "c2/f16");
    assert_eq!(inputs_of(&q.graph, c2), ["r1/f16", "c2.w/f16", "c2.b/f16"]);
    assert_eq!(inputs_of(&q.graph, producer(&q.graph, "r1/f16")), ["r1"]);
    assert_eq!(producer(&q.graph, "r1").op, "Relu");
    assert_eq!(inputs_of(&q.graph, producer(&q.graph, "c2")), ["c2/f16"]);
    assert!(sqnr(&float, &q.graph) > 30.0, "{}", sqnr(&float, &q.graph));
}

#[test]
fn what_sixteen_bits_hold_passes_unchanged() {
    // Small integers: products and sums are exact in f16, so the network gives the very floats of f32.
    let mut net = Net::new();
    let x = net.input("x", &[1, 4]);
    let w: Vec<f32> = (0..12).map(|i| (i % 5) as f32 - 2.0).collect();
    let w = net.constant("w", &[4, 3], &w);
    let m = net.node("MatMul", "m", &[x, w], &[]);
    let y = net.node("Relu", "y", &[m], &[]);
    let float = net.finish(&[y]);
    let q = quantize_dynamic(&float, &Recipe::parse("(activations: (dtype: F16))").unwrap()).unwrap();
    let sample = Tensor::from_slice(&[1, 4], &[3.0f32, -7.0, 100.0, 2.0]).unwrap();
    let [a, b] = [&float, &q.graph].map(|g| run(g, &sample)[g.outputs[0].0].clone().unwrap());
    assert_eq!(a, b);
}

#[test]
fn integers_alone_and_operators_without_the_type_are_named() {
    let float = network();
    let calibration = calibrate(&float, &samples(&[1, 3, 8, 8], 1));
    let recipe = Recipe::parse("(integer_only: true, nodes: [(name: \"c2\", activations: (dtype: Bf16))])").unwrap();
    let error = quantize(&float, &calibration, &recipe).unwrap_err().to_string();
    assert!(error.contains("`c2` (Conv)") && error.contains("bf16"), "{error}");
    let mut net = Net::new();
    let x = net.input("x", &[1, 4]);
    let y = net.node("CumSum", "y", &[x], &[]);
    let axis = net.graph.add_const("axis", Tensor::from_slice(&[1], &[1i64]).unwrap());
    net.graph.nodes[0].inputs.push(Some(axis));
    let float = net.finish(&[y]);
    let q = quantize_dynamic(&float, &Recipe::parse("(activations: (dtype: F16))").unwrap()).unwrap();
    assert_eq!(q.report.float[0].reason, "CumSum does not compute in f16");
    assert_eq!(count(&q.graph, "Cast"), 0);
}
