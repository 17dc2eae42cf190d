//! Bodies of control operators back to graphs: captured values are read by the names that they have outside.
use super::forms::BASE_OPSET;
use super::forms::table::LATER;
use super::proto::attribute_proto::AttributeType;
use super::proto::{AttributeProto, GraphProto, NodeProto, ValueInfoProto};
use super::tensor::OnnxTensor;
use super::{attribute, types};
use ottava_hal::{Attr, Node, Program, ValueId};
use std::collections::BTreeSet;

/// The programs among a node's attributes.
pub(super) fn bodies(node: &Node) -> impl Iterator<Item = &Program> {
    node.attrs.0.values().filter_map(|attr| if let Attr::Program(body) = attr { Some(&**body) } else { None })
}

/// Calls `see` on all nodes inside the bodies of a node.
pub(super) fn visit<'a>(node: &'a Node, see: &mut dyn FnMut(&'a Node)) {
    for inner in bodies(node).flat_map(|body| &body.nodes) {
        see(inner);
        visit(inner, see);
    }
}

/// The operator set that a node inside a body needs.
pub(super) fn opset(node: &Node) -> u32 {
    let later = LATER.iter().filter(|(op, attr, _)| *op == node.op && node.attrs.get(attr).is_some());
    let own = later.map(|&(_, _, opset)| opset).fold(node.version, u32::max);
    if node.domain.is_empty() { own } else { BASE_OPSET }
}

/// A control operator in the form of ONNX. `name` gives the names of values; `place` stands in front of names inside.
pub(super) fn control(node: &Node, place: &str, name: &dyn Fn(ValueId) -> String) -> NodeProto {
    let captures = match node.op.as_str() {
        "If" => node.inputs.len().saturating_sub(1),
        _ => node.attrs.int("captures", 0).ok().and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
    };
    let (own, captured) = node.inputs.split_at(node.inputs.len().saturating_sub(captures));
    let text = |id: &Option<ValueId>| id.map_or_else(String::new, name);
    let captured: Vec<String> = captured.iter().map(text).collect();
    let write = |(key, value): (&String, &Attr)| match value {
        Attr::Program(program) => {
            let g = Some(body(program, &format!("{place}{}/{key}/", node.name), &captured));
            Some(AttributeProto { name: key.clone(), g, r#type: AttributeType::Graph as i32, ..Default::default() })
        }
        _ if key == "captures" => None,
        _ => attribute::write(key, value),
    };
    let mut input: Vec<String> = own.iter().map(text).collect();
    while input.last().is_some_and(String::is_empty) {
        input.pop();
    }
    NodeProto {
        name: format!("{place}{}", node.name),
        op_type: node.op.clone(),
        input,
        output: node.outputs.iter().map(|id| name(*id)).collect(),
        attribute: node.attrs.0.iter().filter_map(write).collect(),
        ..Default::default()
    }
}

fn body(program: &Program, place: &str, captured: &[String]) -> GraphProto {
    let mut names: Vec<String> = program.values.iter().map(|v| format!("{place}{}", v.name)).collect();
    let (formal, outer) = program.inputs.split_at(program.inputs.len().saturating_sub(captured.len()));
    outer.iter().zip(captured).for_each(|(id, name)| names[id.0].clone_from(name));
    let name = |id: ValueId| names[id.0].clone();
    let mut node: Vec<NodeProto> = program.nodes.iter().map(|n| inner(n, place, &name)).collect();
    // A body returns values of its own, each once: anything else is copied.
    let mut own: BTreeSet<ValueId> = program.nodes.iter().flat_map(|n| &n.outputs).copied().collect();
    let mut output = Vec::with_capacity(program.outputs.len());
    for (k, id) in program.outputs.iter().enumerate() {
        let mut result = name(*id);
        if !own.remove(id) {
            let copy = format!("{place}result{k}");
            let (op_type, output) = ("Identity".to_owned(), vec![copy.clone()]);
            node.push(NodeProto { name: copy.clone(), op_type, input: vec![result], output, ..Default::default() });
            result = copy;
        }
        output.push(info(program, *id, result));
    }
    let constant =
        |(i, v): (usize, &ottava_hal::Value)| Some(OnnxTensor::from_tensor(&names[i], v.constant.as_ref()?).to_proto());
    GraphProto {
        name: format!("{place}body"),
        node,
        initializer: program.values.iter().enumerate().filter_map(constant).collect(),
        input: formal.iter().map(|id| info(program, *id, name(*id))).collect(),
        output,
        ..Default::default()
    }
}

/// The declaration of a value; only its name, where the shape may be any.
fn info(program: &Program, id: ValueId, name: String) -> ValueInfoProto {
    let ty = program.ty(id);
    if ty.is_unranked() { ValueInfoProto { name, ..Default::default() } } else { types::write(&name, ty) }
}

fn inner(node: &Node, place: &str, name: &dyn Fn(ValueId) -> String) -> NodeProto {
    if bodies(node).next().is_some() {
        return control(node, place, name);
    }
    NodeProto {
        name: format!("{place}{}", node.name),
        op_type: node.op.clone(),
        domain: node.domain.clone(),
        input: node.inputs.iter().map(|id| id.map_or_else(String::new, name)).collect(),
        output: node.outputs.iter().map(|id| name(*id)).collect(),
        attribute: node.attrs.0.iter().filter_map(|(key, value)| attribute::write(key, value)).collect(),
        ..Default::default()
    }
}
