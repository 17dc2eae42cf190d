//! The last step of an import: nodes in their newest form, constants and declared types become a graph.
use super::forms::Cx;
use super::functions::Opsets;
use super::proto::GraphProto;
use super::raw::{RawNode, Refusal};
use ottava_graph::Graph;
use ottava_hal::{DataType, Node, RequantMode, TensorType, ValueId};
use std::collections::{HashMap, HashSet};

/// Operators that rescale an accumulator; ONNX means the mode `fp32_rne`.
const REQUANTIZING: &[&str] =
    &["QGemm", "QLinearAveragePool", "QLinearConv", "QLinearGlobalAveragePool", "QLinearMatMul", "QLinearReduceMean"];

/// What the earlier steps found out.
pub(super) struct Parts<'a> {
    pub opsets: &'a Opsets,
    pub inputs: Vec<(String, TensorType)>,
    /// Declared types of computed values.
    pub declared: &'a HashMap<String, TensorType>,
    /// Constants and nodes.
    pub cx: Cx,
}

/// The graph: inputs, constants and computed values, in this order.
pub(super) fn build(proto: &GraphProto, parts: Parts) -> Result<Graph, Vec<Refusal>> {
    let mut cx = parts.cx;
    let mut builder = Builder { graph: Graph::new(&proto.name), ids: HashMap::new(), declared: parts.declared };
    let version = |(domain, version): (&String, &i64)| Some((domain.clone(), u32::try_from(*version).ok()?));
    builder.graph.opsets = parts.opsets.iter().filter_map(version).collect();
    for (name, ty) in parts.inputs {
        let id = builder.graph.add_input(&name, ty);
        builder.ids.insert(name, id);
    }
    for (name, data) in std::mem::take(&mut cx.constants) {
        let id = builder.graph.add_const(&name, data);
        builder.ids.insert(name, id);
    }
    for node in std::mem::take(&mut cx.nodes) {
        builder.node(node, &mut cx);
    }
    builder.outputs(proto)?;
    let declared = builder.declared;
    let mut graph = builder.graph;
    graph.compact();
    infer_undeclared_outputs(&mut graph, declared);
    ottava_graph::verify(&graph).map_err(|e| vec![Refusal::from(e)])?;
    Ok(graph)
}

struct Builder<'a> {
    graph: Graph,
    ids: HashMap<String, ValueId>,
    declared: &'a HashMap<String, TensorType>,
}

impl Builder<'_> {
    fn node(&mut self, raw: RawNode, cx: &mut Cx) {
        let mut node = Node::new(raw.name, raw.op, raw.version);
        (node.domain, node.attrs) = (raw.domain, raw.attrs);
        node.requant = REQUANTIZING.contains(&node.op.as_str()).then_some(RequantMode::Fp32Rne);
        node.inputs = raw.inputs.iter().map(|name| self.ids.get(name.as_ref()?).copied()).collect();
        for (i, name) in raw.outputs.into_iter().enumerate() {
            let name = name.unwrap_or_else(|| cx.values.unique(&format!("{}/unused{i}", node.name)));
            // Where the file declares nothing, inference will.
            let ty = self.declared.get(&name).cloned();
            let dtype = cx.dtypes.get(&name).copied().unwrap_or(DataType::F32);
            let ty = ty.unwrap_or_else(|| TensorType::unranked(dtype));
            let id = self.graph.add_value(&name, ty);
            self.ids.insert(name, id);
            node.outputs.push(id);
        }
        self.graph.nodes.push(node);
    }

    fn outputs(&mut self, proto: &GraphProto) -> Result<(), Vec<Refusal>> {
        let mut missing = Vec::new();
        for info in &proto.output {
            let name = &info.name;
            match self.ids.get(name) {
                Some(&id) => self.graph.outputs.push(id),
                None => missing.push(Refusal::Invalid(format!(
                    "output `{name}` is no output of a node, no input and no constant"
                ))),
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }
}

/// Outputs for which the file declares no type take the inferred one, as far as that is known so early.
fn infer_undeclared_outputs(graph: &mut Graph, declared: &HashMap<String, TensorType>) {
    let inputs: HashSet<_> = graph.inputs.iter().copied().collect();
    let missing = |id: &&ValueId| !declared.contains_key(graph.name_of(**id)) && !inputs.contains(*id);
    let missing: Vec<_> = graph.outputs.iter().filter(missing).copied().collect();
    let mut typed = graph.clone();
    if missing.is_empty() || ottava_graph::infer_types(&mut typed).is_err() {
        return;
    }
    for id in missing {
        graph.values[id.0].ty = typed.ty(id).clone();
    }
}
