//! Transposes move down, behind operators that work on each element or along named axes, until they meet another
//! Transpose that undoes them: files of NHWC networks lose the pairs around their layers.
//!
//! A Transpose passes an operator only where that leads somewhere: another Transpose follows, all data of the operator
//! is transposed alike (several become one), or a reduction takes the moved axes away. Axes and pads are renamed,
//! constants that broadcast are transposed the other way. No bit changes: every element is computed from the same
//! numbers in the same order, reductions over several axes excepted, which therefore stay.

use super::cancel_transposes::perm;
use super::pattern::{View, is_plain};
use super::permuted::{Operand, Permuted};
use super::rules::is_any;
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Node, ValueId};

/// How far a following Transpose is searched.
const REACH: usize = 12;
/// Operators whose every input is data of one layout.
const MANY: &[&str] = &["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Concat", "PRelu", "Where"];
/// Operators whose first input is data, and whose others are parameters that [`Permuted`] can rename.
const FIRST: &[&str] = &[
    "QuantizeLinear",
    "DequantizeLinear",
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "Softmax",
    "LogSoftmax",
    "Pad",
    "Clip",
    "Cast",
    "Identity",
];

/// What the pass does.
pub const ABOUT: About =
    About { what: "Transposes moved behind other operators until they met", effect: Effect::Exact };

/// Runs the pass: where two met and went, others may go on.
pub fn run(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    let mut total = 0;
    loop {
        let n = rewrite(graph, "sink_transposes", rule)?;
        let met = if n == 0 { 0 } else { super::cancel_transposes::run(graph, cx)? };
        total += n + met;
        if met == 0 {
            return Ok(total + graph.remove_dead());
        }
    }
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let view = View { graph, uses };
    let node = &graph.nodes[index];
    let [y] = node.outputs[..] else { return Ok(None) };
    if !is_plain(node) || !passes(node) {
        return Ok(None);
    }
    let Some((order, operands)) = transposed_operands(view, node)? else { return Ok(None) };
    let several = operands.iter().filter(|o| matches!(o, Some(Operand::Transposed { .. }))).count() > 1;
    let Some(permuted) = Permuted::of(graph, node, &order, operands)? else { return Ok(None) };
    if !several && !permuted.ends_here() && !leads_to_transpose(view, y, REACH) {
        return Ok(None);
    }
    permuted.patch(graph, index).map(Some)
}

/// Whether a Transpose can pass a node at all.
fn passes(node: &Node) -> bool {
    is_any(node, MANY) || is_any(node, FIRST) || is_elementwise(node)
}

/// Whether a node is a function of each element of its only input.
fn is_elementwise(node: &Node) -> bool {
    let unary = || {
        let op = ottava_ops::lookup(&node.domain, &node.op);
        op.is_ok_and(|op| matches!(op.quant_rule(node), ottava_ops::QuantRule::Unary))
    };
    node.domain.is_empty() && node.inputs.len() == 1 && (is_any(node, &["Relu", "Neg", "Not", "Abs"]) || unary())
}

/// A permutation, and what each input of a node is under it.
type Transposed = (Vec<usize>, Vec<Option<Operand>>);

/// The common permutation of a node's transposed data, with what each input is; `None` where they do not agree.
fn transposed_operands(view: View, node: &Node) -> Result<Option<Transposed>> {
    let n_data = if is_any(node, MANY) { node.inputs.len() } else { 1 };
    let mut order: Option<Vec<usize>> = None;
    let mut operands = Vec::with_capacity(node.inputs.len());
    for (slot, input) in node.inputs.iter().enumerate() {
        let operand = match input {
            None => None,
            Some(_) if slot >= n_data => Some(Operand::Parameter),
            Some(id) if view.graph.constant(*id).is_some() => Some(Operand::Constant(*id)),
            Some(id) => {
                let Some((p, source)) = transposed(view, *id)? else { return Ok(None) };
                if order.get_or_insert_with(|| p.clone()) != &p {
                    return Ok(None);
                }
                Some(Operand::Transposed { source })
            }
        };
        operands.push(operand);
    }
    Ok(order.map(|order| (order, operands)))
}

/// The permutation and source of a value that a Transpose makes.
fn transposed(view: View, id: ValueId) -> Result<Option<(Vec<usize>, ValueId)>> {
    let Some((_, node)) = view.op(id, "Transpose") else { return Ok(None) };
    let typed = view.graph.ty(id).quant.is_some();
    Ok(perm(view.graph, node)?.filter(|_| !typed).zip(node.input(0)))
}

/// Whether a way on from a value comes to a Transpose, or to a reduction that may take the moved axes away, through
/// operators that a Transpose passes.
fn leads_to_transpose(view: View, id: ValueId, reach: usize) -> bool {
    let on = |(index, _): &(usize, usize)| {
        let node = &view.graph.nodes[*index];
        let goes_on = passes(node) && is_plain(node) && reach > 0;
        let takes_axes = node.op.starts_with("Reduce") && node.attrs.int("keepdims", 1).is_ok_and(|k| k == 0);
        is_any(node, &["Transpose"])
            || takes_axes
            || goes_on && node.outputs.iter().any(|y| leads_to_transpose(view, *y, reach - 1))
    };
    let readers = view.uses.readers(id);
    !view.uses.is_output(id) && !readers.is_empty() && readers.iter().any(on)
}
