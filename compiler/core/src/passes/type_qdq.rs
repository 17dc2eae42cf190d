//! QuantizeLinear and DequantizeLinear with constant parameters become types: `ottava::Quantize` with a typed output,
//! `ottava::Dequantize` of a typed input.
//!
//! Computed integers become typed a region at a time: values that are linked by operators that only move them. A region
//! is typed when everything around it agrees on the parameters and knows what a type means: it comes from
//! QuantizeLinear or from the caller, and only DequantizeLinear, movers and the caller read it. Otherwise (a file may
//! reinterpret integers, or compute with them) its nodes stay explicit and a note says so. Constants get a typed copy
//! per reader, which shares the data.

use super::rules::{constant_params, extents, fresh, is, is_any, moves_integers};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Diagnostic, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{DataType, Node, QuantParams, Scheme, TensorType, Value, ValueId};
use ottava_ops::OTTAVA;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the pass does.
pub const ABOUT: About = About { what: "quantization became part of the types", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    note_disagreements(graph, cx);
    let n = rewrite(graph, "type_qdq", |graph, uses, index| {
        let node = &graph.nodes[index];
        match node.op.as_str() {
            _ if !node.domain.is_empty() => Ok(None),
            "QuantizeLinear" => Ok(quantize(graph, uses, index)),
            "DequantizeLinear" => Ok(dequantize(graph, uses, index)),
            _ => Ok(None),
        }
    })?;
    Ok(n + graph.remove_dead())
}

fn quantize(graph: &Graph, uses: &Uses, index: usize) -> Option<Patch> {
    let node = &graph.nodes[index];
    let region = Region::around(graph, uses, *node.outputs.first()?)?;
    let mut patch = Patch::new(graph);
    region.give_types(graph, &mut patch);
    patch.remove.push(index);
    patch.insert.push(ottava_node(node, "Quantize"));
    Some(patch)
}

fn dequantize(graph: &Graph, uses: &Uses, index: usize) -> Option<Patch> {
    let node = &graph.nodes[index];
    let q = node.input(0).filter(|_| dequantizes_to_f32(graph, node))?;
    let mut patch = Patch::new(graph);
    let mut replacement = ottava_node(node, "Dequantize");
    if let Some(data) = graph.constant(q) {
        let params = params_of(graph, node, q)?;
        let ty = TensorType { quant: Some(Arc::new(params)), ..graph.ty(q).clone() };
        let name = fresh(graph, &patch, &format!("{}_typed", graph.name_of(q)));
        replacement.inputs = vec![Some(patch.value(Value { name, ty, constant: Some(data.clone()) }))];
    } else {
        Region::around(graph, uses, q)?.give_types(graph, &mut patch);
    }
    patch.remove.push(index);
    patch.insert.push(replacement);
    Some(patch)
}

fn ottava_node(from: &Node, op: &str) -> Node {
    let mut node = Node::new(from.name.clone(), op, 1);
    node.domain = OTTAVA.into();
    node.inputs = vec![from.input(0)];
    node.outputs = from.outputs.clone();
    node
}

/// The division type of QuantizeLinear is that of its scale, and `precision` may change it; the typed form divides in f32.
fn quantizes_f32(graph: &Graph, node: &Node) -> bool {
    // 0 is the scale's type, 1 is f32.
    let in_f32 = node.attrs.int("precision", 0).is_ok_and(|p| p == 0 || p == 1);
    let f32_input = |i: usize| node.input(i).is_some_and(|id| graph.ty(id).dtype == DataType::F32);
    is(node, "QuantizeLinear") && f32_input(0) && f32_input(1) && in_f32
}

fn dequantizes_to_f32(graph: &Graph, node: &Node) -> bool {
    let f32_scale = node.input(1).is_some_and(|id| graph.ty(id).dtype == DataType::F32);
    let f32_output = node.outputs.first().is_some_and(|id| graph.ty(*id).dtype == DataType::F32);
    is(node, "DequantizeLinear") && f32_scale && f32_output
}

fn params_of(graph: &Graph, node: &Node, integers: ValueId) -> Option<QuantParams> {
    let ty = graph.ty(integers);
    constant_params(graph, node, ty.dtype, &extents(ty))
}

/// Computed integers with one meaning.
struct Region {
    values: BTreeSet<ValueId>,
    params: Option<QuantParams>,
}

impl Region {
    /// The region of a value, if it can be typed.
    fn around(graph: &Graph, uses: &Uses, start: ValueId) -> Option<Self> {
        let mut region = Self { values: BTreeSet::from([start]), params: None };
        let mut open = vec![start];
        while let Some(id) = open.pop() {
            if let Some(known) = graph.ty(id).quant.as_deref() {
                region.agree(known.clone())?;
            }
            let mut next = region.see_producer(graph, uses, id)?;
            for (reader, slot) in uses.readers(id) {
                next.extend(region.see_reader(graph, &graph.nodes[*reader], *slot, id)?);
            }
            open.extend(next.into_iter().filter(|v| region.values.insert(*v)));
        }
        let per_tensor = region.params.as_ref()?.scheme == Scheme::PerTensor;
        (per_tensor || region.values.len() == 1).then_some(region)
    }

    fn agree(&mut self, params: QuantParams) -> Option<()> {
        match &self.params {
            Some(known) if *known != params => None,
            _ => {
                self.params = Some(params);
                Some(())
            }
        }
    }

    /// What computes a value must be able to make a typed one; returns the region's values on its other side.
    fn see_producer(&mut self, graph: &Graph, uses: &Uses, id: ValueId) -> Option<Vec<ValueId>> {
        let Some(node) = uses.producer(id).map(|i| &graph.nodes[i]) else {
            return graph.constant(id).is_none().then(Vec::new);
        };
        if is(node, "QuantizeLinear") {
            self.agree(params_of(graph, node, id).filter(|_| quantizes_f32(graph, node))?)?;
            return Some(vec![]);
        }
        if moves_integers(node) { Some(sides(node)) } else { graph.ty(id).quant.as_ref().map(|_| vec![]) }
    }

    /// What reads a value must know what its type means.
    fn see_reader(&mut self, graph: &Graph, node: &Node, slot: usize, id: ValueId) -> Option<Vec<ValueId>> {
        if is(node, "DequantizeLinear") && slot == 0 {
            self.agree(params_of(graph, node, id).filter(|_| dequantizes_to_f32(graph, node))?)?;
            return Some(vec![]);
        }
        if moves_integers(node) && (slot == 0 || is(node, "Concat")) {
            return Some(sides(node));
        }
        let only_shape = is_any(node, &["Shape", "Size"]);
        (only_shape || graph.ty(id).quant.is_some()).then(Vec::new)
    }

    fn give_types(self, graph: &Graph, patch: &mut Patch) {
        let quant = self.params.map(Arc::new);
        let untyped = self.values.into_iter().filter(|id| graph.ty(*id).quant.is_none());
        patch.retype.extend(untyped.map(|id| (id, TensorType { quant: quant.clone(), ..graph.ty(id).clone() })));
    }
}

/// The values between which a mover carries integers.
fn sides(node: &Node) -> Vec<ValueId> {
    let n_data = if is(node, "Concat") { node.inputs.len() } else { 1 };
    node.inputs.iter().take(n_data).flatten().chain(&node.outputs).copied().collect()
}

fn note_disagreements(graph: &Graph, cx: &mut Cx) {
    let uses = Uses::of(graph);
    for node in graph.nodes.iter().filter(|n| is(n, "QuantizeLinear")) {
        if node.outputs.first().is_some_and(|out| Region::around(graph, &uses, *out).is_none()) {
            let message = "its integers are read with other parameters, parameters that are computed, or as integers; \
                           the node stays explicit";
            cx.diagnostics.push(Diagnostic::note("Q0401", &node.name, message));
        }
    }
}
