//! Graph to ONNX model.
//!
//! The result is an ordinary model: quantization stands in it as QuantizeLinear and DequantizeLinear nodes (and
//! QLinear operators where the graph holds them), names and symbolic dimensions are kept. Ottava's own operators are
//! refused, but for those that a function of standard operators says ([`super::own_functions`]). The operator set is the
//! one the model came with, raised to 13 and to whatever the forms and types in the graph need (21 for 16-bit,
//! 4-bit and blocked quantization). The bytes depend on the graph alone.
use super::forms::BASE_OPSET;
use super::forms::table::LATER;
use super::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, ValueInfoProto};
use super::tensor::OnnxTensor;
use super::{attribute, decode, export_bodies, own_functions, states, types};
use crate::ImportError;
use ottava_graph::{Fused, Graph, Phase};
use ottava_hal::{Attr, DataType, Node, RequantMode, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// A protobuf file ends at 2 GiB; this leaves room for everything but the weights.
const MAX_WEIGHTS: usize = 2_000_000_000;

/// What to write besides the graph.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// Entries of the model's metadata, e.g. the recipe that quantized it.
    pub metadata: BTreeMap<String, String>,
    /// Nodes that are written without their name; whoever reads the file gives them one.
    pub unnamed: BTreeSet<String>,
}

/// Writes a graph of phase imported or canonical as an ONNX model.
pub fn export_onnx(graph: &Graph, options: &ExportOptions) -> Result<Vec<u8>, ImportError> {
    check(graph)?;
    let declared = graph.opsets.get("").copied().unwrap_or(0);
    let mut writer = Writer { graph, opset: declared.max(BASE_OPSET), names: BTreeSet::new(), nodes: Vec::new() };
    writer.names.extend(graph.values.iter().map(|v| v.name.clone()));
    writer.names.extend(graph.nodes.iter().map(|n| n.name.clone()));
    for node in &graph.nodes {
        writer.opset = writer.opset.max(opset_of(graph, node));
        writer.node(node);
    }
    let mut proto = writer.graph_proto();
    let states = writer.states(&mut proto)?;
    proto.node.iter_mut().filter(|node| options.unnamed.contains(&node.name)).for_each(|node| node.name.clear());
    let mut options = options.clone();
    if !states.is_empty() {
        options.metadata.insert(states::KEY.to_owned(), states);
    }
    Ok(decode::encode(&model(graph, proto, writer.opset, &options)))
}

fn model(graph: &Graph, proto: GraphProto, opset: u32, options: &ExportOptions) -> ModelProto {
    // A node with a body is written in the standard's form.
    let calls = graph.nodes.iter().filter(|n| export_bodies::bodies(n).next().is_none());
    let mut foreign: BTreeSet<_> = calls.map(|n| n.domain.as_str()).collect();
    for node in &graph.nodes {
        export_bodies::visit(node, &mut |inner| {
            foreign.insert(inner.domain.as_str());
        });
    }
    foreign.remove("");
    let domain = |d: &str, version| OperatorSetIdProto { domain: d.to_owned(), version };
    let opset_import = std::iter::once(domain("", i64::from(opset))).chain(foreign.into_iter().map(|d| domain(d, 1)));
    let entry = |(key, value): (&String, &String)| StringStringEntryProto { key: key.clone(), value: value.clone() };
    ModelProto {
        ir_version: ir_version(opset),
        producer_name: "ottava".to_owned(),
        producer_version: env!("CARGO_PKG_VERSION").to_owned(),
        graph: Some(proto),
        opset_import: opset_import.collect(),
        functions: own_functions::used_by(graph, i64::from(opset)),
        metadata_props: options.metadata.iter().map(entry).collect(),
        ..Default::default()
    }
}

/// The format version that came with an operator set, never below that of the functions (8).
fn ir_version(opset: u32) -> i64 {
    match opset {
        ..=18 => 8,
        19..=20 => 9,
        21..=22 => 10,
        23 => 11,
        24..=25 => 12,
        _ => 13,
    }
}

/// Refuses what the format cannot say.
fn check(graph: &Graph) -> Result<(), ImportError> {
    ottava_graph::verify(graph)
        .map_err(|e| ImportError::Export { place: "the graph".to_owned(), what: e.to_string() })?;
    if let Some(value) = graph.values.iter().find(|v| v.ty.quant.is_some()) {
        let what = "its type is quantized; export before quantization becomes part of the types".to_owned();
        return Err(ImportError::Export { place: format!("value `{}`", value.name), what });
    }
    for node in &graph.nodes {
        let refuse = |what: &str| ImportError::Export { place: format!("node `{}`", node.name), what: what.to_owned() };
        let has_body = export_bodies::bodies(node).next().is_some();
        let mut inside = None;
        export_bodies::visit(node, &mut |inner| inside = inside.or(unwritable(inner)));
        if let Some(what) = inside {
            return Err(refuse(what));
        }
        if node.domain == ottava_ops::OTTAVA && !has_body && own_functions::name_of(node).is_none() {
            return Err(refuse("its operator is Ottava's own"));
        }
        if node.fused != Fused::default() {
            return Err(refuse("an activation, a clamp or a sum is fused into it"));
        }
        if node.requant.is_some_and(|mode| mode != RequantMode::Fp32Rne) {
            return Err(refuse("its requantization mode is not the one of ONNX (fp32_rne)"));
        }
    }
    let weights: usize = graph.values.iter().filter_map(|v| v.constant.as_ref()).map(|c| c.bytes().len()).sum();
    if weights > MAX_WEIGHTS {
        let what = format!("{weights} bytes of constants; one file holds at most {MAX_WEIGHTS}");
        return Err(ImportError::Export { place: "the graph".to_owned(), what });
    }
    Ok(())
}

/// What a node inside a body has that the format, or this version for bodies, cannot say.
fn unwritable(node: &Node) -> Option<&'static str> {
    let own = node.domain == ottava_ops::OTTAVA && export_bodies::bodies(node).next().is_none();
    if own || node.fused != Fused::default() {
        return Some("an operator in its body is Ottava's own");
    }
    (coerces(node)).then_some("an operator in its body has the form of before operator set 13")
}

/// Whether a node is of the Softmax family in the form that works on a matrix.
fn coerces(node: &Node) -> bool {
    matches!(node.op.as_str(), "Softmax" | "LogSoftmax" | "Hardmax") && node.version < BASE_OPSET
}

/// The first operator set that has a node in this form and with these types.
fn opset_of(graph: &Graph, node: &Node) -> u32 {
    if own_functions::name_of(node).is_some() {
        return own_functions::OPSET;
    }
    if !node.domain.is_empty() {
        let mut opset = BASE_OPSET;
        export_bodies::visit(node, &mut |inner| opset = opset.max(export_bodies::opset(inner)));
        return opset;
    }
    let later = LATER.iter().filter(|(op, attr, _)| *op == node.op && node.attrs.get(attr).is_some());
    let form = later.map(|&(_, _, opset)| opset).fold(node.version, u32::max);
    let dtypes = || node.inputs.iter().flatten().chain(&node.outputs).map(|id| graph.ty(*id).dtype);
    let nibbles = dtypes().any(|d| matches!(d, DataType::S4 | DataType::U4));
    let quantization = matches!(node.op.as_str(), "QuantizeLinear" | "DequantizeLinear");
    let wide = quantization && dtypes().any(|d| matches!(d, DataType::S16 | DataType::U16));
    let half = quantization && dtypes().any(|d| matches!(d, DataType::F16 | DataType::BF16));
    let types = if nibbles || wide {
        21
    } else if half {
        19
    } else {
        0
    };
    form.max(types)
}

struct Writer<'a> {
    graph: &'a Graph,
    opset: u32,
    names: BTreeSet<String>,
    nodes: Vec<NodeProto>,
}

impl Writer<'_> {
    fn fresh(&mut self, base: &str) -> String {
        let taken = |name: &String| self.names.contains(name);
        let numbered = (1u64..).map(|i| format!("{base}_{i}"));
        let name =
            std::iter::once(base.to_owned()).chain(numbered).find(|n| !taken(n)).expect("numbers do not run out");
        self.names.insert(name.clone());
        name
    }

    fn name(&self, id: ValueId) -> String {
        self.graph.name_of(id).to_owned()
    }

    fn node(&mut self, node: &Node) {
        if export_bodies::bodies(node).next().is_some() {
            let proto = export_bodies::control(node, "", &|id| self.name(id));
            self.nodes.push(proto);
            return;
        }
        let proto = NodeProto {
            name: node.name.clone(),
            op_type: own_functions::name_of(node).map_or_else(|| node.op.clone(), str::to_owned),
            domain: node.domain.clone(),
            input: node.inputs.iter().map(|id| id.map_or_else(String::new, |id| self.name(id))).collect(),
            output: node.outputs.iter().map(|id| self.name(*id)).collect(),
            attribute: node.attrs.0.iter().filter_map(|(name, value)| attribute::write(name, value)).collect(),
            ..Default::default()
        };
        if coerces(node) && !self.is_last_axis(node) {
            self.on_matrix(node, proto);
        } else {
            self.nodes.push(proto);
        }
    }

    /// Whether the node's axis is the last one, where all versions of Softmax agree.
    fn is_last_axis(&self, node: &Node) -> bool {
        let rank = node.input(0).map_or(0, |id| self.graph.ty(id).shape.rank());
        let axis = node.attrs.int("axis", 1).unwrap_or(1);
        rank > 0 && (axis == -1 || usize::try_from(axis) == Ok(rank - 1))
    }

    /// A Softmax of before operator set 13 works on its input seen as a matrix, split at the axis.
    fn on_matrix(&mut self, node: &Node, mut rows: NodeProto) {
        let axis = node.attrs.get("axis").cloned().unwrap_or(Attr::Int(1));
        let [shape, matrix, softmax] =
            ["shape", "matrix", "rows"].map(|part| self.fresh(&format!("{}/{part}", node.name)));
        let step = |name: &str, op: &str, input: &[&String], output: &String| NodeProto {
            name: name.to_owned(),
            op_type: op.to_owned(),
            input: input.iter().map(|name| (*name).clone()).collect(),
            output: vec![output.clone()],
            ..Default::default()
        };
        let x = rows.input.first().cloned().unwrap_or_default();
        let y = rows.output.first().cloned().unwrap_or_default();
        let mut flatten = step(&matrix, "Flatten", &[&x], &matrix);
        flatten.attribute = attribute::write("axis", &axis).into_iter().collect();
        let reshape = step(&node.name, "Reshape", &[&softmax, &shape], &y);
        rows.name.clone_from(&softmax);
        (rows.input, rows.output) = (vec![matrix.clone()], vec![softmax.clone()]);
        rows.attribute = attribute::write("axis", &Attr::Int(-1)).into_iter().collect();
        self.nodes.extend([step(&shape, "Shape", &[&x], &shape), flatten, rows, reshape]);
    }

    fn graph_proto(&mut self) -> GraphProto {
        let output = self.outputs();
        let graph = self.graph;
        let mut read: BTreeSet<_> = graph.outputs.iter().copied().collect();
        read.extend(graph.nodes.iter().flat_map(|n| n.inputs.iter().flatten().copied()));
        let constants = graph.values.iter().enumerate().filter(|(idx, _)| read.contains(&ValueId(*idx)));
        let initializer = constants.filter_map(|(_, v)| Some(OnnxTensor::from_tensor(&v.name, v.constant.as_ref()?)));
        GraphProto {
            name: if graph.name.is_empty() { "graph".to_owned() } else { graph.name.clone() },
            node: std::mem::take(&mut self.nodes),
            initializer: initializer.map(|t| t.to_proto()).collect(),
            input: graph.inputs.iter().map(|id| types::write(graph.name_of(*id), graph.ty(*id))).collect(),
            output,
            value_info: self.value_info(),
            ..Default::default()
        }
    }

    /// Adds the first values of states as constants; the list of states for the metadata.
    fn states(&mut self, proto: &mut GraphProto) -> Result<String, ImportError> {
        let mut list = String::new();
        for state in &self.graph.states {
            let input = self.name(self.graph.inputs[state.input]);
            let initial = self.fresh(&format!("{input}/initial"));
            proto.initializer.push(OnnxTensor::from_tensor(&initial, &state.initial).to_proto());
            let output = proto.output[state.output].name.clone();
            list += &states::Entry::new(self.graph, state, output, initial)?.line();
        }
        Ok(list)
    }

    /// Declarations of inner values, once their types are known.
    fn value_info(&self) -> Vec<ValueInfoProto> {
        let graph = self.graph;
        if graph.phase < Phase::Canonical {
            return Vec::new();
        }
        let outputs: BTreeSet<_> = graph.outputs.iter().collect();
        let inner = graph.nodes.iter().flat_map(|n| &n.outputs).filter(|id| !outputs.contains(id));
        inner.map(|id| types::write(graph.name_of(*id), graph.ty(*id))).collect()
    }

    /// Declarations of the outputs; a value that is listed twice gets a copy, because names must differ.
    fn outputs(&mut self) -> Vec<ValueInfoProto> {
        let graph = self.graph;
        let mut seen = BTreeSet::new();
        let mut outputs = Vec::with_capacity(graph.outputs.len());
        for &id in &graph.outputs {
            let mut name = self.name(id);
            if !seen.insert(id) {
                let copy = self.fresh(&name);
                self.nodes.push(NodeProto {
                    name: copy.clone(),
                    op_type: "Identity".to_owned(),
                    input: vec![name],
                    output: vec![copy.clone()],
                    ..Default::default()
                });
                name = copy;
            }
            outputs.push(types::write(&name, graph.ty(id)));
        }
        outputs
    }
}
