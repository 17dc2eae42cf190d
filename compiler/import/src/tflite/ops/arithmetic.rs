//! Operators of two operands that broadcast, comparisons and choices.
//!
//! Quantized ADD, SUB, MUL and PRELU carry the node's mode and have the fixed-point forms of numerics.md section 4.

use super::super::cx::{Built, Cx, Layout};
use super::super::schema::Operator;
use super::activation::{Activation, push_activated};
use ottava_hal::{Node, ValueId};

/// The layout in which operands meet: that of images if one is an image already and the others can follow.
pub(crate) fn common_layout(cx: &Cx<'_>, operands: &[usize]) -> Layout {
    let any = operands.iter().any(|x| cx.layout_of(*x) == Layout::Image);
    let follows = |x: &usize| cx.def(*x).shape.len() == 4 || cx.is_constant(*x) && cx.def(*x).shape.len() <= 1;
    if any && operands.iter().all(follows) { Layout::Image } else { Layout::File }
}

/// An operand in a layout; a list of channels becomes `[1, c, 1, 1]` beside images.
pub(crate) fn operand(cx: &mut Cx<'_>, x: usize, layout: Layout) -> Built<ValueId> {
    let n = match cx.extents(x)?[..] {
        [n] if n > 1 && layout == Layout::Image && cx.is_constant(x) => n,
        _ => return cx.value(x, layout),
    };
    let (data, params) = (cx.constant(x)?.reshaped(&[1, n, 1, 1])?, cx.params(x)?);
    Ok(cx.add_constant(&cx.def(x).name.clone(), data, params))
}

/// A node of all inputs of an operator in their common layout.
pub(crate) fn node_of(
    cx: &mut Cx<'_>,
    op: &Operator<'_>,
    n: usize,
    name: &str,
    version: u32,
) -> Built<(Node, Layout, usize)> {
    let t = cx.output(op, 0)?;
    let operands = (0..n).map(|i| cx.input(op, i)).collect::<Built<Vec<_>>>()?;
    let layout = common_layout(cx, &operands);
    let mut node = cx.node(name, version, t);
    for x in operands {
        node.inputs.push(Some(operand(cx, x, layout)?));
    }
    Ok((node, layout, t))
}

/// An operator with a fused activation; `exact` has a fixed-point form.
fn arithmetic(cx: &mut Cx<'_>, op: &Operator<'_>, name: &str, exact: bool) -> Built {
    let (mut node, layout, t) = node_of(cx, op, 2, name, 14)?;
    if exact && cx.per_tensor(t)?.is_some() {
        node.requant = cx.q31();
    }
    push_activated(cx, node, Activation::fused(op, 0)?, t, layout)
}

/// ADD.
pub(crate) fn add(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    arithmetic(cx, op, "Add", true)
}

/// SUB.
pub(crate) fn sub(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    arithmetic(cx, op, "Sub", true)
}

/// MUL.
pub(crate) fn mul(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    arithmetic(cx, op, "Mul", true)
}

/// DIV.
pub(crate) fn div(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    arithmetic(cx, op, "Div", false)
}

/// An operator of `n` operands without activation.
fn plain(cx: &mut Cx<'_>, op: &Operator<'_>, n: usize, name: &str, version: u32) -> Built {
    let (node, layout, t) = node_of(cx, op, n, name, version)?;
    cx.push(node, &[t], layout)
}

/// MAXIMUM.
pub(crate) fn maximum(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 2, "Max", 13)
}

/// MINIMUM.
pub(crate) fn minimum(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 2, "Min", 13)
}

/// POW.
pub(crate) fn pow(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 2, "Pow", 15)
}

/// LESS.
pub(crate) fn less(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 2, "Less", 13)
}

/// LESS_EQUAL.
pub(crate) fn less_equal(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 2, "LessOrEqual", 16)
}

/// GREATER.
pub(crate) fn greater(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 2, "Greater", 13)
}

/// GREATER_EQUAL.
pub(crate) fn greater_equal(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 2, "GreaterOrEqual", 16)
}

/// EQUAL.
pub(crate) fn equal(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 2, "Equal", 19)
}

/// LOGICAL_AND.
pub(crate) fn logical_and(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 2, "And", 7)
}

/// LOGICAL_OR.
pub(crate) fn logical_or(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 2, "Or", 7)
}

/// LOGICAL_NOT.
pub(crate) fn logical_not(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 1, "Not", 1)
}

/// SELECT_V2, and SELECT of equal shapes.
pub(crate) fn select(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    plain(cx, op, 3, "Where", 16)
}

/// PRELU.
pub(crate) fn prelu(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (mut node, layout, t) = node_of(cx, op, 2, "PRelu", 16)?;
    if cx.per_tensor(t)?.is_some() {
        node.requant = cx.q31();
    }
    cx.push(node, &[t], layout)
}
