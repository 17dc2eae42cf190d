//! Whole models through the public entry: what is read, and what is refused with which words.
mod common;

use common::*;
use ottava_graph::{Attr, Phase};
use ottava_hal::{DataType, Dim, Tensor};
use ottava_import::onnx::ElemType;
use ottava_import::onnx::proto::*;
use ottava_import::{ImportError, ImportOptions, import_onnx, import_onnx_bytes};
use prost::Message;

#[test]
fn an_old_network_comes_in_its_newest_form() {
    let (graph, notes) = import(&old_network()).unwrap_or_else(|e| panic!("{e}"));
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!((graph.name.as_str(), graph.phase, graph.opsets[""]), ("old", Phase::Imported, 9));
    assert_eq!(
        lines(&graph),
        [
            "Conv_0: Conv(x, w, b) -> c",
            "Clip_1: Clip(c, Clip_1/min, Clip_1/max) -> r",
            "MaxPool_2: MaxPool(r) -> p",
            "Reshape_4: Reshape(p, shape) -> f",
            "Softmax_5: Softmax(f) -> y",
        ]
    );
    // Weights that are listed as inputs are constants.
    assert_eq!(graph.inputs.iter().map(|id| graph.name_of(*id)).collect::<Vec<_>>(), ["x"]);
    let w = graph.find_value("w").and_then(|id| graph.constant(id)).expect("a constant");
    assert_eq!(w.as_slice::<f32>().expect("floats")[17], 4.25);
    let x = graph.ty(graph.inputs[0]);
    assert_eq!((x.dtype, &x.shape.0[0]), (DataType::F32, &Dim::Sym("N".into())));
    let shape = graph.find_value("shape").and_then(|id| graph.constant(id)).expect("a constant");
    assert_eq!(shape.to_ints().expect("integers"), [0, 8]);
}

#[test]
fn functions_are_written_out() {
    let graph = graph(&function_network());
    assert_eq!(
        lines(&graph),
        [
            "first/Add_0: Add(x, x) -> first/t",
            "first/LeakyRelu_1: LeakyRelu(first/t) -> h",
            "second/Add_0: Add(h, h) -> second/t",
            "second/LeakyRelu_1: LeakyRelu(second/t) -> y",
        ]
    );
    assert_eq!(graph.nodes[3].attrs.get("alpha"), Some(&Attr::Float(0.25)));
}

#[test]
fn nodes_in_any_order_are_sorted() {
    let model = simple(13, vec![node("Relu", "b", "y"), node("Neg", "a", "b"), node("Abs", "x", "a")]);
    assert_eq!(lines(&graph(&model)), ["Abs_2: Abs(x) -> a", "Neg_1: Neg(a) -> b", "Relu_0: Relu(b) -> y"]);
}

#[test]
fn names_are_kept_and_made_unique() {
    let model = simple(
        13,
        vec![
            named("Relu_1", node("Abs", "x", "a")),
            node("Relu", "a", "b"),
            named("n", node("Neg", "b", "c")),
            named("n", node("Neg", "c", "y")),
        ],
    );
    let names: Vec<_> = graph(&model).nodes.into_iter().map(|n| n.name).collect();
    assert_eq!(names, ["Relu_1", "Relu_1_1", "n", "n_1"]);
}

#[test]
fn all_findings_are_listed_with_node_operator_and_set() {
    let model = simple(
        13,
        vec![
            named("a", node("Frobnicate", "x", "a")),
            named("b", node("acme::Fancy", "a", "b")),
            named("c", node("Loop", "b", "c")),
            named("d", with(node("Relu", "c", "y"), int("beta", 1))),
        ],
    );
    let Err(ImportError::Refused { diagnostics, .. }) = import(&model) else { panic!("refused") };
    let found: Vec<_> = diagnostics.iter().map(|d| format!("{} {}", d.node, d.message)).collect();
    let expect = |node: &str, part: &str| {
        let hit = found.iter().any(|f| f.starts_with(&format!("{node} ")) && f.contains(part));
        assert!(hit, "{node}: {part} is not in {found:#?}");
    };
    assert_eq!(found.len(), 4, "{found:#?}");
    expect("a", "Frobnicate (operator set 13): operator Frobnicate is not known");
    expect("b", "acme::Fancy (operator set 0): operators of domain `acme` are not known");
    expect("c", "Loop (operator set 13): attribute `body` must be a graph");
    expect("d", "attribute `beta` is not known");
    assert!(diagnostics.iter().all(|d| d.code.starts_with('M')));
}

#[test]
fn broken_graphs_are_refused_by_name() {
    let case = |nodes: Vec<NodeProto>, part: &str| {
        let text = refusal(&simple(13, nodes));
        assert!(text.contains(part), "`{part}` is not in: {text}");
    };
    case(vec![named("p", node("Add", "x b", "a")), named("q", node("Neg", "a", "b"))], "in a circle: `p` -> `q`");
    case(vec![node("Relu", "nowhere", "y")], "reads value `nowhere`");
    case(vec![node("Relu", "x", "y"), node("Neg", "x", "y")], "writes value `y`");
    case(vec![node("Relu", "x", "x")], "an input or constant defines already");
    case(vec![node("Relu", "x", "z")], "output `y` is no output of a node");
    case(vec![node("Relu", "", "y")], "0 inputs; expected 1 to 1");
}

#[test]
fn broken_frames_are_refused() {
    let case = |change: &dyn Fn(&mut ModelProto), part: &str| {
        let mut model = simple(13, vec![node("Relu", "x", "y")]);
        change(&mut model);
        let text = refusal(&model);
        assert!(text.contains(part), "`{part}` is not in: {text}");
    };
    fn inner(m: &mut ModelProto) -> &mut GraphProto {
        m.graph.as_mut().expect("a graph")
    }
    case(&|m| m.graph = None, "the model has no graph");
    case(&|m| m.opset_import = vec![opset("", 6)], "operator set 6; supported are 7 to 28");
    case(&|m| m.opset_import = vec![opset("ai.onnx", 99)], "operator set 99");
    case(&|m| m.opset_import.clear(), "no operator set is declared for domain ``");
    case(&|m| m.opset_import.push(opset("ai.onnx", 12)), "two versions");
    case(&|m| m.training_info.push(TrainingInfoProto::default()), "training information is not supported");
    case(&|m| inner(m).input.push(info("x", ElemType::F32, "1")), "input `x` is unnamed or defined twice");
    case(&|m| inner(m).input[0] = info("x", ElemType::F8E5M2, "1"), "FLOAT8E5M2, which is not supported");
    case(&|m| inner(m).input[0].r#type = None, "input `x` declares no shape");
    case(&|m| inner(m).sparse_initializer.push(SparseTensorProto::default()), "is sparse");
    case(
        &|m| inner(m).initializer.push(TensorProto { name: "k".into(), ..Default::default() }),
        "tensor `k`: element type 0",
    );
    let sequence = type_proto::Value::SequenceType(Box::default());
    let ty = TypeProto { value: Some(sequence), ..Default::default() };
    case(&|m| inner(m).input[0].r#type = Some(ty.clone()), "value `x` is a sequence");
}

#[test]
fn a_default_for_an_input_is_a_constant_with_a_note() {
    let mut model = simple(13, vec![node("Add", "x k", "y")]);
    let inner = model.graph.as_mut().expect("a graph");
    inner.initializer.push(floats("k", &[4], |_| 1.0));
    inner.input.push(info("k", ElemType::F32, "4"));
    let (graph, notes) = import(&model).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(graph.inputs.len(), 1);
    assert!(notes[0].message.contains("default value"), "{notes:?}");
}

#[test]
fn weights_beside_the_model_are_read_from_its_folder() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut model = simple(13, vec![node("Add", "x k", "y")]);
    let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    model.graph.as_mut().expect("a graph").initializer.push(TensorProto {
        name: "k".into(),
        data_type: ElemType::F32.code(),
        dims: vec![4],
        data_location: 1,
        external_data: vec![entry("location", "w.bin"), entry("offset", "4")],
        ..Default::default()
    });
    let bytes: Vec<u8> = [9.0f32, 1.0, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(dir.path().join("w.bin"), bytes).expect("a file");
    let path = dir.path().join("m.onnx");
    std::fs::write(&path, model.encode_to_vec()).expect("a file");

    let (graph, _) = import_onnx(&path, &ImportOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let k = graph.find_value("k").and_then(|id| graph.constant(id)).expect("a constant");
    assert_eq!(k, &Tensor::from_slice(&[4], &[1.0f32, 2.0, 3.0, 4.0]).expect("four elements"));
    assert!(refusal(&model).contains("which was not read from a file"));
    let options = ImportOptions { folder: Some(dir.path().to_owned()) };
    assert!(import_onnx_bytes(model.encode_to_vec().into(), "m", &options).is_ok());
}

#[test]
fn nan_in_a_weight_is_a_warning() {
    let mut model = simple(13, vec![node("Add", "x k", "y")]);
    let weights = floats("k", &[4], |i| if i == 2 { f32::NAN } else { 1.0 });
    model.graph.as_mut().expect("a graph").initializer.push(weights);
    let (_, notes) = import(&model).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(notes.len(), 1);
    assert_eq!((notes[0].node.as_str(), notes[0].code), ("k", "M0104"));
    assert!(notes[0].message.contains("element 2"), "{}", notes[0].message);
}

/// `x: f32[N,4] -> y` of unknown shape over the given nodes and constants, with `i: s32[N,4]` beside x.
fn undeclared(node: Vec<NodeProto>, initializer: Vec<TensorProto>) -> ModelProto {
    let mut model = simple(18, node);
    let graph = model.graph.as_mut().expect("a graph");
    graph.initializer = initializer;
    graph.input.push(info("i", ElemType::S32, "N 4"));
    graph.output[0].r#type = None;
    model
}

fn longs(name: &str, values: &[i64]) -> TensorProto {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    tensor(name, ElemType::S64, &[values.len()], &bytes)
}

#[test]
fn computed_shapes_leave_rank_and_element_type_known() {
    let fill = AttributeProto { name: "value".into(), t: Some(longs("", &[3])), r#type: 4, ..Default::default() };
    let pads: Vec<u8> = [0i32, 1, 0, 1].iter().flat_map(|v| v.to_le_bytes()).collect();
    let cases = [
        (
            vec![
                node("Shape", "i", "s"),
                node("Concat", "s one", "t"),
                node("Reshape", "i t", "r"),
                node("Equal", "r seven", "y"),
            ],
            "bool[",
            3,
        ),
        (
            vec![node("Shape", "x", "s"), with(node("ConstantOfShape", "s", "c"), fill), node("Mul", "c two", "y")],
            "s64[",
            2,
        ),
        (vec![node("Shape", "x", "s"), node("Reshape", "x s", "r"), node("Transpose", "r", "y")], "f32[", 2),
        (
            vec![
                with(node("Cast", "pads", "p"), int("to", 7)),
                node("Pad", "x p", "q"),
                node("Unsqueeze", "q one", "y"),
            ],
            "f32[",
            3,
        ),
    ];
    for (mut nodes, dtype, rank) in cases {
        if nodes[1].op_type == "Concat" {
            nodes[1].attribute.push(int("axis", 0));
        }
        let constants = vec![
            longs("one", &[1]),
            longs("two", &[2]),
            tensor("pads", ElemType::S32, &[4], &pads),
            tensor("seven", ElemType::S32, &[1], &7i32.to_le_bytes()),
        ];
        let mut graph = graph(&undeclared(nodes, constants));
        assert_eq!(ottava_graph::infer_types(&mut graph).expect("a valid model"), []);
        let ty = graph.ty(graph.outputs[0]);
        assert!(ty.to_string().starts_with(dtype) && ty.shape.rank() == rank, "{ty}");
        let bound = ottava_graph::bind(&graph, &Default::default(), 2).expect("a valid model");
        assert_eq!(bound.ty(bound.outputs[0]).shape.rank(), rank);
    }
}

#[test]
fn an_unknown_rank_is_not_checked_against() {
    let transpose = with(node("Transpose", "s", "y"), ints("perm", &[1, 0]));
    let mut model = undeclared(vec![node("Squeeze", "x k", "s"), transpose], vec![]);
    model.graph.as_mut().expect("a graph").input.push(info("k", ElemType::S64, "K"));
    let graph = graph(&model);
    assert_eq!(graph.ty(graph.outputs[0]).to_string(), "f32[...]");
    let mut typed = graph.clone();
    let notes = ottava_graph::infer_types(&mut typed).expect("a valid model");
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[test]
fn bodies_take_what_they_read_from_outside() {
    let body = |op: &str| graph_of(vec![node(op, "outer w", "r")], "", "r");
    let branches = |node| with(with(node, body_of("then_branch", body("Add"))), body_of("else_branch", body("Mul")));
    let mut model = simple(13, vec![node("Abs", "x", "outer"), branches(named("if", node("If", "c", "y")))]);
    let inner = model.graph.as_mut().expect("a graph");
    inner.input.push(info("c", ElemType::Bool, ""));
    inner.input.push(info("w", ElemType::F32, "1"));
    let graph = graph(&model);
    assert_eq!(lines(&graph), ["Abs_0: Abs(x) -> outer", "if: ottava::If(c, outer, w) -> y"]);
    let body = graph.nodes[1].attrs.program("else_branch").expect("a body");
    assert_eq!((body.inputs.len(), body.nodes[0].op.as_str()), (2, "Mul"));
}

#[test]
fn a_loop_inside_a_function_reads_the_values_of_its_call() {
    let step = graph_of(vec![node("Add", "s a", "t"), node("Identity", "go", "still")], "i go s", "still t");
    let inner = with(node("Loop", "n - b", "r"), body_of("body", step));
    let function = FunctionProto {
        name: "F".into(),
        domain: "f".into(),
        input: strings("a b n"),
        output: strings("r"),
        node: vec![inner],
        opset_import: vec![opset("", 13)],
        ..Default::default()
    };
    let mut model = simple(13, vec![node("Abs", "x", "z"), named("call", node("f::F", "x z k", "y"))]);
    model.functions.push(function);
    model.opset_import.push(opset("f", 1));
    model.graph.as_mut().expect("a graph").input.push(info("k", ElemType::S64, ""));
    let graph = graph(&model);
    assert_eq!(lines(&graph), ["Abs_0: Abs(x) -> z", "call/Loop_0: ottava::Loop(k, -, z, x) -> y"]);
    assert_eq!(graph.nodes[1].attrs.int("captures", 0), Ok(1));
}

#[test]
fn broken_bodies_are_refused_by_place() {
    let case = |node: NodeProto, part: &str| {
        let mut model = simple(13, vec![named("n", node)]);
        model.graph.as_mut().expect("a graph").input.push(info("c", ElemType::Bool, ""));
        let text = refusal(&model);
        assert!(text.contains(part), "`{part}` is not in: {text}");
    };
    let one = |nodes, inputs, outputs| body_of("body", graph_of(nodes, inputs, outputs));
    case(node("Loop", "- - x", "y"), "Loop (operator set 13): attribute `body` must be a graph");
    case(with(node("Loop", "- - x", "y"), one(vec![node("Neg", "s", "t")], "i go s", "go")), "1 outputs for the 1");
    case(with(node("Loop", "- - x", "y"), one(vec![node("Neg", "s", "t")], "s", "s t")), "the body has 1 inputs");
    case(with(node("Loop", "- - x", "y"), one(vec![node("Foo", "s", "t")], "i go s", "go t")), "n/Foo_0");
    case(with(node("Loop", "- - x", "y"), one(vec![node("Neg", "lost", "t")], "i go s", "go t")), "reads value `lost`");
    let mut deep = graph_of(vec![], "", "x");
    for _ in 0..8 {
        let inner = with(node("If", "c", "r"), body_of("then_branch", deep));
        let inner = with(inner, body_of("else_branch", graph_of(vec![], "", "x")));
        deep = graph_of(vec![inner], "", "r");
    }
    let outer = with(node("If", "c", "y"), body_of("then_branch", deep));
    case(with(outer, body_of("else_branch", graph_of(vec![], "", "x"))), "deep in each other");
}
