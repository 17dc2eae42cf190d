//! `Transpose -> Transpose` becomes one Transpose, or none where the two undo each other.

use super::rules::is;
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Attr, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Fused, Node};

/// What the pass does.
pub const ABOUT: About = About { what: "pairs of Transposes became one or none", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "cancel_transposes", rule)?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let second = &graph.nodes[index];
    let Some(x) = second.input(0).filter(|_| is(second, "Transpose")) else { return Ok(None) };
    let Some(first) = uses.producer(x).map(|i| &graph.nodes[i]).filter(|n| is(n, "Transpose")) else { return Ok(None) };
    let (Some(p), Some(q)) = (perm(graph, first)?, perm(graph, second)?) else { return Ok(None) };
    let types = [first.input(0), Some(x), Some(second.outputs[0])].map(|id| id.map(|v| graph.ty(v).quant.clone()));
    let clamps = first.fused != Fused::default() || second.fused != Fused::default();
    if p.len() != q.len() || types[0] != types[1] || types[1] != types[2] || clamps {
        return Ok(None);
    }
    let both: Vec<i64> = q.iter().map(|&i| p[i] as i64).collect();
    let mut node = second.clone();
    node.inputs[0] = first.input(0);
    node.attrs.set("perm", Attr::Ints(both.clone()));
    if both.iter().enumerate().all(|(i, v)| i as i64 == *v) {
        let source = first.input(0).filter(|s| Patch::can_bypass(graph, uses, index, *s));
        return Ok(source.map(|s| Patch::bypass(graph, index, s)));
    }
    let mut patch = Patch::new(graph);
    patch.remove.push(index);
    patch.insert.push(node);
    Ok(Some(patch))
}

/// The permutation of a Transpose, or `None` if it is no permutation of its input's axes.
pub fn perm(graph: &Graph, node: &Node) -> Result<Option<Vec<usize>>> {
    let Some(rank) = node.input(0).map(|id| graph.ty(id).shape.rank()) else { return Ok(None) };
    let perm: Vec<usize> = match node.attrs.ints_opt("perm")? {
        Some(p) => p.iter().filter_map(|v| usize::try_from(*v).ok()).collect(),
        None => (0..rank).rev().collect(),
    };
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    Ok((sorted == (0..rank).collect::<Vec<_>>()).then_some(perm))
}
