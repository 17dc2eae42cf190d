//! Operators that only insert, remove or join axes: Squeeze, Unsqueeze, Flatten; and Identity.

use crate::elementwise::sample::{case, case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};

const fn spec(name: &'static str, since: u32, inputs: (usize, usize)) -> OpSpec {
    OpSpec { name, domain: "", since, inputs, outputs: (1, 1), attrs: &[] }
}

static SQUEEZE: OpSpec = spec("Squeeze", 1, (1, 2));
static UNSQUEEZE: OpSpec = spec("Unsqueeze", 1, (2, 2));
static IDENTITY: OpSpec = spec("Identity", 1, (1, 1));
static FLATTEN: OpSpec = OpSpec {
    name: "Flatten",
    domain: "",
    since: 1,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("axis", AttrKind::Int)],
};

/// Removes axes of extent 1: the given ones, or all.
pub struct Squeeze;

impl Op for Squeeze {
    fn spec(&self) -> &'static OpSpec {
        &SQUEEZE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (dims, dtype) = (cx.shape(0)?, cx.dtype(0)?);
        if cx.any_open(&[1]) {
            return Ok(vec![cx.open(dtype, cx.length(1)?.and_then(|n| dims.len().checked_sub(n)))?]);
        }
        let dims = squeezed(dims, cx.opt_const_ints(1)?.as_deref())?;
        Ok(vec![dims.map_or_else(|| TensorType::unranked(dtype), |dims| cx.ty(dtype, dims))])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let dims = squeezed(&fixed(cx.input(0)?), cx.opt_ints(1)?.as_deref())?;
        Ok(vec![reshaped(cx.input(0)?, &dims.unwrap_or_default())?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("squeeze", "Squeeze", 21);
        let x = |shape: &[usize]| f32s(shape, &[1.0, 2.0]);
        let axes = ints(DataType::S64, &[1], &[-1]);
        vec![
            case_const("axes", node.clone(), 1, &[x(&[1, 2, 1]), axes], &[x(&[1, 2])]),
            case("all", node, &[x(&[1, 2, 1])], &[x(&[2])]),
        ]
    }
}

/// The dimensions without the axes; `None` if all axes of extent 1 are meant and a symbol may be one.
fn squeezed(dims: &[Dim], axes: Option<&[i64]>) -> Result<Option<Vec<Dim>>> {
    let one = Dim::Known(1);
    let Some(axes) = axes else {
        let fixed = dims.iter().all(|d| d.known().is_some());
        return Ok(fixed.then(|| dims.iter().filter(|d| **d != one).cloned().collect()));
    };
    let axes = axes.iter().map(|&a| util::axis(a, dims.len())).collect::<Result<Vec<_>>>()?;
    if let Some(&a) = axes.iter().find(|&&a| dims[a].known().is_some_and(|n| n != 1)) {
        return Err(Error::invalid(format!("Squeeze: axis {a} of {dims:?} is not 1")));
    }
    Ok(Some(dims.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, d)| d.clone()).collect()))
}

/// Inserts axes of extent 1.
pub struct Unsqueeze;

impl Op for Unsqueeze {
    fn spec(&self) -> &'static OpSpec {
        &UNSQUEEZE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (dims, dtype) = (cx.shape(0)?, cx.dtype(0)?);
        match cx.known_ints(1)? {
            Some(axes) => Ok(vec![cx.ty(dtype, unsqueezed(dims, &axes)?)]),
            None => Ok(vec![cx.open(dtype, cx.length(1)?.map(|n| n.saturating_add(dims.len())))?]),
        }
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        Ok(vec![reshaped(x, &unsqueezed(&fixed(x), &cx.input(1)?.to_ints()?)?)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("unsqueeze", "Unsqueeze", 21);
        let x = |shape: &[usize]| f32s(shape, &[1.0, 2.0]);
        let axes = ints(DataType::S64, &[2], &[-1, 0]);
        vec![case_const("both_ends", node, 1, &[x(&[2]), axes], &[x(&[1, 2, 1])])]
    }
}

fn unsqueezed(dims: &[Dim], axes: &[i64]) -> Result<Vec<Dim>> {
    let rank = dims.len() + axes.len();
    let mut sorted = axes.iter().map(|&a| util::axis(a, rank)).collect::<Result<Vec<_>>>()?;
    sorted.sort_unstable();
    if sorted.windows(2).any(|w| w[0] == w[1]) {
        return Err(Error::invalid(format!("Unsqueeze: axes {axes:?} name one axis twice")));
    }
    let mut dims = dims.to_vec();
    sorted.into_iter().for_each(|a| dims.insert(a, Dim::Known(1)));
    Ok(dims)
}

/// Two axes: the product before `axis` and the product from it on.
pub struct Flatten;

impl Op for Flatten {
    fn spec(&self) -> &'static OpSpec {
        &FLATTEN
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dims = cx.shape(0)?;
        let (before, after) = dims.split_at(flatten_axis(cx.attrs(), dims.len())?);
        let rows = joined(before).unwrap_or_else(|| cx.fresh(0, 0));
        let columns = joined(after).unwrap_or_else(|| cx.fresh(0, 1));
        Ok(vec![cx.ty(cx.dtype(0)?, vec![rows, columns])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let (before, after) = x.shape().split_at(flatten_axis(cx.attrs(), x.shape().len())?);
        Ok(vec![x.reshaped(&[before.iter().product(), after.iter().product()])?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("flatten", "Flatten", 21);
        let x = |shape: &[usize]| f32s(shape, &[1.0, 2.0, 3.0, 4.0]);
        let plain = case("default_axis", node.clone(), &[x(&[1, 2, 2])], &[x(&[1, 4])]);
        node.attrs = Attrs::default().with("axis", Attr::Int(0));
        vec![plain, case("axis_0", node, &[x(&[2, 2])], &[x(&[1, 4])])]
    }
}

fn flatten_axis(attrs: &Attrs, rank: usize) -> Result<usize> {
    match attrs.int("axis", 1)? {
        a if a == rank as i64 => Ok(rank),
        a => util::axis(a, rank),
    }
}

/// The product of dimensions, if it is a number or a single symbol.
fn joined(dims: &[Dim]) -> Option<Dim> {
    let known = dims.iter().filter_map(Dim::known).try_fold(1usize, usize::checked_mul)?;
    let mut symbols = dims.iter().filter(|d| d.known().is_none());
    match (symbols.next(), symbols.next()) {
        (None, _) => Some(Dim::Known(known)),
        (Some(one), None) if known == 1 => Some(one.clone()),
        _ => None,
    }
}

/// The input itself.
pub struct Identity;

impl Op for Identity {
    fn spec(&self) -> &'static OpSpec {
        &IDENTITY
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        Ok(vec![cx.input(0)?.clone()])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let x = [f32s(&[2], &[1.0, 2.0])];
        vec![case("plain", Node::new("identity", "Identity", 13), &x, &x)]
    }
}

/// A tensor's shape as dimensions.
pub fn fixed(x: &Tensor) -> Vec<Dim> {
    x.shape().iter().map(|&n| Dim::Known(n)).collect()
}

fn reshaped(x: &Tensor, dims: &[Dim]) -> Result<Tensor> {
    x.reshaped(&dims.iter().filter_map(Dim::known).collect::<Vec<_>>())
}
