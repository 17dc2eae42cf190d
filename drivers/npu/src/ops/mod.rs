//! Operators: what each accepts, and how it becomes steps. One file per operator or family.

pub(crate) mod average_pool;
pub(crate) mod binary;
pub(crate) mod concat;
pub(crate) mod constants;
pub(crate) mod conv;
pub(crate) mod cut;
pub(crate) mod lut;
pub(crate) mod matrix;
pub(crate) mod max_pool;
pub(crate) mod mean;
pub(crate) mod pad;
pub(crate) mod pick;
pub(crate) mod rescale;
pub(crate) mod softmax;
pub(crate) mod transpose;
pub(crate) mod views;

use crate::lower::{Builder, Params, clamp_of, params};
use ottava_hal::{Error, Node, Reason, Result, ValueId};

/// Input `i` of a node, which must be present.
fn input(node: &Node, i: usize) -> Result<ValueId> {
    node.input(i).ok_or_else(|| Error::invalid(format!("{}: input {i} is missing", node.full_op())))
}

/// The output of a node.
fn output(node: &Node) -> Result<ValueId> {
    node.outputs.first().copied().ok_or_else(|| Error::invalid(format!("{} has no output", node.full_op())))
}

/// Parameters of a value.
fn params_of(builder: &Builder<'_>, id: ValueId) -> Result<Params> {
    params(builder.ty(id))
}

/// Parameters of a node's output, its clamp folded in.
fn clamped(builder: &Builder<'_>, node: &Node) -> Result<Params> {
    let out = params_of(builder, output(node)?)?;
    let (lo, hi) = clamp_of(node, &out)?;
    Ok(Params { lo, hi, ..out })
}

/// A refusal because of shapes.
fn bad_shape(what: String) -> Error {
    Error::unsupported(Reason::ShapeLimit, what)
}

/// Two values with as many elements.
fn same_elements(builder: &Builder<'_>, x: ValueId, y: ValueId) -> Result<usize> {
    let (xd, yd) = (builder.dims(x)?, builder.dims(y)?);
    let n = xd.iter().product();
    if n == yd.iter().product::<usize>() { Ok(n) } else { Err(bad_shape(format!("{xd:?} to {yd:?}"))) }
}
