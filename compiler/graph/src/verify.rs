//! What each phase promises, checked after it.

use crate::{Graph, Phase, Result, to_program};
use ottava_hal::{Error, TensorType};
use ottava_ops::lookup;
use std::collections::BTreeSet;

/// Checks a graph against its phase; the error names node or value.
///
/// (V1) indices, single producers, order, constants, quantization parameters; (V2) unique names; (V3) every operator is
/// known; (V4) canonical and later: no `Constant` node; (V5) quantized: a typed value is not read by
/// `DequantizeLinear` with constant parameters; (V6) a state has an input of its own, and what it holds fits there.
pub fn verify(graph: &Graph) -> Result<()> {
    to_program(graph).check()?;
    unique_names(graph)?;
    check_states(graph)?;
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

fn check_states(graph: &Graph) -> Result<()> {
    let mut inputs = BTreeSet::new();
    for state in &graph.states {
        let (input, output) = (graph.inputs.get(state.input), graph.outputs.get(state.output));
        let (Some(input), Some(output)) = (input.map(|id| graph.ty(*id)), output.map(|id| graph.ty(*id))) else {
            return Err(Error::invalid(format!("state `{}` names an input or output that is not there", state.name)));
        };
        if !inputs.insert(state.input) {
            return Err(Error::invalid(format!("state `{}` shares its input with another one", state.name)));
        }
        let rank = |ty: &TensorType| ty.shape.rank();
        let same = input.dtype == output.dtype && input.quant == output.quant && rank(input) == rank(output);
        if !same || state.initial.dtype() != input.dtype || state.initial.shape().len() != rank(input) {
            let (name, initial) = (&state.name, state.initial.ty());
            return Err(Error::invalid(format!("state `{name}`: {input}, {output} after a run and {initial} differ")));
        }
    }
    Ok(())
}

fn broken(graph: &Graph, what: String) -> Error {
    Error::invalid(format!("the graph breaks a promise of phase {}: {what}", graph.phase))
}
