//! Bodies of `If`, `Loop` and `Scan`: graphs inside of attributes become programs.
//!
//! A body is imported like a model, with names of its own. What it reads from outside becomes an input, behind those
//! that ONNX gives it, and an input of the node, behind those that ONNX gives that (`ottava_ops::control`).
use super::functions::FlatNode;
use super::import::Importer;
use super::proto::{GraphProto, NodeProto};
use super::raw::{Problem, RawNode, Refusal};
use super::{functions, types};
use ottava_graph::{Graph, to_program};
use ottava_hal::{Attr, DataType, TensorType};
use std::collections::HashSet;

/// Bodies inside bodies.
const MAX_NESTING: usize = 8;

/// The operators that have bodies, and the attributes that hold them.
const CONTROL: &[(&str, &[&str])] =
    &[("If", &["then_branch", "else_branch"]), ("Loop", &["body"]), ("Scan", &["body"])];

/// An imported body.
struct Body {
    attribute: String,
    graph: Graph,
    /// Names of the graph around it, in the order of the body's last inputs.
    captures: Vec<String>,
}

/// Whether a node is one of the operators with bodies.
pub(super) fn is_control(node: &NodeProto) -> bool {
    functions::domain(&node.domain).is_empty() && CONTROL.iter().any(|(op, _)| *op == node.op_type)
}

impl Importer {
    /// Takes the bodies out of a node's attributes; `None` and a problem where one cannot be imported.
    pub(super) fn bodies(&mut self, flat: &mut FlatNode) -> Option<Vec<(String, Attr)>> {
        let names = CONTROL.iter().find(|(op, _)| *op == flat.node.op_type).map_or(&[][..], |(_, names)| names);
        let mut bodies = Vec::new();
        for name in names {
            let at = flat.node.attribute.iter().position(|a| a.name == *name);
            let proto = at.and_then(|at| flat.node.attribute.remove(at).g);
            let Some(proto) = proto else {
                let version = flat.opsets.get("").copied().unwrap_or(0);
                let refusal = Refusal::Invalid(format!("attribute `{name}` must be a graph"));
                let refusal = refusal.at(&format!("{} (operator set {version})", flat.node.op_type));
                self.problems.push(Problem { node: Some(flat.node.name.clone()), refusal });
                return None;
            };
            bodies.push(self.body(name, proto, flat)?);
        }
        Some(self.share_captures(bodies, &mut flat.node))
    }

    /// Gives all bodies of a node the same captured values, and the node these as inputs.
    fn share_captures(&mut self, bodies: Vec<Body>, node: &mut NodeProto) -> Vec<(String, Attr)> {
        let mut shared: Vec<String> = Vec::new();
        for name in bodies.iter().flat_map(|body| &body.captures) {
            if !shared.contains(name) {
                shared.push(name.clone());
            }
        }
        let mut attrs = vec![("captures".to_owned(), Attr::Int(i64::try_from(shared.len()).unwrap_or(i64::MAX)))];
        for mut body in bodies {
            let own = body.graph.inputs.split_off(body.graph.inputs.len() - body.captures.len());
            for name in &shared {
                let id = body.captures.iter().position(|n| n == name).map(|i| own[i]);
                let id = id.unwrap_or_else(|| {
                    let unused = body.graph.fresh_name(&format!("outer/{name}"));
                    body.graph.add_value(unused, TensorType::unranked(DataType::F32))
                });
                body.graph.inputs.push(id);
            }
            attrs.push((body.attribute, Attr::Program(to_program(&body.graph).into())));
        }
        node.input.extend(shared);
        attrs
    }

    fn body(&mut self, attribute: &str, mut proto: GraphProto, flat: &FlatNode) -> Option<Body> {
        let place = &flat.node.name;
        if self.depth >= MAX_NESTING {
            let what = format!("bodies lie more than {MAX_NESTING} deep in each other");
            self.problems.push(Problem { node: Some(place.clone()), refusal: Refusal::Unsupported(what) });
            return None;
        }
        let mut inner = self.nested();
        let body = inner.import_body(&mut proto, flat);
        self.external = std::mem::take(&mut inner.external);
        self.budget = inner.budget;
        self.notes.append(&mut inner.notes);
        let inside = |problem: Problem| Problem {
            node: Some(problem.node.map_or_else(|| place.clone(), |node| format!("{place}/{node}"))),
            ..problem
        };
        self.problems.extend(inner.problems.into_iter().map(inside));
        let (graph, captures) = body?;
        Some(Body { attribute: attribute.to_owned(), graph, captures })
    }

    /// An importer of a body: its own names, the same files, functions and limits.
    fn nested(&mut self) -> Importer {
        let mut inner = Importer {
            external: std::mem::take(&mut self.external),
            functions: self.functions.clone(),
            budget: self.budget,
            depth: self.depth + 1,
            ..Importer::default()
        };
        inner.cx.dtypes = self.cx.dtypes.clone();
        inner
    }

    fn import_body(&mut self, proto: &mut GraphProto, flat: &FlatNode) -> Option<(Graph, Vec<String>)> {
        self.constants(proto);
        self.formals(proto);
        self.outputs(proto);
        let nodes = self.nodes(std::mem::take(&mut proto.node), &flat.opsets);
        let captures = self.captures(&nodes, proto);
        for name in &captures {
            let dtype = self.cx.dtypes.get(name).copied().unwrap_or(DataType::F32);
            self.cx.values.take(name);
            self.inputs.push((name.clone(), TensorType::unranked(dtype)));
        }
        let graph = self.finish(nodes, proto, &flat.opsets)?;
        Some((graph, captures))
    }

    /// The inputs that ONNX gives a body. Their shapes need not be declared.
    fn formals(&mut self, proto: &GraphProto) {
        for info in &proto.input {
            let name = &info.name;
            if name.is_empty() || !self.cx.values.take(name) {
                let what = format!("input `{name}` of a body is unnamed or defined twice");
                self.problems.push(Problem::model(Refusal::Invalid(what)));
                continue;
            }
            let ty = types::read(info, |axis| format!("{name}:{axis}"));
            let ty = ty.map(|ty| {
                let dtype = types::element_type(info).unwrap_or(DataType::F32);
                ty.unwrap_or_else(|| TensorType::unranked(dtype))
            });
            match ty {
                Ok(ty) => {
                    self.cx.dtypes.insert(name.clone(), ty.dtype);
                    self.inputs.push((name.clone(), ty));
                }
                Err(refusal) => self.problems.push(Problem::model(refusal)),
            }
        }
    }

    /// Names that nodes or outputs of a body read and that it does not define.
    fn captures(&self, nodes: &[RawNode], proto: &GraphProto) -> Vec<String> {
        let constants = self.cx.constants.iter().map(|(name, _)| name.as_str());
        let inputs = self.inputs.iter().map(|(name, _)| name.as_str());
        let results = nodes.iter().flat_map(|n| n.outputs.iter().flatten()).map(String::as_str);
        let mut known: HashSet<&str> = constants.chain(inputs).chain(results).collect();
        let read = nodes.iter().flat_map(|n| n.inputs.iter().flatten());
        let read = read.chain(proto.output.iter().map(|info| &info.name));
        read.filter(|name| !name.is_empty() && known.insert(name)).cloned().collect()
    }
}
