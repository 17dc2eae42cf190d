//! Gather: slices along an axis, chosen by an index tensor; negative indices count from the end.

use super::pick::on_bytes;
use crate::elementwise::sample::{case, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{Attr, Attrs, DataType, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Gather;

static SPEC: OpSpec = OpSpec {
    name: "Gather",
    domain: "",
    since: 1,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("axis", AttrKind::Int)],
};

impl Op for Gather {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let data = cx.shape(0)?;
        let axis = util::axis(cx.attrs().int("axis", 0)?, data.len())?;
        let dims = [&data[..axis], cx.shape(1)?, &data[axis + 1..]].concat();
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, indices) = (cx.input(0)?, cx.input(1)?);
        let axis = util::axis(cx.attrs().int("axis", 0)?, x.shape().len())?;
        let rows = indices.to_ints()?;
        let rows = rows.iter().map(|&i| wrap_index(i, x.shape()[axis])).collect::<Result<Vec<_>>>()?;
        let shape = [&x.shape()[..axis], indices.shape(), &x.shape()[axis + 1..]].concat();
        Ok(vec![on_bytes(x, |x| gather(x, axis, &rows, &shape))?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("gather", "Gather", 13);
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let rows = case(
            "rows",
            node.clone(),
            &[x.clone(), ints(DataType::S64, &[1], &[-1])],
            &[f32s(&[1, 3], &[4.0, 5.0, 6.0])],
        );
        node.attrs = Attrs::default().with("axis", Attr::Int(1));
        let columns = [x, ints(DataType::S32, &[1, 2], &[2, 0])];
        vec![rows, case("columns", node, &columns, &[f32s(&[2, 1, 2], &[3.0, 1.0, 6.0, 4.0])])]
    }
}

/// The slice at `index` of an axis, which the result does not have. The index must be one of the axis.
pub fn take(x: &Tensor, axis: usize, index: usize) -> Result<Tensor> {
    let shape = [&x.shape()[..axis], &x.shape()[axis + 1..]].concat();
    on_bytes(x, |x| gather(x, axis, &[index], &shape))
}

/// A possibly negative index on an axis of `n`.
pub fn wrap_index(index: i64, n: usize) -> Result<usize> {
    let wrapped = if index < 0 { i128::from(index) + n as i128 } else { index.into() };
    match usize::try_from(wrapped) {
        Ok(i) if i < n => Ok(i),
        _ => Err(Error::invalid(format!("index {index} is outside an axis of {n}"))),
    }
}

fn gather(x: &Tensor, axis: usize, rows: &[usize], shape: &[usize]) -> Result<Tensor> {
    let mut y = util::output(x.dtype(), shape)?;
    let inner = x.shape()[axis + 1..].iter().product::<usize>() * (x.dtype().bits() / 8);
    let block = inner * x.shape()[axis];
    if block == 0 || y.elements() == 0 {
        return Ok(y);
    }
    let outputs = y.bytes_mut().chunks_exact_mut(inner);
    let sources =
        x.bytes().chunks_exact(block).flat_map(|block| rows.iter().map(move |&r| &block[r * inner..][..inner]));
    outputs.zip(sources).for_each(|(to, from)| to.copy_from_slice(from));
    Ok(y)
}
