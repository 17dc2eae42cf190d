//! QuantizeLinear and DequantizeLinear with constant parameters become types: `ottava::Quantize` with a typed output,
//! `ottava::Dequantize` of a typed input.
//!
//! A computed integer value becomes typed when everything that gives it a meaning agrees: the QuantizeLinear that makes
//! it and every DequantizeLinear that reads it. Where they disagree (a file may reinterpret integers) the nodes stay
//! explicit and a note says so. Constants get a typed copy per reader, which shares the data.

use super::rules::{constant_params, extents, fresh, is};
use crate::Cx;
use ottava_graph::{Diagnostic, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Node, QuantParams, TensorType, Value, ValueId};
use ottava_ops::OTTAVA;
use std::sync::Arc;

/// Runs the pass.
pub fn run(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    note_disagreements(graph, cx);
    let n = rewrite(graph, "type_qdq", |graph, uses, index| {
        let node = &graph.nodes[index];
        if is(node, "QuantizeLinear") { quantize(graph, uses, index) } else { dequantize(graph, uses, index) }
    })?;
    Ok(n + graph.remove_dead())
}

fn quantize(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let node = &graph.nodes[index];
    let out = node.outputs[0];
    let Some(params) = agreed_params(graph, uses, out) else { return Ok(None) };
    let float_input = node.input(0).is_some_and(|x| graph.ty(x).dtype == ottava_hal::DataType::F32);
    if !float_input || node.attrs.int("precision", 0)? != 0 || !has_f32_scale(graph, node) {
        return Ok(None);
    }
    let mut patch = Patch::new(graph);
    patch.retype.push((out, TensorType { quant: Some(Arc::new(params)), ..graph.ty(out).clone() }));
    patch.remove.push(index);
    patch.insert.push(ottava_node(node, "Quantize"));
    Ok(Some(patch))
}

fn dequantize(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let node = &graph.nodes[index];
    let Some(q) = node.input(0).filter(|_| is(node, "DequantizeLinear") && has_f32_scale(graph, node)) else {
        return Ok(None);
    };
    if graph.ty(node.outputs[0]).dtype != ottava_hal::DataType::F32 {
        return Ok(None);
    }
    let mut patch = Patch::new(graph);
    let mut replacement = ottava_node(node, "Dequantize");
    if let Some(data) = graph.constant(q) {
        let Some(params) = params_of(graph, node, q) else { return Ok(None) };
        let ty = TensorType { quant: Some(Arc::new(params)), ..graph.ty(q).clone() };
        let name = fresh(graph, &patch, &format!("{}_typed", graph.name_of(q)));
        replacement.inputs = vec![Some(patch.value(Value { name, ty, constant: Some(data.clone()) }))];
    } else {
        let Some(params) = agreed_params(graph, uses, q) else { return Ok(None) };
        patch.retype.push((q, TensorType { quant: Some(Arc::new(params)), ..graph.ty(q).clone() }));
    }
    patch.remove.push(index);
    patch.insert.push(replacement);
    Ok(Some(patch))
}

fn ottava_node(from: &Node, op: &str) -> Node {
    let mut node = Node::new(from.name.clone(), op, 1);
    node.domain = OTTAVA.into();
    node.inputs = vec![from.input(0)];
    node.outputs = from.outputs.clone();
    node
}

/// The division type of QuantizeLinear is that of its scale; types hold f32 scales only.
fn has_f32_scale(graph: &Graph, node: &Node) -> bool {
    node.input(1).is_some_and(|s| graph.ty(s).dtype == ottava_hal::DataType::F32)
}

fn params_of(graph: &Graph, node: &Node, integers: ValueId) -> Option<QuantParams> {
    let ty = graph.ty(integers);
    constant_params(graph, node, ty.dtype, &extents(ty))
}

/// The parameters on which producer and readers of a computed integer value agree.
fn agreed_params(graph: &Graph, uses: &Uses, id: ValueId) -> Option<QuantParams> {
    let mut found: Option<QuantParams> = graph.ty(id).quant.as_deref().cloned();
    for params in opinions(graph, uses, id) {
        match (&found, params?) {
            (Some(agreed), other) if *agreed != other => return None,
            (_, other) => found = Some(other),
        }
    }
    found
}

/// What each explicit Q/DQ node around a value says; `None` for one whose parameters are not constant.
fn opinions(graph: &Graph, uses: &Uses, id: ValueId) -> Vec<Option<QuantParams>> {
    let readers = uses.readers(id).iter().filter(|(_, slot)| *slot == 0).map(|(i, _)| &graph.nodes[*i]);
    let made = uses.producer(id).map(|i| &graph.nodes[i]).filter(|n| is(n, "QuantizeLinear"));
    made.into_iter()
        .chain(readers.filter(|n| is(n, "DequantizeLinear")))
        .map(|node| params_of(graph, node, id))
        .collect()
}

fn note_disagreements(graph: &Graph, cx: &mut Cx) {
    let uses = Uses::of(graph);
    for node in graph.nodes.iter().filter(|n| is(n, "QuantizeLinear")) {
        let out = node.outputs[0];
        if agreed_params(graph, &uses, out).is_none() {
            let message = "its readers dequantize with other (or computed) parameters; the node stays explicit";
            cx.diagnostics.push(Diagnostic::note("Q0401", &node.name, message));
        }
    }
}
