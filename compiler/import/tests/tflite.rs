//! TFLite files become graphs of typed values: order of axes, quantization, modes, and refusals that name what is wrong.
mod flat;

use flat::*;
use ottava_graph::Graph;
use ottava_hal::{DataType, Node, RequantMode, Scheme, Tensor};
use ottava_import::{TfliteOptions, import_tflite_bytes, is_tflite};

fn node<'g>(graph: &'g Graph, op: &str) -> &'g Node {
    graph.nodes.iter().find(|n| n.op == op).unwrap_or_else(|| panic!("no {op}"))
}

#[test]
fn layers_stand_in_the_graphs_order_without_transposes_between_them() {
    let (graph, notes) = import(&network()).expect("imports");
    let ops: Vec<&str> = graph.nodes.iter().map(|n| n.op.as_str()).collect();
    assert_eq!(ops, ["Transpose", "Conv", "Conv", "Add", "AveragePool", "Reshape", "Gemm", "Softmax"]);
    assert!(notes.is_empty(), "{notes:?}");
    let (x, y) = (graph.ty(graph.inputs[0]), graph.ty(graph.outputs[0]));
    assert_eq!((x.to_string().as_str(), y.to_string().as_str()), ("s8[1,8,8,2]", "s8[1,3]"));
    assert_eq!((graph.name_of(graph.inputs[0]), graph.name_of(graph.outputs[0])), ("image", "answer"));
}

#[test]
fn weights_scales_and_modes_move_with_their_axes() {
    let (graph, _) = import(&network()).expect("imports");
    let convs: Vec<&Node> = graph.nodes.iter().filter(|n| n.op == "Conv").collect();
    let weight = |n: &Node| n.input(1).map(|id| graph.value(id).clone()).expect("weights");
    let (dense, deep) = (weight(convs[0]), weight(convs[1]));
    assert_eq!((dense.ty.to_string().as_str(), deep.ty.to_string().as_str()), ("s8[4,2,3,3]", "s8[4,1,3,3]"));
    for w in [&dense, &deep] {
        assert_eq!(w.ty.quant.as_ref().map(|q| q.scheme), Some(Scheme::PerAxis { axis: 0 }));
    }
    // File order [o, h, w, i]: element 1 is channel 1 of the first tap.
    let ints = dense.constant.expect("data").to_ints().expect("integers");
    assert_eq!((ints[0], ints[9], ints[1]), (0, 37, 74));
    assert_eq!(convs[0].requant, Some(RequantMode::Q31Double));
    assert_eq!(convs[0].fused.clamp, None, "RELU at zero point -128 is the storage's own bound");
    assert_eq!(convs[1].attrs.int("group", 1), Ok(4));
    // LiteRT's FULLY_CONNECTED rounds once.
    assert_eq!(node(&graph, "Gemm").requant, Some(RequantMode::Q31Single));
    assert_eq!(node(&graph, "Softmax").requant, Some(RequantMode::Q31Double));
}

#[test]
fn the_mode_is_an_option() {
    let options = TfliteOptions { requant: RequantMode::Fp32Rne };
    let (graph, _) = import_tflite_bytes(&network().bytes(), "test", &options).expect("imports");
    assert_eq!(node(&graph, "Conv").requant, Some(RequantMode::Fp32Rne));
    assert_eq!(node(&graph, "Gemm").requant, Some(RequantMode::Fp32Rne));
    assert_eq!(node(&graph, "Add").requant, None, "the QDQ form");
}

#[test]
fn fused_activations_are_clamps_of_integers_and_nodes_of_reals() {
    let mut m = Model::new();
    let (a, b) = (m.s8("a", &[1, 4], 0.5, 0), m.s8("b", &[1, 4], 0.5, 0));
    let y = m.s8("y", &[1, 4], 0.05, -10);
    m.op(0, &[a, b], &[y], Some(Table::default().with(0, i8(3))));
    let (p, q, z) =
        (m.tensor("p", FLOAT32, &[4], None), m.tensor("q", FLOAT32, &[4], None), m.tensor("z", FLOAT32, &[4], None));
    m.op(18, &[p, q], &[z], Some(Table::default().with(0, i8(2))));
    (m.inputs, m.outputs) = (vec![a, b, p, q], vec![y, z]);
    let (graph, _) = import(&m).expect("imports");
    assert_eq!(node(&graph, "Add").fused.clamp, Some((-10, 110)));
    assert_eq!(node(&graph, "Clip").inputs.len(), 3);
}

#[test]
fn a_concatenation_of_other_parameters_gets_a_requantization_and_a_note() {
    let mut m = Model::new();
    let (a, b, y) = (m.s8("a", &[1, 2], 0.5, 0), m.s8("b", &[1, 2], 0.25, 3), m.s8("y", &[1, 4], 0.5, 0));
    m.op(2, &[a, b], &[y], Some(Table::default().with(0, i32(-1))));
    (m.inputs, m.outputs) = (vec![a, b], vec![y]);
    let (graph, notes) = import(&m).expect("imports");
    assert_eq!(node(&graph, "Requantize").requant, Some(RequantMode::Q31Double));
    assert_eq!((notes.len(), notes[0].code), (1, "Q0405"));
    assert!(
        notes[0].message.contains("input `b` has scale 0.25 and zero point 3, the output 0.5 and 0"),
        "{}",
        notes[0]
    );
}

#[test]
fn a_bias_at_another_scale_is_brought_to_the_accumulators() {
    let mut m = Model::new();
    let x = m.s8("x", &[1, 2], 0.5, 0);
    let w = m.tensor("w", INT8, &[1, 2], Some((&[0.5], 0, 0)));
    m.data(w, &[1, 2]);
    let b = m.tensor("b", INT32, &[1], Some((&[1.0], 0, 0)));
    m.data(b, &7i32.to_le_bytes());
    let y = m.s8("y", &[1, 1], 1.0, 0);
    m.op(9, &[x, w, b], &[y], Some(Table::default()));
    (m.inputs, m.outputs) = (vec![x], vec![y]);
    let (graph, notes) = import(&m).expect("imports");
    let bias = node(&graph, "Gemm").input(2).and_then(|id| graph.constant(id)).expect("a bias");
    assert_eq!(bias, &Tensor::from_slice(&[1], &[28i32]).expect("a tensor"));
    assert_eq!(notes.iter().map(|n| n.code).collect::<Vec<_>>(), ["Q0403"]);
}

#[test]
fn half_precision_weights_are_folded() {
    let mut m = Model::new();
    let x = m.tensor("x", FLOAT32, &[1, 2], None);
    let half = m.tensor("half", 1, &[1, 2], None);
    m.data(half, &[0x00, 0x3c, 0x00, 0xc0]);
    let (w, y) = (m.tensor("w", FLOAT32, &[1, 2], None), m.tensor("y", FLOAT32, &[1, 1], None));
    m.op(6, &[half], &[w], None);
    m.op(9, &[x, w, -1], &[y], Some(Table::default()));
    (m.inputs, m.outputs) = (vec![x], vec![y]);
    let (graph, _) = import(&m).expect("imports");
    let weight = node(&graph, "Gemm").input(1).and_then(|id| graph.constant(id)).expect("weights");
    assert_eq!((weight.dtype(), weight.to_f32s().expect("floats")), (DataType::F32, vec![1.0, -2.0]));
}

/// A model of one operator over int8 tensors `x` and `y`.
fn single(code: i32, options: Option<Table>) -> Model {
    let mut m = Model::new();
    let (x, y) = (m.s8("x", &[1, 4], 0.5, 0), m.s8("y", &[1, 4], 0.5, 0));
    m.op(code, &[x], &[y], options);
    (m.inputs, m.outputs) = (vec![x], vec![y]);
    m
}

#[test]
fn refusals_name_operator_tensor_and_what_is_accepted() {
    let unknown = refusal(&single(16, None));
    assert!(unknown.contains("`y`: LSTM (version 1): the operator is not supported; supported are ADD"), "{unknown}");
    let future = refusal(&single(4711, None));
    assert!(future.contains("operator 4711 (version 1): number 4711 is no built-in operator"), "{future}");
    let mut custom = single(32, None);
    custom.codes[0].0.push((1, text("MyOp")));
    let custom = refusal(&custom);
    assert!(custom.contains("custom operator `MyOp` (version 1): custom operators are not supported"), "{custom}");
    let missing = refusal(&single(0, None));
    assert!(missing.contains("ADD (version 1): input 1 is missing"), "{missing}");
    let beta = refusal(&single(25, Some(Table::default().with(0, f32(2.0)))));
    assert!(beta.contains("SOFTMAX (version 1): beta is 2; on integers 1 is supported"), "{beta}");
    let mut model = network();
    model.operators[0].0[1].1 = i32s(&[99, 1, 2]);
    assert!(refusal(&model).contains("CONV_2D (version 1): tensor 99 does not exist"), "{}", refusal(&model));
}

#[test]
fn scales_along_a_wrong_axis_and_bad_parameters_are_refused() {
    let mut wrong_axis = network();
    let w = &mut wrong_axis.tensors[1].0;
    w.retain(|(n, _)| *n != 4);
    let q = Table::default().with(2, f32s(&[0.1, 0.2])).with(3, i64s(&[0, 0])).with(6, i32(3));
    w.push((4, Field::Table(q)));
    assert!(refusal(&wrong_axis).contains("the scales of `w` lie along axis 3; axis 0 is supported"));
    let mut zero_scale = single(19, None);
    zero_scale.tensors[0].0.retain(|(n, _)| *n != 4);
    zero_scale.tensors[0].0.push((4, Field::Table(Table::default().with(2, f32s(&[0.0])))));
    assert!(refusal(&zero_scale).contains("tensor `x`: scale 0 is 0; scales must be finite and greater than 0"));
}

#[test]
fn what_is_no_tflite_file_is_said_so() {
    assert!(is_tflite(&network().bytes()) && !is_tflite(b"ONNX file") && !is_tflite(b"TFL3"));
    let message = |bytes: &[u8]| {
        import_tflite_bytes(bytes, "m.tflite", &TfliteOptions::default()).expect_err("refused").to_string()
    };
    assert!(message(b"").contains("m.tflite: byte 4, in the root: the identifier TFL3 is missing"));
    assert!(message(b"\x08\0\0\0TFL3").contains("the file is damaged or is not a TFLite model"));
}
