//! Type inference over a graph, and binding of symbolic dimensions.

use crate::{Diagnostic, Graph, Result};
use ottava_hal::{Dim, Error, Node, Reason, Shape, TensorType, ValueId};
use ottava_ops::{InferCx, InferInput};
use std::collections::{BTreeMap, BTreeSet};

/// The largest tensor of a graph: 8 GiB.
const MAX_TENSOR_BYTES: usize = 8 << 30;
/// Dimensions of a tensor of a graph; no file format says more.
const MAX_RANK: usize = 32;

/// Types of a node's outputs, from the types and constants of the graph.
pub fn infer_node(graph: &Graph, node: &Node) -> Result<Vec<TensorType>> {
    let input = |id: &ValueId| InferInput { ty: graph.ty(*id), constant: graph.constant(*id) };
    let inputs: Vec<Option<InferInput>> = node.inputs.iter().map(|id| id.as_ref().map(input)).collect();
    ottava_ops::infer(&InferCx { node, inputs: &inputs })
        .map_err(|e| with_context(e, &format!("node `{}` ({})", node.name, node.full_op())))
}

fn with_context(error: Error, place: &str) -> Error {
    match error {
        Error::Invalid(what) => Error::Invalid(format!("{place}: {what}")),
        Error::Unsupported { reason, what } => Error::Unsupported { reason, what: format!("{place}: {what}") },
        failed => failed,
    }
}

/// Infers the type of every computed value, in order.
///
/// Values that are quantized keep element type and parameters and take the inferred shape. Where an operator cannot
/// say its rank, the declared shape stays and a note is left. A tensor that no machine should hold is an error.
pub fn infer_types(graph: &mut Graph) -> Result<Vec<Diagnostic>> {
    let mut notes = Vec::new();
    for i in 0..graph.nodes.len() {
        let node = &graph.nodes[i];
        let types = match infer_node(graph, node) {
            Ok(types) => types,
            Err(Error::Unsupported { reason: Reason::DynamicShape, what }) => {
                notes.push(Diagnostic::note("M0301", &node.name, what));
                continue;
            }
            Err(e) => return Err(e),
        };
        let outputs = node.outputs.clone();
        let (name, op) = (node.name.clone(), node.full_op());
        for (id, ty) in outputs.into_iter().zip(types) {
            check_size(&name, &op, &ty)?;
            if ty.is_unranked() {
                let what = format!("node `{name}` ({op}): data decides how many dimensions the output has");
                notes.push(Diagnostic::note("M0301", &name, what));
            }
            let value = &mut graph.values[id.0];
            let shape = refine(&value.ty, &ty);
            value.ty = match &value.ty.quant {
                Some(_) => TensorType { shape, ..value.ty.clone() },
                None => TensorType { shape, dtype: ty.dtype, ..value.ty.clone() },
            };
        }
    }
    Ok(notes)
}

fn check_size(name: &str, op: &str, ty: &TensorType) -> Result<()> {
    let rank = ty.shape.rank();
    if !ty.is_unranked() && rank > MAX_RANK {
        let what = format!("node `{name}` ({op}): its output has {rank} dimensions; at most {MAX_RANK} are supported");
        return Err(Error::invalid(what));
    }
    let bytes = match ty.shape.known() {
        Some(_) => ty.byte_len().unwrap_or(usize::MAX),
        None => 0,
    };
    if bytes <= MAX_TENSOR_BYTES {
        return Ok(());
    }
    let size = if bytes == usize::MAX { "more bytes than can be addressed".into() } else { format!("{bytes} bytes") };
    let what = format!("node `{name}` ({op}): its output {ty} has {size}; at most {MAX_TENSOR_BYTES} are supported");
    Err(Error::invalid(what))
}

/// The inferred shape; where it has a fresh symbol or no rank, a declared number, name or rank is better.
fn refine(declared: &TensorType, inferred: &TensorType) -> Shape {
    if inferred.is_unranked() {
        return declared.shape.clone();
    }
    if declared.is_unranked() {
        return inferred.shape.clone();
    }
    let (declared, inferred) = (&declared.shape, inferred.shape.clone());
    if declared.rank() != inferred.rank() {
        return inferred;
    }
    let pick = |(d, i): (&Dim, Dim)| match &i {
        Dim::Sym(s) if s.contains(':') => d.clone(),
        _ => i,
    };
    Shape(declared.0.iter().zip(inferred.0).map(pick).collect())
}

/// The symbols in the shapes of a graph's inputs, in order of appearance.
pub fn symbols(graph: &Graph) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let dims = graph.inputs.iter().flat_map(|id| &graph.ty(*id).shape.0);
    dims.filter_map(|d| match d {
        Dim::Sym(s) if seen.insert(s.clone()) => Some(s.to_string()),
        _ => None,
    })
    .collect()
}

/// The graph with every symbol of its inputs bound, and all types inferred anew. A symbol that `dims` does not name
/// takes `default`. Naming a symbol that the model does not have is an error.
pub fn bind(graph: &Graph, dims: &BTreeMap<String, usize>, default: usize) -> Result<Graph> {
    let known = symbols(graph);
    if let Some(unknown) = dims.keys().find(|k| !known.contains(k)) {
        let list = if known.is_empty() { "none".to_string() } else { known.join(", ") };
        return Err(Error::invalid(format!("the model has no dimension `{unknown}`; it has: {list}")));
    }
    let value_of = |s: &str| dims.get(s).copied().unwrap_or(default);
    let mut bound = graph.clone();
    for value in &mut bound.values {
        for dim in &mut value.ty.shape.0 {
            if let Dim::Sym(s) = dim
                && known.iter().any(|k| k.as_str() == &**s)
            {
                *dim = Dim::Known(value_of(s));
            }
        }
    }
    forget_computed_symbols(&mut bound);
    infer_types(&mut bound)?;
    Ok(bound)
}

/// Declared symbols of computed values (`unk__127`) mean nothing once the inputs are bound: inference names them anew.
fn forget_computed_symbols(graph: &mut Graph) {
    for id in graph.nodes.iter().flat_map(|n| &n.outputs) {
        let value = &mut graph.values[id.0];
        if value.ty.is_unranked() {
            continue;
        }
        for (axis, dim) in value.ty.shape.0.iter_mut().enumerate() {
            if matches!(dim, Dim::Sym(_)) {
                *dim = Dim::Sym(format!("{}:{axis}", value.name).into());
            }
        }
    }
}
