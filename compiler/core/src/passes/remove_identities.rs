//! Takes out nodes that change nothing: Identity, Dropout, casts to the same type, reshapes and transposes that keep
//! everything in place, zero padding, a Concat, Sum or Max of one tensor, and nodes whose results nobody reads.

use super::rules::{is, is_any};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, rewrite};
use ottava_hal::{Fused, Node};

/// What the pass does.
pub const ABOUT: About = About { what: "nodes that change nothing, or that nobody reads, went", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "remove_identities", |graph, uses, index| {
        let node = &graph.nodes[index];
        let only_first = node.outputs.iter().skip(1).all(|id| uses.is_dead(*id));
        if node.outputs.is_empty() || !only_first || !is_identity(graph, node) {
            return Ok(None);
        }
        let source = node.input(0).filter(|x| Patch::can_bypass(graph, uses, index, *x));
        Ok(source.map(|x| Patch::bypass(graph, index, x)))
    })?;
    Ok(n + graph.remove_dead())
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
