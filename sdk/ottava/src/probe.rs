//! A graph that hands out inner values: every asked value becomes an output.
//!
//! A value that is an output is computed as itself by every device (nothing is fused across it), so what a probe shows is
//! what the network computes, operator by operator.

use crate::error::Result;
use crate::model::Model;
use crate::registry::Registry;
use ottava_compiler::{Cx, canonicalize, integerize};
use ottava_graph::{Diagnostic, Graph, ValueId};
use std::collections::BTreeMap;

/// The bound model after both phases: the operators that run.
pub(crate) fn lowered(model: &Model, dims: &BTreeMap<String, usize>, registry: &Registry) -> Result<Graph> {
    lowered_graph(model, &model.bind(dims)?, registry)
}

/// A bound graph that stems from a model, after both phases.
pub(crate) fn lowered_graph(model: &Model, bound: &Graph, registry: &Registry) -> Result<Graph> {
    let reference = registry.reference()?;
    let mut cx = Cx::new(reference.as_ref());
    let canonical = canonicalize(bound, &mut cx).map_err(|e| model.invalid(e))?;
    integerize(&canonical, &mut cx).map_err(|e| model.invalid(e))
}

/// The bound model in its canonical float form: activations are nodes of their own.
pub(crate) fn canonical(
    model: &Model,
    dims: &BTreeMap<String, usize>,
    registry: &Registry,
) -> Result<(Graph, Vec<Diagnostic>)> {
    let reference = registry.reference()?;
    let mut cx = Cx::new(reference.as_ref());
    let graph = canonicalize(&model.bind(dims)?, &mut cx).map_err(|e| model.invalid(e))?;
    Ok((graph, cx.diagnostics))
}

/// The model in its canonical float form with its symbols: what calibration and quantization work on.
pub(crate) fn canonical_unbound(model: &Model, registry: &Registry) -> Result<Graph> {
    let reference = registry.reference()?;
    canonicalize(&model.graph, &mut Cx::new(reference.as_ref())).map_err(|e| model.invalid(e))
}

/// The graph with further values as outputs, behind its own.
pub(crate) fn expose(graph: &Graph, values: &[ValueId]) -> Graph {
    let mut graph = graph.clone();
    let own: Vec<ValueId> = graph.caller_outputs().collect();
    graph.set_caller_outputs(own.into_iter().chain(values.iter().copied()));
    graph
}
