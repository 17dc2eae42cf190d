//! Builds small ONNX models for the tests, from the messages of the format themselves.
#![allow(dead_code, reason = "each test file uses its part")]

use ottava_graph::{Diagnostic, Graph};
use ottava_import::onnx::proto::tensor_shape_proto::{Dimension, dimension::Value};
use ottava_import::onnx::proto::type_proto::{Tensor, Value as Kind};
use ottava_import::onnx::proto::*;
use ottava_import::onnx::{ElemType, OnnxTensor};
use ottava_import::{ImportError, ImportOptions, import_onnx_bytes};
use prost::Message;

pub fn strings(names: &str) -> Vec<String> {
    names.split_whitespace().map(|name| if name == "-" { String::new() } else { name.to_owned() }).collect()
}

/// An unnamed node; `-` stands for an absent input or output.
pub fn node(op: &str, inputs: &str, outputs: &str) -> NodeProto {
    let (domain, op) = op.split_once("::").unwrap_or(("", op));
    NodeProto {
        op_type: op.into(),
        domain: domain.into(),
        input: strings(inputs),
        output: strings(outputs),
        ..Default::default()
    }
}

pub fn named(name: &str, node: NodeProto) -> NodeProto {
    NodeProto { name: name.into(), ..node }
}

pub fn with(mut node: NodeProto, attribute: AttributeProto) -> NodeProto {
    node.attribute.push(attribute);
    node
}

pub fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i: Some(i), r#type: 2, ..Default::default() }
}

pub fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { name: name.into(), ints: values.to_vec(), r#type: 7, ..Default::default() }
}

pub fn body_of(name: &str, g: GraphProto) -> AttributeProto {
    AttributeProto { name: name.into(), g: Some(g), r#type: 5, ..Default::default() }
}

/// A body; its inputs and outputs declare nothing but their names.
pub fn graph_of(node: Vec<NodeProto>, inputs: &str, outputs: &str) -> GraphProto {
    let values = |names: &str| strings(names).into_iter().map(|name| ValueInfoProto { name, ..Default::default() });
    GraphProto { node, input: values(inputs).collect(), output: values(outputs).collect(), ..Default::default() }
}

pub fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.into(), f: Some(f), r#type: 1, ..Default::default() }
}

/// A declaration `name` with dimensions like `N 3 8`; `?` is open.
pub fn info(name: &str, elem: ElemType, dims: &str) -> ValueInfoProto {
    let dim = dims.split_whitespace().map(|d| Dimension {
        value: match d.parse() {
            Ok(n) => Some(Value::DimValue(n)),
            Err(_) if d == "?" => None,
            Err(_) => Some(Value::DimParam(d.to_owned())),
        },
        ..Default::default()
    });
    let shape = Some(TensorShapeProto { dim: dim.collect() });
    let kind = Kind::TensorType(Tensor { elem_type: elem.code(), shape });
    let ty = Some(TypeProto { value: Some(kind), ..Default::default() });
    ValueInfoProto { name: name.into(), r#type: ty, ..Default::default() }
}

pub fn tensor(name: &str, elem: ElemType, dims: &[usize], bytes: &[u8]) -> TensorProto {
    let bytes = bytes.to_vec().into();
    OnnxTensor { name: name.into(), elem, dims: dims.to_vec(), bytes, mapped: false }.to_proto()
}

pub fn floats(name: &str, dims: &[usize], value: impl Fn(usize) -> f32) -> TensorProto {
    let bytes: Vec<u8> = (0..dims.iter().product()).flat_map(|i| value(i).to_le_bytes()).collect();
    tensor(name, ElemType::F32, dims, &bytes)
}

pub fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: domain.into(), version }
}

pub fn model(version: i64, graph: GraphProto) -> ModelProto {
    ModelProto { ir_version: 8, graph: Some(graph), opset_import: vec![opset("", version)], ..Default::default() }
}

/// `x: f32[N,4] -> y: f32[N,4]` over the given nodes.
pub fn simple(version: i64, node: Vec<NodeProto>) -> ModelProto {
    let graph = GraphProto {
        name: "simple".into(),
        node,
        input: vec![info("x", ElemType::F32, "N 4")],
        output: vec![info("y", ElemType::F32, "N 4")],
        ..Default::default()
    };
    model(version, graph)
}

pub fn import(model: &ModelProto) -> Result<(Graph, Vec<Diagnostic>), ImportError> {
    import_onnx_bytes(model.encode_to_vec().into(), "m.onnx", &ImportOptions::default())
}

/// The graph of a model that must be importable.
pub fn graph(model: &ModelProto) -> Graph {
    import(model).unwrap_or_else(|e| panic!("{e}")).0
}

/// The error of a model that must be refused.
pub fn refusal(model: &ModelProto) -> String {
    match import(model) {
        Ok(_) => panic!("the model should be refused"),
        Err(e) => e.to_string(),
    }
}

/// Nodes as `name: Op(inputs) -> outputs`.
pub fn lines(graph: &Graph) -> Vec<String> {
    let name = |id: &ottava_graph::ValueId| graph.name_of(*id).to_owned();
    let line = |n: &ottava_graph::Node| {
        let inputs: Vec<_> = n.inputs.iter().map(|id| id.as_ref().map_or("-".to_owned(), name)).collect();
        let outputs: Vec<_> = n.outputs.iter().map(name).collect();
        format!("{}: {}({}) -> {}", n.name, n.full_op(), inputs.join(", "), outputs.join(", "))
    };
    graph.nodes.iter().map(line).collect()
}

/// A float network in an old form: weights listed as inputs, attributes that are inputs today, a constant node.
pub fn old_network() -> ModelProto {
    let constant = AttributeProto {
        name: "value".into(),
        t: Some(tensor("", ElemType::S64, &[2], &[0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0])),
        r#type: 4,
        ..Default::default()
    };
    let conv = with(with(node("Conv", "x w b", "c"), ints("kernel_shape", &[3, 3])), ints("pads", &[1, 1, 1, 1]));
    let pool = with(with(node("MaxPool", "r", "p"), ints("kernel_shape", &[2, 2])), ints("strides", &[2, 2]));
    let graph = GraphProto {
        name: "old".into(),
        node: vec![
            conv,
            with(with(node("Clip", "c", "r"), float("min", 0.0)), float("max", 6.0)),
            pool,
            with(node("Constant", "", "shape"), constant),
            node("Reshape", "p shape", "f"),
            with(node("Softmax", "f", "y"), int("axis", 1)),
        ],
        initializer: vec![floats("w", &[2, 1, 3, 3], |i| i as f32 * 0.25), floats("b", &[2], |i| i as f32)],
        input: vec![
            info("x", ElemType::F32, "N 1 4 4"),
            info("w", ElemType::F32, "2 1 3 3"),
            info("b", ElemType::F32, "2"),
        ],
        output: vec![info("y", ElemType::F32, "N 8")],
        ..Default::default()
    };
    ModelProto { ir_version: 3, ..model(9, graph) }
}

/// A quantized network as QDQ: per-channel s8 weights, u8 activations, symbolic batch.
pub fn qdq_network() -> ModelProto {
    let scale = |name: &str, v: f32| floats(name, &[], |_| v);
    let graph = GraphProto {
        name: "qdq".into(),
        node: vec![
            named("q_x", node("QuantizeLinear", "x xs xz", "xq")),
            named("dq_x", node("DequantizeLinear", "xq xs xz", "xf")),
            named("dq_w", with(node("DequantizeLinear", "wq ws wz", "wf"), int("axis", 0))),
            named("conv", with(node("Conv", "xf wf", "c"), ints("kernel_shape", &[1, 1]))),
            named("q_y", node("QuantizeLinear", "c ys yz", "yq")),
            named("dq_y", node("DequantizeLinear", "yq ys yz", "y")),
        ],
        initializer: vec![
            scale("xs", 0.05),
            tensor("xz", ElemType::U8, &[], &[128]),
            tensor("wq", ElemType::S8, &[2, 1, 1, 1], &[0x81, 0x7f]),
            floats("ws", &[2], |i| 0.01 + i as f32 * 0.02),
            tensor("wz", ElemType::S8, &[2], &[0, 0]),
            scale("ys", 0.1),
            tensor("yz", ElemType::U8, &[], &[100]),
        ],
        input: vec![info("x", ElemType::F32, "batch 1 4 4")],
        output: vec![info("y", ElemType::F32, "batch 2 4 4")],
        ..Default::default()
    };
    model(13, graph)
}

/// A network that calls a function of its own twice, with an attribute.
pub fn function_network() -> ModelProto {
    let slope = AttributeProto { name: "alpha".into(), ref_attr_name: "slope".into(), r#type: 1, ..Default::default() };
    let function = FunctionProto {
        name: "Twice".into(),
        domain: "local".into(),
        input: strings("a"),
        output: strings("b"),
        attribute: strings("slope"),
        node: vec![node("Add", "a a", "t"), with(node("LeakyRelu", "t", "b"), slope)],
        opset_import: vec![opset("", 16)],
        ..Default::default()
    };
    let call = |name: &str, x: &str, y: &str| named(name, with(node("local::Twice", x, y), float("slope", 0.25)));
    let mut model = simple(16, vec![call("first", "x", "h"), call("second", "h", "y")]);
    model.opset_import.push(opset("local", 1));
    model.functions = vec![function];
    model
}
