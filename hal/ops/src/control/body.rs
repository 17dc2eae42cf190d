//! Bodies: type inference and evaluation of a program inside of a node.

use crate::{EvalCx, InferCx, InferInput, evaluate, infer};
use ottava_hal::{Dim, Error, Node, Program, Reason, Result, Tensor, TensorType, ValueId};
use std::collections::BTreeSet;

/// Stands for the axis along which values are stacked, in the name of its symbol; no value has so many axes.
pub(super) const LENGTH_AXIS: usize = 64;

/// What inference knows of one input of a body.
pub(super) type Known<'a> = Option<InferInput<'a>>;

/// Types of a body's outputs. A type that no operator can say is the declared one.
pub(super) fn infer_body(body: &Program, inputs: &[Known]) -> Result<Vec<TensorType>> {
    check_count(body, inputs.len())?;
    let mut types: Vec<TensorType> = body.values.iter().map(|v| v.ty.clone()).collect();
    let mut data: Vec<Option<&Tensor>> = body.values.iter().map(|v| v.constant.as_ref()).collect();
    for (id, input) in body.inputs.iter().zip(inputs).filter_map(|(id, input)| Some((id.0, (*input)?))) {
        (types[id], data[id]) = (input.ty.clone(), input.constant);
    }
    for node in &body.nodes {
        let known = |id: &ValueId| InferInput { ty: &types[id.0], constant: data[id.0] };
        let inputs: Vec<Known> = node.inputs.iter().map(|id| id.as_ref().map(known)).collect();
        match infer(&InferCx { node, inputs: &inputs }) {
            Ok(found) => node.outputs.iter().zip(found).for_each(|(id, ty)| types[id.0] = ty),
            Err(Error::Unsupported { reason: Reason::DynamicShape, .. }) => {}
            Err(e) => return Err(at_node(e, node)),
        }
    }
    Ok(body.outputs.iter().map(|id| types[id.0].clone()).collect())
}

/// Evaluates a body on data. Inputs that are absent outside are absent for the nodes that read them.
pub(super) fn run_body(body: &Program, inputs: &[Option<Tensor>]) -> Result<Vec<Tensor>> {
    check_count(body, inputs.len())?;
    let mut data: Vec<Option<Tensor>> = body.values.iter().map(|v| v.constant.clone()).collect();
    body.inputs.iter().zip(inputs).for_each(|(id, tensor)| data[id.0].clone_from(tensor));
    for node in &body.nodes {
        let outputs = run_node(body, node, &data).map_err(|e| at_node(e, node))?;
        node.outputs.iter().zip(outputs).for_each(|(id, tensor)| data[id.0] = Some(tensor));
    }
    let missing = |id: &ValueId| Error::invalid(format!("the body does not compute `{}`", body.value(*id).name));
    body.outputs.iter().map(|id| data[id.0].clone().ok_or_else(|| missing(id))).collect()
}

fn run_node(body: &Program, node: &Node, data: &[Option<Tensor>]) -> Result<Vec<Tensor>> {
    let inputs: Vec<Option<&Tensor>> = node.inputs.iter().map(|id| data[(*id)?.0].as_ref()).collect();
    let types: Vec<Option<TensorType>> = inputs.iter().map(|t| t.map(Tensor::ty)).collect();
    let known = inputs.iter().zip(&types);
    let known: Vec<Known> = known.map(|(t, ty)| Some(InferInput { ty: ty.as_ref()?, constant: *t })).collect();
    let out: Vec<TensorType> = match infer(&InferCx { node, inputs: &known }) {
        Ok(types) => types,
        Err(Error::Unsupported { reason: Reason::DynamicShape, .. }) => {
            node.outputs.iter().map(|id| body.ty(*id).clone()).collect()
        }
        Err(e) => return Err(e),
    };
    let in_types: Vec<Option<&TensorType>> = types.iter().map(Option::as_ref).collect();
    let out_types: Vec<&TensorType> = out.iter().take(node.outputs.len()).collect();
    evaluate(&EvalCx { node, inputs: &inputs, in_types: &in_types, out_types: &out_types })
}

fn check_count(body: &Program, found: usize) -> Result<()> {
    match body.inputs.len() {
        expected if expected == found => Ok(()),
        expected => Err(Error::invalid(format!("the body has {expected} inputs, {found} are given"))),
    }
}

fn at_node(error: Error, node: &Node) -> Error {
    let place = format!("in the body: node `{}` ({})", node.name, node.full_op());
    match error {
        Error::Invalid(what) => Error::Invalid(format!("{place}: {what}")),
        Error::Unsupported { reason, what } => Error::Unsupported { reason, what: format!("{place}: {what}") },
        failed => failed,
    }
}

/// A type from inside a body, for an output of the node: symbols that do not come in from outside mean nothing there,
/// and each becomes a fresh one.
pub(super) fn outside(cx: &InferCx, inner: &TensorType, symbols: &BTreeSet<&str>, output: usize) -> TensorType {
    let mut ty = inner.clone();
    if ty.is_unranked() {
        return ty;
    }
    for (axis, dim) in ty.shape.0.iter_mut().enumerate() {
        if matches!(dim, Dim::Sym(s) if !symbols.contains(&**s)) {
            *dim = cx.fresh(output, axis);
        }
    }
    ty
}

/// The symbols in the shapes of a node's inputs.
pub(super) fn symbols<'a>(cx: &InferCx<'a>) -> BTreeSet<&'a str> {
    let dims = cx.inputs.iter().flatten().filter(|x| !x.ty.is_unranked()).flat_map(|x| &x.ty.shape.0);
    dims.filter_map(|d| if let Dim::Sym(s) = d { Some(&**s) } else { None }).collect()
}

/// The type that is right for both: what differs becomes open.
pub(super) fn join(cx: &InferCx, a: &TensorType, b: &TensorType, output: usize) -> Result<TensorType> {
    if a.dtype != b.dtype {
        let what = format!("output {output} is {a} on one way through the node and {b} on another");
        return Err(Error::invalid(what));
    }
    if a.is_unranked() || b.is_unranked() || a.shape.rank() != b.shape.rank() {
        return Ok(TensorType::unranked(a.dtype));
    }
    let pairs = a.shape.0.iter().zip(&b.shape.0).enumerate();
    let dims = pairs.map(|(axis, (x, y))| if x == y { x.clone() } else { cx.fresh(output, axis) });
    Ok(cx.ty(a.dtype, dims.collect()))
}

/// Whether the body of a `Loop` never ends it: its condition is the one it was given, or a constant that is true.
pub fn always_continues(body: &Program) -> bool {
    let (Some(&given), Some(&last)) = (body.inputs.get(1), body.outputs.first()) else { return false };
    let mut at = last;
    // Each step goes to an earlier node, so there are at most as many as nodes.
    for node in body.nodes.iter().rev() {
        let copies = node.domain.is_empty() && node.op == "Identity" && node.outputs.first() == Some(&at);
        at = if copies { node.input(0).unwrap_or(at) } else { at };
    }
    at == given || body.value(at).constant.as_ref().is_some_and(|t| flag(t).unwrap_or(false))
}

/// The one truth value of a condition.
pub(super) fn flag(condition: &Tensor) -> Result<bool> {
    match condition.bytes() {
        [byte] => Ok(*byte != 0),
        _ => Err(Error::invalid(format!("the condition is {}, expected one truth value", condition.ty()))),
    }
}
