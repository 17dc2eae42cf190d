//! `exp(x - max) / sum` along one axis becomes Softmax.
//!
//! Only the form that subtracts the row's maximum is taken: without it `exp` may overflow where Softmax does not. The
//! maximum and the sum may lose the axis and get it back by a Reshape; a `max(-inf, .)` between is nothing. The
//! operator is the same f32 sequence (numerics.md section 7), so at most the order of a sum changes.

use super::moments::unshaped;
use super::pattern::View;
use super::rules::is_any;
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Attr, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Dim, Node, ValueId};
use std::collections::BTreeSet;

/// What the pass does.
pub const ABOUT: About =
    About { what: "spelled-out exponentials over their sum became Softmax", effect: Effect::Rounds };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "fuse_softmax", rule)?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let view = View { graph, uses };
    let root = &graph.nodes[index];
    let [y] = root.outputs[..] else { return Ok(None) };
    let Some((x, axis, inside)) = softmax(view, y).filter(|_| view.is_f32(y)) else { return Ok(None) };
    if view.shape(x) != view.shape(y) || !view.is_closed(&inside, index) {
        return Ok(None);
    }
    let mut node = Node::new(root.name.clone(), "Softmax", 13);
    node.inputs = vec![Some(x)];
    node.outputs = root.outputs.clone();
    node.attrs.set("axis", Attr::Int(axis as i64));
    let mut patch = Patch::new(graph);
    patch.remove.push(index);
    patch.insert.push(node);
    Ok(Some(patch))
}

/// The argument and the axis of the Softmax that a value is, with the nodes of the pattern.
fn softmax(view: View, y: ValueId) -> Option<(ValueId, usize, BTreeSet<usize>)> {
    let (root, quotient) = view.op(y, "Div")?;
    let mut inside = BTreeSet::from([root]);
    let (e, sum_at) = (quotient.input(0)?, quotient.input(1)?);
    let (exp_index, exp) = view.op(e, "Exp")?;
    let (sub_index, sub) = view.op(exp.input(0)?, "Sub")?;
    inside.extend([exp_index, sub_index]);
    let (x, max_at) = (sub.input(0)?, sub.input(1)?);
    let axis = reduced(view, sum_at, "ReduceSum", e, &mut inside)?;
    let same = reduced(view, max_at, "ReduceMax", x, &mut inside)? == axis;
    same.then_some((x, axis, inside))
}

/// The axis over which `at` is the reduction of `of`; the result must broadcast along it.
fn reduced(view: View, at: ValueId, op: &str, of: ValueId, inside: &mut BTreeSet<usize>) -> Option<usize> {
    let mut kept = view.shape(of).clone();
    let mut id = unshaped(view, at, inside);
    if let Some((index, orders)) = view.both_orders(id, "Max") {
        let below = |c: ValueId| view.scalar(c) == Some(f64::NEG_INFINITY);
        let (inner, _) = orders.into_iter().find(|(_, c)| below(*c))?;
        inside.insert(index);
        id = unshaped(view, inner, inside);
    }
    let (index, node) = view.producer(id).filter(|(_, n)| is_any(n, &[op]))?;
    inside.insert(index);
    let axes = view.graph.constant(node.input(1)?)?.to_ints().ok()?;
    let [axis] = axes[..] else { return None };
    let axis = ottava_ops::util::axis(axis, kept.rank()).ok()?;
    *kept.0.get_mut(axis)? = Dim::Known(1);
    (node.input(0) == Some(of) && *view.shape(at) == kept).then_some(axis)
}
