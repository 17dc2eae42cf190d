//! Graphs written as ONNX and read again.
mod common;

use common::*;
use ottava_graph::{Attr, Fused, Graph, Node, Phase};
use ottava_hal::{DataType, QuantParams, Tensor, TensorType};
use ottava_import::onnx::decode_model;
use ottava_import::onnx::proto::*;
use ottava_import::{ExportOptions, ImportOptions, export_onnx, import_onnx_bytes};

fn export(graph: &Graph) -> Vec<u8> {
    export_onnx(graph, &ExportOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn decode(bytes: Vec<u8>) -> ModelProto {
    decode_model(bytes.into(), "m.onnx").unwrap_or_else(|e| panic!("{e}"))
}

fn reread(graph: &Graph) -> Graph {
    let imported = import_onnx_bytes(export(graph).into(), "m.onnx", &ImportOptions::default());
    imported.unwrap_or_else(|e| panic!("{e}")).0
}

/// The standard operator set that a model declares.
fn standard_opset(model: &ModelProto) -> i64 {
    model.opset_import.iter().find(|o| o.domain.is_empty()).expect("the standard domain").version
}

#[test]
fn a_graph_comes_back_as_it_was() {
    for model in [qdq_network(), function_network()] {
        let graph = graph(&model);
        let mut back = reread(&graph);
        // Declarations of domains that nothing is left of are not written.
        back.opsets.clone_from(&graph.opsets);
        assert_eq!(back, graph);
    }
}

#[test]
fn states_come_back_and_are_explicit_for_others() {
    let mut stateful = graph(&qdq_network());
    let ty = TensorType::fixed(DataType::F32, &[1, 2]);
    let (s, next) = (stateful.add_value("s", ty.clone()), stateful.add_value("s_next", ty));
    let mut node = Node::new("keep", "Relu", 14);
    (node.inputs, node.outputs) = (vec![Some(s)], vec![next]);
    stateful.nodes.push(node);
    stateful.add_state("memory of the network", s, next, Tensor::from_slice(&[1, 2], &[1.5f32, 2.5]).unwrap());
    let bytes = export(&stateful);
    assert_eq!(reread(&stateful).states, stateful.states);
    let mut model = decode(bytes);
    let inner = model.graph.as_ref().expect("a graph");
    assert!(inner.input.iter().any(|i| i.name == "s") && inner.output.iter().any(|o| o.name == "s_next"));
    for wrong in ["s\tnowhere\ts/initial\tm\n", "s\ts_next\tw\tm\n", "s\n", "s\ty\ts/initial\tm\n"] {
        model.metadata_props[0].value = wrong.into();
        let read = import_onnx_bytes(prost::Message::encode_to_vec(&model).into(), "m.onnx", &ImportOptions::default());
        let (found, notes) = read.unwrap_or_else(|e| panic!("{e}"));
        assert!(found.states.is_empty() && found.inputs.len() == stateful.inputs.len(), "{wrong:?}");
        assert_eq!(
            notes.iter().filter(|n| n.code == "M0105").count(),
            usize::from(wrong.contains("initial") || wrong.contains("w"))
        );
    }
}

#[test]
fn the_bytes_depend_on_the_graph_alone() {
    let graph = graph(&qdq_network());
    assert_eq!(export(&graph), export(&graph.clone()));
}

#[test]
fn names_symbols_and_origin_are_written() {
    let metadata = [("recipe".to_owned(), "Recipe()".to_owned())].into();
    let bytes = export_onnx(&graph(&qdq_network()), &ExportOptions { metadata, ..ExportOptions::default() });
    let model = decode(bytes.unwrap_or_else(|e| panic!("{e}")));
    assert_eq!((model.producer_name.as_str(), model.producer_version.as_str()), ("ottava", env!("CARGO_PKG_VERSION")));
    assert_eq!((model.ir_version, standard_opset(&model)), (8, 13));
    assert_eq!(model.metadata_props[0].value, "Recipe()");
    let inner = model.graph.expect("a graph");
    assert_eq!(inner.input, [info("x", ottava_import::onnx::ElemType::F32, "batch 1 4 4")]);
    let names: Vec<_> = inner.node.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["q_x", "dq_x", "dq_w", "conv", "q_y", "dq_y"]);
}

#[test]
fn the_operator_set_rises_only_where_it_must() {
    assert_eq!(standard_opset(&decode(export(&graph(&old_network())))), 13);

    let mut sixteen_bit = graph(&qdq_network());
    for name in ["xz", "yz"] {
        let id = sixteen_bit.find_value(name).expect("a zero point");
        let zero = Tensor::from_ints(DataType::U16, &[], &[32768]).expect("a scalar");
        sixteen_bit.values[id.0].ty = zero.ty();
        sixteen_bit.values[id.0].constant = Some(zero);
    }
    let model = decode(export(&sixteen_bit));
    assert_eq!((standard_opset(&model), model.ir_version), (21, 10));

    let mut blocked = graph(&qdq_network());
    blocked.nodes[2].attrs.set("block_size", Attr::Int(1));
    assert_eq!(standard_opset(&decode(export(&blocked))), 21);

    let reduce = with(with(node("ReduceMean", "x", "y"), ints("axes", &[0])), int("keepdims", 0));
    assert_eq!(standard_opset(&decode(export(&graph(&simple(9, vec![reduce]))))), 18);
    assert_eq!(standard_opset(&decode(export(&graph(&simple(17, vec![node("Relu", "x", "y")]))))), 17);
}

#[test]
fn an_old_softmax_is_written_as_what_it_means() {
    let ops = |axis| {
        let model = simple(11, vec![named("s", with(node("Softmax", "x", "y"), int("axis", axis)))]);
        let inner = decode(export(&graph(&model))).graph.expect("a graph");
        inner.node.into_iter().map(|n| format!("{} {}", n.op_type, n.output[0])).collect::<Vec<_>>()
    };
    // The last axis means the same in all versions.
    assert_eq!(ops(1), ["Softmax y"]);
    assert_eq!(ops(0), ["Shape s/shape", "Flatten s/matrix", "Softmax s/rows", "Reshape y"]);
}

#[test]
fn an_output_that_is_listed_twice_is_copied() {
    let mut graph = graph(&simple(13, vec![node("Relu", "x", "y")]));
    graph.outputs.push(graph.outputs[0]);
    let inner = decode(export(&graph)).graph.expect("a graph");
    assert_eq!(inner.output.iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), ["y", "y_1"]);
    assert_eq!(inner.node[1].op_type, "Identity");
}

#[test]
fn known_types_of_inner_values_are_declared() {
    let mut graph = graph(&qdq_network());
    assert!(decode(export(&graph)).graph.expect("a graph").value_info.is_empty());
    graph.phase = Phase::Canonical;
    let inner = decode(export(&graph)).graph.expect("a graph");
    assert_eq!(inner.value_info.len(), 5);
    assert_eq!(inner.value_info[0].name, "xq");
}

#[test]
fn what_onnx_cannot_say_is_refused() {
    let refuse = |change: &dyn Fn(&mut Graph), part: &str| {
        let mut graph = graph(&qdq_network());
        change(&mut graph);
        let text = export_onnx(&graph, &ExportOptions::default()).expect_err("refused").to_string();
        assert!(text.contains(part), "`{part}` is not in: {text}");
    };
    refuse(&|g| g.nodes[3].fused = Fused { residual: true, ..Fused::default() }, "node `conv`");
    refuse(&|g| g.nodes[3].requant = Some(ottava_hal::RequantMode::Q31Double), "requantization mode");
    let typed = TensorType::fixed(DataType::U8, &[1]).quantized(QuantParams::per_tensor(1.0, 0));
    refuse(&|g| g.values[g.nodes[0].outputs[0].0].ty = typed.clone(), "value `xq`");
    refuse(&|g| g.nodes.push(Node::new("conv", "Relu", 13)), "two nodes are named `conv`");
}

#[test]
fn bodies_are_written_with_the_names_outside() {
    let step = graph_of(vec![node("Mul", "s w", "t"), node("Identity", "go", "still")], "i go s", "still t");
    let repeat = with(named("loop", node("Loop", "n - x", "y")), body_of("body", step));
    let mut model = simple(13, vec![node("Abs", "x", "w"), repeat]);
    model.graph.as_mut().expect("a graph").input.push(info("n", ottava_import::onnx::ElemType::S64, ""));
    let graph = graph(&model);
    let written = decode(export(&graph)).graph.expect("a graph");
    let body = written.node[1].attribute[0].g.as_ref().expect("a body");
    assert_eq!((written.node[1].op_type.as_str(), &body.node[0].input[1]), ("Loop", &"w".to_owned()));
    let back = reread(&graph);
    assert_eq!(lines(&back), lines(&graph));
    let ops = |g: &Graph| -> Vec<String> {
        g.nodes[1].attrs.program("body").expect("a body").nodes.iter().map(|n| n.op.clone()).collect()
    };
    assert_eq!(ops(&back), ops(&graph));
}
