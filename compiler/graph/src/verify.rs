//! What each phase promises, checked after it.

use crate::{Graph, Phase, Result, to_program};
use ottava_hal::Error;
use ottava_ops::lookup;
use std::collections::BTreeSet;

/// Checks a graph against its phase; the error names node or value.
///
/// (V1) indices, single producers, order, constants, quantization parameters; (V2) unique names; (V3) every operator is
/// known; (V4) canonical and later: no `Constant` node; (V5) quantized: a typed value is not read by
/// `DequantizeLinear` with constant parameters.
pub fn verify(graph: &Graph) -> Result<()> {
    to_program(graph).check()?;
    unique_names(graph)?;
    for node in &graph.nodes {
        lookup(&node.domain, &node.op)?;
        let forbidden = match graph.phase {
            Phase::Imported => false,
            Phase::Canonical | Phase::Quantized => node.domain.is_empty() && node.op == "Constant",
        };
        if forbidden {
            return Err(broken(graph, format!("node `{}` is a {}", node.name, node.op)));
        }
        if graph.phase == Phase::Quantized && reads_typed_dequantize(graph, node) {
            return Err(broken(graph, format!("node `{}` dequantizes a typed value explicitly", node.name)));
        }
    }
    Ok(())
}

fn reads_typed_dequantize(graph: &Graph, node: &ottava_hal::Node) -> bool {
    let constant = |i| node.input(i).is_none_or(|id| graph.constant(id).is_some());
    let typed = node.input(0).is_some_and(|id| graph.ty(id).quant.is_some());
    node.op == "DequantizeLinear" && typed && constant(1) && constant(2)
}

fn unique_names(graph: &Graph) -> Result<()> {
    let mut values = BTreeSet::new();
    for value in &graph.values {
        if !values.insert(value.name.as_str()) {
            return Err(Error::invalid(format!("two values are named `{}`", value.name)));
        }
    }
    let mut nodes = BTreeSet::new();
    for node in &graph.nodes {
        if !nodes.insert(node.name.as_str()) {
            return Err(Error::invalid(format!("two nodes are named `{}`", node.name)));
        }
    }
    Ok(())
}

fn broken(graph: &Graph, what: String) -> Error {
    Error::invalid(format!("the graph breaks a promise of phase {}: {what}", graph.phase))
}
