//! Computes nodes whose inputs are all constant, on the device that the caller hands in (the reference).
//!
//! `DequantizeLinear` of a constant stays until the last phase: the integers behind it may become the weights of an
//! integer operator. `Shape` and `Size` fold as soon as the shape is known, whatever computes the value.
//!
//! A small file cannot become a large program: all results together have at most 16 MiB and four times the bytes of the
//! constants that the graph came with. Nodes beyond that stay. Results of up to 1 KiB do not count, so that
//! the arithmetic of shapes always folds; the number of nodes bounds them.

use super::rules::{is, is_any, is_control, is_ottava};
use super::{About, Effect};
use crate::{Cx, evaluate_constant};
use ottava_graph::{Diagnostic, Graph, Patch, Result, infer_types, rewrite};
use ottava_hal::{Node, Tensor};
use std::collections::BTreeSet;

/// Bytes of results that every graph may have, beside [`GROWTH`] times its constants.
const BASE_BYTES: usize = 16 << 20;
const GROWTH: usize = 4;
/// Bytes of a result that always folds.
const SMALL_BYTES: usize = 1 << 10;

/// What the pass does.
pub const ABOUT: About = About { what: "nodes of constants were computed", effect: Effect::Exact };

/// Folds, and keeps dequantization of constants.
pub fn run(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    fold(graph, cx, |node| !is(node, "DequantizeLinear") && !is_ottava(node, "Dequantize"))
}

/// Folds everything.
pub fn run_all(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    fold(graph, cx, |_| true)
}

/// Shapes that become known make more constants (Reshape, then Shape of its result): folds until nothing changes.
fn fold(graph: &mut Graph, cx: &mut Cx, may_fold: fn(&Node) -> bool) -> Result<usize> {
    let mut refused = BTreeSet::new();
    let mut total = 0;
    cx.fold_budget.get_or_insert_with(|| initial_budget(graph));
    loop {
        let n = fold_once(graph, cx, may_fold, &mut refused)?;
        total += n;
        if n == 0 {
            return Ok(total + graph.remove_dead());
        }
        infer_types(graph)?;
    }
}

fn fold_once(
    graph: &mut Graph,
    cx: &mut Cx,
    may_fold: fn(&Node) -> bool,
    refused: &mut BTreeSet<String>,
) -> Result<usize> {
    rewrite(graph, "fold_constants", |graph, _, index| {
        let node = &graph.nodes[index];
        if !may_fold(node) || is_control(node) || refused.contains(&node.name) {
            return Ok(None);
        }
        if let Some(data) = known_shape(graph, node)? {
            return Ok(Some(replace_by(graph, index, vec![data])));
        }
        let budget = cx.fold_budget.unwrap_or(0);
        if !inputs_are_constant(graph, node) || !affordable(result_bytes(graph, node), budget) {
            return Ok(None);
        }
        match evaluate_constant(cx.folder, graph, index) {
            Ok(results) => {
                let made = results.iter().map(|t| t.bytes().len()).fold(0, usize::saturating_add);
                if made > SMALL_BYTES {
                    cx.fold_budget = Some(budget.saturating_sub(made));
                }
                Ok(Some(replace_by(graph, index, results)))
            }
            Err(e) => {
                let message = format!("not folded: {e}");
                cx.diagnostics.push(Diagnostic::note("M0401", &node.name, message));
                refused.insert(node.name.clone());
                Ok(None)
            }
        }
    })
}

fn inputs_are_constant(graph: &Graph, node: &Node) -> bool {
    let mut inputs = node.inputs.iter().flatten().peekable();
    let generates = is_any(node, &["Constant", "ConstantOfShape", "Range"]);
    (inputs.peek().is_some() || generates) && inputs.all(|id| graph.constant(*id).is_some())
}

fn initial_budget(graph: &Graph) -> usize {
    let constants = graph.values.iter().filter_map(|v| v.constant.as_ref());
    let bytes = constants.map(|t| t.bytes().len()).fold(0, usize::saturating_add);
    bytes.saturating_mul(GROWTH).saturating_add(BASE_BYTES)
}

fn affordable(bytes: usize, budget: usize) -> bool {
    bytes <= SMALL_BYTES || bytes <= budget
}

/// Bytes of a node's results. Where data decides their shape although all inputs are constant (NonZero), it is bounded
/// by eight bytes for each axis of each element.
fn result_bytes(graph: &Graph, node: &Node) -> usize {
    let sum = |bytes: &mut dyn Iterator<Item = usize>| bytes.fold(0, usize::saturating_add);
    let inputs = || node.inputs.iter().flatten().map(|id| graph.ty(*id));
    let into = sum(&mut inputs().map(|ty| ty.byte_len().unwrap_or(0)));
    let axes = inputs().map(|ty| ty.shape.rank()).max().unwrap_or(0).max(1);
    let unknown = into.saturating_mul(axes).saturating_mul(8);
    sum(&mut node.outputs.iter().map(|id| match graph.ty(*id) {
        ty if ty.shape.known().is_some() => ty.byte_len().unwrap_or(usize::MAX),
        _ => unknown,
    }))
}

/// The result of `Shape` and `Size` of a value of known shape.
fn known_shape(graph: &Graph, node: &Node) -> Result<Option<Tensor>> {
    let Some(shape) = node.input(0).and_then(|id| graph.ty(id).shape.known()) else { return Ok(None) };
    if is(node, "Size") {
        // A shape that no memory holds has no size.
        let count = |n: i64, d: &usize| n.checked_mul(i64::try_from(*d).ok()?);
        return Ok(shape.iter().try_fold(1i64, count).map(Tensor::scalar));
    }
    if !is(node, "Shape") {
        return Ok(None);
    }
    let rank = shape.len() as i64;
    let bound = |v: i64| (if v < 0 { v.saturating_add(rank) } else { v }).clamp(0, rank) as usize;
    let (start, end) = (bound(node.attrs.int("start", 0)?), bound(node.attrs.int("end", rank)?));
    let dims: Vec<i64> = shape.get(start..end.max(start)).unwrap_or(&[]).iter().map(|&d| d as i64).collect();
    Tensor::from_slice(&[dims.len()], &dims).map(Some)
}

/// Replaces a node by constants that take the names of its outputs over.
pub(super) fn replace_by(graph: &Graph, index: usize, results: Vec<Tensor>) -> Patch {
    let node = &graph.nodes[index];
    let mut patch = Patch::new(graph);
    patch.remove.push(index);
    for (id, data) in node.outputs.iter().zip(results) {
        let mut value = graph.value(*id).clone();
        value.name = super::rules::fresh(graph, &patch, &format!("{}_const", value.name));
        value.ty.shape = data.ty().shape;
        value.ty.dtype = data.dtype();
        value.constant = Some(data);
        let new = patch.value(value);
        patch.replace.push((*id, new));
        patch.swap_names.push((*id, new));
    }
    patch
}
