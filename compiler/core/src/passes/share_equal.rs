//! Common subexpressions: of two nodes with the same operator, attributes and inputs the later one goes, and constants
//! with the same type and bytes become one. Two quantizations of one value with the same parameters are such a pair.
//!
//! No bit changes. Operators that draw random numbers are left alone.

use super::pattern::View;
use super::rules::is_any;
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Node, ValueId};
use std::collections::HashMap;

/// Operators whose result is not a function of their inputs.
const RANDOM: &[&str] =
    &["RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout"];

/// What the pass does.
pub const ABOUT: About = About { what: "equal nodes and equal constants were shared", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let shared = share_constants(graph);
    let n = rewrite(graph, "share_equal", rule)?;
    Ok(shared + n + graph.remove_dead())
}

/// Lets every reader of a constant read the first one with the same type and bytes. Returns how many were replaced.
fn share_constants(graph: &mut Graph) -> usize {
    let mut first: HashMap<(String, &[u8]), ValueId> = HashMap::new();
    let mut same: HashMap<ValueId, ValueId> = HashMap::new();
    let read: Vec<ValueId> = graph.nodes.iter().flat_map(|n| n.inputs.iter().flatten().copied()).collect();
    for id in read {
        let Some(data) = graph.constant(id) else { continue };
        // The text of a type holds its quantization too.
        let kept = *first.entry((format!("{:?}", graph.ty(id)), data.bytes())).or_insert(id);
        if kept != id {
            same.insert(id, kept);
        }
    }
    for id in graph.nodes.iter_mut().flat_map(|n| n.inputs.iter_mut()).flatten() {
        *id = same.get(id).copied().unwrap_or(*id);
    }
    same.len()
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let view = View { graph, uses };
    let node = &graph.nodes[index];
    let computed = |id: &ValueId| view.uses.producer(*id).is_some() || graph.constant(*id).is_none();
    // Equal nodes read the same values: the one with the fewest readers leads to them soonest.
    let inputs = node.inputs.iter().flatten().filter(|id| computed(id));
    let Some(via) = inputs.min_by_key(|id| uses.readers(**id).len()) else { return Ok(None) };
    if is_any(node, RANDOM) || node.outputs.is_empty() {
        return Ok(None);
    }
    let earlier = uses.readers(*via).iter().map(|(i, _)| *i).filter(|i| *i < index);
    let Some(twin) = earlier.map(|i| &graph.nodes[i]).find(|other| is_equal(graph, node, other)) else {
        return Ok(None);
    };
    let can_go = |(out, by): (&ValueId, &ValueId)| !uses.is_output(*out) || !uses.is_output(*by);
    if !node.outputs.iter().zip(&twin.outputs).all(can_go) {
        return Ok(None);
    }
    let mut patch = Patch::new(graph);
    patch.remove.push(index);
    for (out, by) in node.outputs.iter().zip(&twin.outputs) {
        patch.replace.push((*out, *by));
        if uses.is_output(*out) {
            patch.swap_names.push((*out, *by));
        }
    }
    Ok(Some(patch))
}

/// Whether two nodes compute the same values of the same types.
fn is_equal(graph: &Graph, a: &Node, b: &Node) -> bool {
    let same_work = a.op == b.op
        && a.domain == b.domain
        && a.version == b.version
        && a.inputs == b.inputs
        && a.attrs == b.attrs
        && a.requant == b.requant
        && a.fused == b.fused;
    let types = a.outputs.iter().zip(&b.outputs);
    same_work && a.outputs.len() == b.outputs.len() && types.into_iter().all(|(x, y)| graph.ty(*x) == graph.ty(*y))
}
