//! Compress (keep the slices that a condition marks) and ReverseSequence (reverse the start of each sequence).

use super::expand::extents;
use super::pad::take_rows;
use super::pick::{on_bytes, pick};
use crate::elementwise::sample::{bools, case, case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};

static COMPRESS: OpSpec = OpSpec {
    name: "Compress",
    domain: "",
    since: 9,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("axis", AttrKind::Int)],
};
static REVERSE: OpSpec = OpSpec {
    name: "ReverseSequence",
    domain: "",
    since: 10,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("batch_axis", AttrKind::Int), AttrSpec::optional("time_axis", AttrKind::Int)],
};

/// The slices that a condition marks; of the flattened input without an axis.
pub struct Compress;
/// Each sequence with its first elements reversed.
pub struct ReverseSequence;

impl Op for Compress {
    fn spec(&self) -> &'static OpSpec {
        &COMPRESS
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let condition = cx.input(1)?.constant;
        let kept = condition.map(marked).transpose()?.map(|rows| Dim::Known(rows.len()));
        let dims = match cx.attrs().int_opt("axis")? {
            None => vec![kept.unwrap_or_else(|| cx.fresh(0, 0))],
            Some(axis) => {
                let mut dims = cx.shape(0)?.to_vec();
                let axis = util::axis(axis, dims.len())?;
                dims[axis] = kept.unwrap_or_else(|| cx.fresh(0, axis));
                dims
            }
        };
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let (x, axis) = match cx.attrs().int_opt("axis")? {
            None => (x.reshaped(&[x.elements()])?, 0),
            Some(axis) => (x.clone(), util::axis(axis, x.shape().len())?),
        };
        let rows = marked(cx.input(1)?)?;
        if let Some(&last) = rows.last().filter(|&&last| last >= x.shape()[axis]) {
            return Err(Error::invalid(format!("Compress: slice {last} is outside an axis of {}", x.shape()[axis])));
        }
        Ok(vec![on_bytes(&x, |x| take_rows(x, axis, rows.len(), |i| Some(rows[i]), &[0]))?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("compress", "Compress", 11);
        let (x, condition) = (f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), bools(&[2], &[false, true]));
        let flat = case_const("flat", node.clone(), 1, &[x.clone(), condition.clone()], &[f32s(&[1], &[2.0])]);
        node.attrs = Attrs::default().with("axis", Attr::Int(0));
        vec![flat, case_const("rows", node, 1, &[x, condition], &[f32s(&[1, 2], &[3.0, 4.0])])]
    }
}

fn marked(condition: &Tensor) -> Result<Vec<usize>> {
    if condition.dtype() != DataType::Bool {
        return Err(Error::invalid(format!("Compress: the condition is {}, expected bool", condition.dtype())));
    }
    Ok(condition.bytes().iter().enumerate().filter(|(_, c)| **c != 0).map(|(i, _)| i).collect())
}

impl Op for ReverseSequence {
    fn spec(&self) -> &'static OpSpec {
        &REVERSE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let shape = x.shape();
        let batch = util::axis(cx.attrs().int("batch_axis", 1)?, shape.len())?;
        let time = util::axis(cx.attrs().int("time_axis", 0)?, shape.len())?;
        let lens = extents(&cx.input(1)?.to_ints()?)?;
        if batch == time || lens.len() != shape[batch] || lens.iter().any(|&n| n > shape[time]) {
            return Err(Error::invalid(format!("ReverseSequence: lengths {lens:?} do not fit {shape:?}")));
        }
        let strides = util::strides(shape);
        let from = |i: usize| {
            let (t, len) = (i / strides[time] % shape[time], lens[i / strides[batch] % shape[batch]]);
            if t < len { i - t * strides[time] + (len - 1 - t) * strides[time] } else { i }
        };
        Ok(vec![pick(x, shape, &(0..x.elements()).map(from).collect::<Vec<_>>())?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("reverse", "ReverseSequence", 10);
        let x = f32s(&[3, 2], &[1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
        let y = f32s(&[3, 2], &[2.0, 10.0, 1.0, 20.0, 3.0, 30.0]);
        vec![case("lengths_2_1", node, &[x, ints(DataType::S64, &[2], &[2, 1])], &[y])]
    }
}
