//! Where Q/DQ nodes go, what stays in float and why, and that the result still computes the network.

use ottava_graph::Graph;
use ottava_hal::{Attr, Tensor};

use super::testing::*;
use super::*;
use crate::error::Error;
use crate::recipe::Recipe;

/// Two convolutions, a residual sum, ReLUs, a pool and a dense layer with Softmax.
fn residual_net() -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 3, 8, 8]);
    let c1 = net.conv("c1", x, (3, 8));
    let r1 = net.node("Relu", "r1", &[c1], &[]);
    let c2 = net.conv("c2", r1, (8, 8));
    let sum = net.node("Add", "sum", &[c2, r1], &[]);
    let r2 = net.node("Relu", "r2", &[sum], &[]);
    let pool = net.node("GlobalAveragePool", "pool", &[r2], &[]);
    let flat = net.node("Flatten", "flat", &[pool], &[]);
    let (w, b) = (net.noisy("fc.w", &[8, 4]), net.noisy("fc.b", &[4]));
    let fc = net.node("Gemm", "fc", &[flat, w, b], &[]);
    let y = net.node("Softmax", "y", &[fc], &[]);
    net.finish(&[y])
}

fn float_names(report: &Report) -> Vec<&str> {
    report.float.iter().map(|f| f.name.as_str()).collect()
}

#[test]
fn a_residual_network_is_quantized_throughout() {
    let float = residual_net();
    let q = quantized(&float, "()");
    assert_eq!(float_names(&q.report), Vec::<&str>::new());
    assert!(sqnr(&float, &q.graph) > 25.0, "{}", sqnr(&float, &q.graph));
    // No Q between Conv, Add and Relu of the residual block, nor between the first Conv and its Relu.
    for inner in ["c1", "c2", "sum"] {
        assert!(!q.report.values.contains_key(inner), "{inner}");
        assert!(q.graph.find_value(&format!("{inner}/q")).is_none());
    }
    for quantized in ["x", "r1", "r2", "pool", "flat", "fc", "y"] {
        assert!(q.report.values.contains_key(quantized), "{quantized}");
    }
    assert_eq!(producer(&q.graph, "r1").op, "DequantizeLinear");
    assert_eq!(inputs_of(&q.graph, producer(&q.graph, "sum")), ["c2", "r1"]);
    assert_eq!(inputs_of(&q.graph, producer(&q.graph, "c1")), ["x/dq", "c1.w/dq", "c1.b/dq"]);
}

#[test]
fn interface_names_and_softmax_scale_are_kept() {
    let q = quantized(&residual_net(), "()");
    assert_eq!(q.graph.name_of(q.graph.outputs[0]), "y");
    assert_eq!(q.graph.name_of(q.graph.inputs[0]), "x");
    let y = q.report.values["y"];
    assert_eq!((y.scale, y.zero_point), (1.0 / 256.0, 0));
    assert_eq!(producer(&q.graph, "y").op, "DequantizeLinear");
}

#[test]
fn movers_share_parameters_and_relu_takes_its_range_behind_itself() {
    let q = quantized(&residual_net(), "()");
    assert_eq!(q.report.values["pool"], q.report.values["flat"]);
    assert_eq!(q.report.values["r1"].zero_point, 0);
    assert!(q.report.values["r1"].range.0 >= 0.0);
}

#[test]
fn weights_are_per_channel_s8_and_biases_s32_at_the_product_of_scales() {
    let q = quantized(&residual_net(), "(corrections: [])");
    let constant = |name: &str| -> &Tensor { q.graph.constant(q.graph.find_value(name).unwrap()).unwrap() };
    let codes = constant("c1.w/q").to_ints().unwrap();
    assert_eq!(codes.iter().map(|c| c.abs()).max(), Some(127));
    let scales = constant("c1.w/scale").to_f32s().unwrap();
    assert_eq!(scales.len(), 8);
    let x = q.report.values["x"].scale;
    let float = residual_net();
    let bias = float.constant(float.find_value("c1.b").unwrap()).unwrap().to_f32s().unwrap();
    let expect: Vec<i64> = bias
        .iter()
        .zip(&scales)
        .map(|(b, s)| (f64::from(*b) / (f64::from(x) * f64::from(*s))).round_ties_even() as i64)
        .collect();
    assert_eq!(constant("c1.b/q").to_ints().unwrap(), expect);
    assert_eq!(constant("c1.b/scale").to_f32s().unwrap()[0], x * scales[0]);
    assert_eq!(producer(&q.graph, "c1.w/dq").attrs.int("axis", 1), Ok(0));
    assert_eq!(producer(&q.graph, "fc.w/dq").attrs.int("axis", 0), Ok(1));
}

#[test]
fn bias_correction_removes_the_mean_error() {
    let float = residual_net();
    let mean_error = |recipe: &str| {
        let q = quantized(&float, recipe);
        let mut total = [0.0f64; 8];
        for sample in samples(&[1, 3, 8, 8], 8) {
            let [a, b] = [&float, &q.graph].map(|g| run(g, &sample)[g.find_value("c1").unwrap().0].clone().unwrap());
            for (i, (a, b)) in a.to_f32s().unwrap().iter().zip(b.to_f32s().unwrap()).enumerate() {
                total[i / 64] += f64::from(b - a);
            }
        }
        total.iter().map(|t| t.abs()).sum::<f64>()
    };
    // Coarse weights make the effect visible. The samples are those of the calibration, so their means are known exactly
    // up to what the padding hides.
    let (with, without) = (mean_error("(weights: (dtype: S4))"), mean_error("(weights: (dtype: S4), corrections: [])"));
    assert!(with <= without, "{with} {without}");
}

#[test]
fn the_recipe_keeps_nodes_in_float_and_changes_types() {
    let q = quantized(&residual_net(), "(nodes: [(name: \"c2\", activations: Float)])");
    assert_eq!(float_names(&q.report), ["c2", "sum", "r2", "pool"]);
    assert_eq!(q.report.float[0].reason, "the recipe keeps it in float");
    assert!(q.graph.find_value("c2.w/q").is_none());
    let q = quantized(&residual_net(), "(activations: (dtype: S16), weights: (granularity: PerTensor))");
    assert_eq!(q.report.values["r1"].dtype, ottava_hal::DataType::S16);
    assert!(q.graph.opsets[""] >= 21);
    assert!(sqnr(&residual_net(), &q.graph) > 30.0);
    let q = quantized(&residual_net(), "(activations: (symmetric: true, dtype: S8))");
    assert!(q.report.values.iter().all(|(name, v)| v.zero_point == 0 || name == "y"), "{:?}", q.report.values);
}

#[test]
fn both_branches_of_a_downsampling_block_meet_with_one_quantization() {
    let mut net = Net::new();
    let x = net.input("x", &[1, 3, 8, 8]);
    let (a, b) = (net.conv("a", x, (3, 4)), net.conv("b", x, (3, 4)));
    let y = net.node("Add", "y", &[a, b], &[]);
    let float = net.finish(&[y]);
    let q = quantized(&float, "()");
    assert!(q.report.values.contains_key("a") && !q.report.values.contains_key("b"), "{:?}", q.report.values.keys());
    assert!(sqnr(&float, &q.graph) > 30.0);
}

#[test]
fn a_concatenation_of_like_ranges_shares_them_and_of_unlike_ones_stays_apart() {
    let build = |factor: f32| {
        let mut net = Net::new();
        let x = net.input("x", &[1, 3, 8, 8]);
        let a = net.conv("a", x, (3, 4));
        let w: Vec<f32> = net.noise(4 * 27).iter().map(|v| v * factor).collect();
        let w = net.constant("b.w", &[4, 3, 3, 3], &w);
        let b = net.node("Conv", "b", &[x, w], &[("pads", Attr::Ints(vec![1; 4]))]);
        let y = net.node("Concat", "y", &[a, b], &[("axis", Attr::Int(1))]);
        net.finish(&[y])
    };
    let q = quantized(&build(2.0), "()");
    assert_eq!(q.report.values["a"], q.report.values["b"]);
    assert_eq!(q.report.values["a"], q.report.values["y"]);
    let q = quantized(&build(400.0), "()");
    assert_ne!(q.report.values["a"].scale, q.report.values["b"].scale);
    assert_eq!(float_names(&q.report), ["y"]);
    assert!(q.report.float[0].reason.contains("erase the smaller"), "{}", q.report.float[0].reason);
}

/// Dense layers with a float function between them, as in a transformer's feed-forward block.
fn transformer_block() -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 5, 16]);
    let (w1, b1) = (net.noisy("w1", &[16, 32]), net.noisy("b1", &[32]));
    let m1 = net.node("MatMul", "m1", &[x, w1], &[]);
    let a1 = net.node("Add", "a1", &[b1, m1], &[]);
    let t = net.node("Tanh", "t", &[a1], &[]);
    let w2 = net.noisy("w2", &[32, 16]);
    let m2 = net.node("MatMul", "m2", &[t, w2], &[]);
    let y = net.node("Add", "y", &[m2, x], &[]);
    net.finish(&[y])
}

#[test]
fn behind_matrix_products_only_the_products_are_quantized() {
    let float = transformer_block();
    let q = quantized(&float, "()");
    assert_eq!(q.report.quantized, ["m1", "a1", "m2"]);
    assert_eq!(float_names(&q.report), ["t", "y"]);
    // The product hands its sum on in float; its bias lies in the accumulator.
    assert_eq!(q.report.values.keys().collect::<Vec<_>>(), ["t", "x"]);
    assert_eq!(inputs_of(&q.graph, producer(&q.graph, "a1")), ["b1/dq", "m1"]);
    assert_eq!(inputs_of(&q.graph, producer(&q.graph, "y")), ["m2", "x"]);
    assert!(sqnr(&float, &q.graph) > 30.0, "{}", sqnr(&float, &q.graph));
}

#[test]
fn dynamic_quantization_needs_no_data_and_keeps_samples_apart() {
    let float = transformer_block();
    let q = quantize_dynamic(&float, &Recipe::default()).unwrap();
    ottava_graph::verify(&q.graph).unwrap();
    assert_eq!(q.report.quantized, ["m1", "a1", "m2"]);
    assert_eq!(q.graph.nodes.iter().filter(|n| n.full_op() == "ottava::DynamicMatMul").count(), 2);
    assert!(sqnr(&float, &q.graph) > 35.0, "{}", sqnr(&float, &q.graph));
    let zeros = Tensor::zeros(ottava_hal::DataType::F32, &[1, 5, 16]).unwrap();
    let y = run(&q.graph, &zeros)[q.graph.outputs[0].0].clone().unwrap().to_f32s().unwrap();
    assert!(y.iter().all(|v| v.is_finite()));
}

#[test]
fn a_calibration_of_another_model_and_missing_tensors_are_named() {
    let float = residual_net();
    let error = quantize(&float, &Calibration::new(1), &Recipe::default()).unwrap_err();
    assert!(matches!(error, Error::OtherModel { found: 1, .. }));
    let error = quantize(&float, &Calibration::new(fingerprint(&float)), &Recipe::default()).unwrap_err();
    assert!(error.to_string().contains("`x` has no usable calibration data"), "{error}");
}

#[test]
fn what_is_not_carried_out_is_refused() {
    let float = residual_net();
    let calibration = calibrate(&float, &samples(&[1, 3, 8, 8], 1));
    for (recipe, expected) in [
        ("(max_float_macs: 0.1, nodes: [(name: \"c2\", activations: Float)])", "max_float_macs"),
        ("(integer_only: true, nodes: [(name: \"c2\", activations: Float)])", "`c2` (Conv)"),
    ] {
        let error = quantize(&float, &calibration, &Recipe::parse(recipe).unwrap()).unwrap_err();
        assert!(error.to_string().contains(expected), "{recipe}: {error}");
    }
}

#[test]
fn quantizing_twice_gives_the_same_graph() {
    let float = residual_net();
    assert_eq!(quantized(&float, "()").graph, quantized(&float, "()").graph);
}

#[test]
fn the_fingerprint_sees_weights_and_operators_but_not_shapes_of_computed_values() {
    let float = residual_net();
    let mut other = float.clone();
    let c1 = other.find_value("c1").unwrap();
    other.values[c1.0].ty.shape = ottava_hal::Shape::fixed(&[9, 9]);
    assert_eq!(fingerprint(&float), fingerprint(&other));
    let w = other.find_value("c1.w").unwrap();
    other.values[w.0].constant = Some(Tensor::from_slice(&[8, 3, 3, 3], &[0.5f32; 216]).unwrap());
    assert_ne!(fingerprint(&float), fingerprint(&other));
    let mut renamed = float.clone();
    renamed.nodes[0].attrs.set("group", Attr::Int(1));
    assert_ne!(fingerprint(&float), fingerprint(&renamed));
}

#[test]
fn several_activations_behind_a_convolution() {
    for (first, second, inner) in
        [("Relu", "Clip", &["c", "a"][..]), ("HardSwish", "Relu", &["c"][..0]), ("LeakyRelu", "Clip", &["c"][..0])]
    {
        let mut net = Net::new();
        let x = net.input("x", &[1, 3, 8, 8]);
        let c = net.conv("c", x, (3, 4));
        let a = net.node(first, "a", &[c], &[]);
        let bounds = [net.constant("lo", &[], &[-1.0]), net.constant("hi", &[], &[2.0])];
        let inputs = if second == "Clip" { vec![a, bounds[0], bounds[1]] } else { vec![a] };
        let y = net.node(second, "y", &inputs, &[]);
        let float = net.finish(&[y]);
        let q = quantized(&float, "()");
        assert!(sqnr(&float, &q.graph) > 20.0, "{first}, {second}: {}", sqnr(&float, &q.graph));
        for value in inner {
            assert!(!q.report.values.contains_key(*value), "{first}, {second}: {value} is inside a fused chain");
        }
    }
}

#[test]
fn a_recipe_may_keep_the_activation_in_float() {
    let mut net = Net::new();
    let x = net.input("x", &[1, 3, 8, 8]);
    let c = net.conv("c", x, (3, 4));
    let y = net.node("Relu", "y", &[c], &[]);
    let float = net.finish(&[y]);
    let relu = producer(&float, "y").name.clone();
    let q = quantized(&float, &format!("(nodes: [(name: \"{relu}\", activations: Float)])"));
    assert_eq!(q.report.values.keys().collect::<Vec<_>>(), ["x"], "the convolution hands its sum on in float");
    assert_eq!(float_names(&q.report), ["y"]);
}

#[test]
fn what_fuses_is_not_observed_and_what_moves_is_observed_once() {
    let mut net = Net::new();
    let x = net.input("x", &[1, 3, 4, 4]);
    let c = net.conv("c", x, (3, 4));
    let r = net.node("Relu", "r", &[c], &[]);
    let f = net.node("Flatten", "f", &[r], &[]);
    let w = net.noisy("w", &[64, 5]);
    let y = net.node("MatMul", "y", &[f, w], &[]);
    let float = net.finish(&[y]);
    let seen = |recipe: &str| {
        let list = observations(&float, &Recipe::parse(recipe).unwrap());
        let of = |o: &Observation| (o.name.clone(), o.same_as.map(|i| list[i].name.clone()));
        list.iter().map(of).collect::<Vec<_>>()
    };
    let own = |name: &str| (name.to_owned(), None);
    let moved = ("f".to_owned(), Some("r".to_owned()));
    assert_eq!(seen("()"), [own("x"), own("r"), moved.clone(), own("y")]);
    for kept in ["c", "r"] {
        let recipe = format!("(nodes: [(name: \"{kept}\", activations: Float)])");
        assert_eq!(seen(&recipe), [own("x"), own("c"), own("r"), moved.clone(), own("y")]);
        quantized(&float, &recipe);
    }
}
