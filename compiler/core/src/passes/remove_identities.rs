//! Takes out nodes that change nothing: Identity, Dropout, casts to the same type, reshapes and transposes that keep
//! everything in place, zero padding, a Concat, Sum or Max of one tensor, and nodes whose results nobody reads.

use super::rules::{is, is_any};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Fused, Node, ValueId};

/// What the pass does.
pub const ABOUT: About = About { what: "nodes that change nothing, or that nobody reads, went", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let inner = remove_inner(graph);
    let n = rewrite(graph, "remove_identities", |graph, uses, index| {
        let node = &graph.nodes[index];
        if !is_removable(graph, uses, node) {
            return Ok(None);
        }
        let source = node.input(0).filter(|x| Patch::can_bypass(graph, uses, index, *x));
        Ok(source.map(|x| Patch::bypass(graph, index, x)))
    })?;
    Ok(inner + n + graph.remove_dead())
}

/// Takes out those whose result is no output of the graph, all in one sweep: a loop that was written out holds thousands,
/// and a patch for each would walk the graph as often. Inputs come before outputs, so that a chain is followed as it
/// shrinks.
fn remove_inner(graph: &mut Graph) -> usize {
    let uses = Uses::of(graph);
    let mut source: Vec<ValueId> = (0..graph.values.len()).map(ValueId).collect();
    let mut keep = Vec::with_capacity(graph.nodes.len());
    for index in 0..graph.nodes.len() {
        graph.nodes[index].inputs.iter_mut().flatten().for_each(|id| *id = source[id.0]);
        let node = &graph.nodes[index];
        let by = node.input(0).filter(|_| is_removable(graph, &uses, node) && !uses.is_output(node.outputs[0]));
        if let Some(by) = by {
            source[node.outputs[0].0] = by;
        }
        keep.push(by.is_none());
    }
    let mut flags = keep.iter();
    graph.nodes.retain(|_| flags.next().copied().unwrap_or(true));
    keep.iter().filter(|kept| !**kept).count()
}

/// Whether a node's first output is its first input and nobody reads the others.
fn is_removable(graph: &Graph, uses: &Uses, node: &Node) -> bool {
    let only_first = node.outputs.iter().skip(1).all(|id| uses.is_dead(*id));
    !node.outputs.is_empty() && only_first && is_identity(graph, node)
}

fn is_identity(graph: &Graph, node: &Node) -> bool {
    // A clamp or an activation that was fused into a node is work, whatever the node itself does.
    let Some(x) = node.input(0).filter(|_| node.fused == Fused::default()) else { return false };
    let (from, to) = (graph.ty(x), graph.ty(node.outputs[0]));
    if is_any(node, &["Identity", "Dropout"]) {
        return from.quant == to.quant && !training(graph, node);
    }
    if from.dtype != to.dtype || from.quant != to.quant || from.shape != to.shape {
        return false;
    }
    match node.op.as_str() {
        _ if !node.domain.is_empty() => false,
        "Cast" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Expand" => true,
        "Concat" | "Sum" | "Mean" | "Max" | "Min" => node.inputs.len() == 1,
        "Transpose" => match node.attrs.ints_opt("perm") {
            Ok(Some(perm)) => perm.iter().enumerate().all(|(i, v)| i as i64 == *v),
            Ok(None) => from.shape.rank() < 2,
            Err(_) => false,
        },
        "Pad" => {
            node.input(1).and_then(|id| graph.constant(id)?.to_ints().ok()).is_some_and(|p| p.iter().all(|v| *v == 0))
        }
        _ => false,
    }
}

/// A Dropout whose training flag is set, or not known, is not an identity.
fn training(graph: &Graph, node: &Node) -> bool {
    let flag = node.input(2).map(|id| graph.constant(id).and_then(|t| t.to_ints().ok()));
    is(node, "Dropout") && !matches!(flag.as_ref().map(|f| f.as_deref()), None | Some(Some([0])))
}
