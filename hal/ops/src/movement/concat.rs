//! Concat: tensors joined along an axis.
//!
//! * (C1) quantized inputs are brought to the output's parameters and then copied (numerics.md section 4).

use crate::elementwise::sample::{case, f32s, ints, quant_case};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Concat;

static SPEC: OpSpec = OpSpec {
    name: "Concat",
    domain: "",
    since: 4,
    inputs: (1, usize::MAX),
    outputs: (1, 1),
    attrs: &[AttrSpec::required("axis", AttrKind::Int)],
};

impl Op for Concat {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let mut dims = cx.shape(0)?.to_vec();
        let axis = util::axis(cx.attrs().int("axis", 0)?, dims.len())?;
        let mut total = Some(0usize);
        for i in 0..cx.inputs.len() {
            let other = cx.shape(i)?;
            if other.len() != dims.len() {
                return Err(Error::invalid(format!(
                    "Concat: input {i} has rank {}, input 0 {}",
                    other.len(),
                    dims.len()
                )));
            }
            total = total.zip(other[axis].known()).and_then(|(sum, n)| sum.checked_add(n));
            for (a, dim) in dims.iter_mut().enumerate().filter(|(a, _)| *a != axis) {
                merge(dim, &other[a], i)?;
            }
        }
        if cx.inputs.len() > 1 {
            dims[axis] = total.map_or_else(|| cx.fresh(0, axis), Dim::Known);
        }
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let axis = util::axis(cx.attrs().int("axis", 0)?, cx.input(0)?.shape().len())?;
        let parts = (0..cx.inputs.len()).map(|i| cx.input(i)).collect::<Result<Vec<_>>>()?;
        Ok(vec![concat(&parts, axis)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let (Some(to), Some(dtype)) = (cx.out_quant(0), cx.out_dtype(0)) else { return Ok(None) };
        if to.as_per_tensor().is_none() {
            return Ok(None);
        }
        let mut moved = Vec::with_capacity(cx.inputs.len());
        for i in 0..cx.inputs.len() {
            let Some(from) = cx.in_quant(i) else { return Ok(None) };
            moved.push(crate::requantize(cx.input(i)?, from, dtype, to)?);
        }
        let axis = util::axis(cx.attrs().int("axis", 0)?, cx.input(0)?.shape().len())?;
        Ok(Some(vec![concat(&moved.iter().collect::<Vec<_>>(), axis)?]))
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("concat", "Concat", 13);
        node.attrs = Attrs::default().with("axis", Attr::Int(-1));
        let (a, b) = (f32s(&[2, 1], &[1.0, 2.0]), f32s(&[2, 2], &[3.0, 4.0, 5.0, 6.0]));
        let u8s = |v: &[i64]| ints(DataType::U8, &[v.len()], v);
        let inputs = [(u8s(&[10, 20]), 0.5, 10), (u8s(&[3, 255]), 1.0, 0)];
        vec![
            case("columns", node.clone(), &[a, b], &[f32s(&[2, 3], &[1.0, 3.0, 4.0, 2.0, 5.0, 6.0])]),
            quant_case("c1_requantized", node, &inputs, (u8s(&[10, 20, 16, 255]), 0.5, 10)),
        ]
    }
}

/// Two dimensions that must be equal; a number is better than a symbol.
fn merge(dim: &mut Dim, other: &Dim, input: usize) -> Result<()> {
    match (dim.known(), other.known()) {
        (Some(a), Some(b)) if a != b => {
            Err(Error::invalid(format!("Concat: input {input} has extent {b} where input 0 has {a}")))
        }
        (None, Some(_)) => {
            *dim = other.clone();
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Tensors of one type joined along an axis.
pub fn concat(parts: &[&Tensor], axis: usize) -> Result<Tensor> {
    let first = parts[0];
    let mut shape = first.shape().to_vec();
    shape[axis] = 0;
    for (i, part) in parts.iter().enumerate() {
        let fits = |(a, (&n, &m)): (usize, (&usize, &usize))| a == axis || n == m;
        let same_shape =
            part.shape().len() == shape.len() && part.shape().iter().zip(first.shape()).enumerate().all(fits);
        if part.dtype() != first.dtype() || !same_shape {
            return Err(Error::invalid(format!("Concat: input {i} is {}, input 0 is {}", part.ty(), first.ty())));
        }
        shape[axis] = shape[axis].checked_add(part.shape()[axis]).ok_or_else(|| Error::invalid("Concat: too large"))?;
    }
    if first.dtype().bits() < 8 {
        let wide = parts.iter().map(|p| super::pick::on_wide(p)).collect::<Result<Vec<_>>>()?;
        let joined = concat(&wide.iter().collect::<Vec<_>>(), axis)?;
        return Tensor::from_ints(first.dtype(), &shape, &joined.to_ints()?);
    }
    let mut out = util::output(first.dtype(), &shape)?;
    let width = first.dtype().bits() / 8;
    let inner = shape[axis + 1..].iter().product::<usize>() * width;
    let row = shape[axis] * inner;
    let mut at = 0;
    for part in parts {
        let len = part.shape()[axis] * inner;
        if len == 0 || row == 0 {
            continue;
        }
        let rows = out.bytes_mut().chunks_exact_mut(row).zip(part.bytes().chunks_exact(len));
        rows.for_each(|(to, from)| to[at..at + len].copy_from_slice(from));
        at += len;
    }
    Ok(out)
}
