//! GatherElements (one index per element) and GatherND (one index tuple per slice).
//!
//! * (C1) negative indices count from the end; an index outside is an error.

use super::gather::wrap_index;
use super::pick::pick;
use crate::elementwise::sample::{case, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};

static ELEMENTS: OpSpec = OpSpec {
    name: "GatherElements",
    domain: "",
    since: 11,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("axis", AttrKind::Int)],
};
static ND: OpSpec = OpSpec {
    name: "GatherND",
    domain: "",
    since: 11,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("batch_dims", AttrKind::Int)],
};

/// One index per element.
pub struct GatherElements;
/// One index tuple per slice.
pub struct GatherNd;

impl Op for GatherElements {
    fn spec(&self) -> &'static OpSpec {
        &ELEMENTS
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(1)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, indices) = (cx.input(0)?, cx.input(1)?);
        let axis = util::axis(cx.attrs().int("axis", 0)?, x.shape().len())?;
        Ok(vec![pick(x, indices.shape(), &element_positions(x.shape(), indices, axis)?)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("gather", "GatherElements", 13);
        node.attrs = Attrs::default().with("axis", Attr::Int(1));
        let (x, i) = (f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), ints(DataType::S64, &[2, 2], &[0, 0, -1, 0]));
        vec![case("c1_columns", node, &[x, i], &[f32s(&[2, 2], &[1.0, 1.0, 4.0, 3.0])])]
    }
}

/// For each element of an index tensor: the position in `shape` at its own coordinates, `axis` replaced by the index.
pub fn element_positions(shape: &[usize], indices: &Tensor, axis: usize) -> Result<Vec<usize>> {
    let index_shape = indices.shape();
    let fits = |(a, (n, m)): (usize, (&usize, &usize))| a == axis || n >= m;
    if index_shape.len() != shape.len() || !shape.iter().zip(index_shape).enumerate().all(fits) {
        return Err(Error::invalid(format!("indices of shape {index_shape:?} do not fit {shape:?} on axis {axis}")));
    }
    let strides = util::strides(shape);
    let own = util::strides(index_shape);
    let values = indices.to_ints()?;
    let position = |(i, &index): (usize, &i64)| {
        let along = wrap_index(index, shape[axis])? * strides[axis];
        let others = (0..shape.len()).filter(|a| *a != axis);
        Ok(along + others.map(|a| i / own[a] % index_shape[a] * strides[a]).sum::<usize>())
    };
    values.iter().enumerate().map(position).collect()
}

impl Op for GatherNd {
    fn spec(&self) -> &'static OpSpec {
        &ND
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (data, indices) = (cx.shape(0)?, cx.shape(1)?);
        let batch = batch_dims(cx.attrs(), data.len().min(indices.len()))?;
        let (tuple, outer) =
            indices.split_last().ok_or_else(|| Error::invalid("GatherND: the indices are a scalar"))?;
        let Some(tuple) = tuple.known() else { return Ok(vec![TensorType::unranked(cx.dtype(0)?)]) };
        let rest = data.get(batch.saturating_add(tuple)..).ok_or_else(|| too_long(tuple, data.len()))?;
        let dims: Vec<Dim> = outer.iter().chain(rest).cloned().collect();
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, indices) = (cx.input(0)?, cx.input(1)?);
        let batch = batch_dims(cx.attrs(), x.shape().len().min(indices.shape().len()))?;
        let (tuple, outer) =
            indices.shape().split_last().ok_or_else(|| Error::invalid("GatherND: the indices are a scalar"))?;
        let rest = x.shape().get(batch.saturating_add(*tuple)..).ok_or_else(|| too_long(*tuple, x.shape().len()))?;
        let starts = slice_positions(x.shape(), indices, batch)?;
        let block: usize = rest.iter().product();
        let shape = [outer, rest].concat();
        util::output(x.dtype(), &shape)?;
        let mut positions = Tensor::buffer(starts.len().saturating_mul(block))?;
        positions.extend(starts.iter().flat_map(|&s| s..s + block));
        Ok(vec![pick(x, &shape, &positions)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("gather", "GatherND", 13);
        let x = ints(DataType::S32, &[2, 2], &[0, 1, 2, 3]);
        let i = |shape: &[usize], v: &[i64]| ints(DataType::S64, shape, v);
        let y = |v: &[i64]| ints(DataType::S32, &[v.len()], v);
        let tuples = case("tuples", node.clone(), &[x.clone(), i(&[2, 2], &[0, 0, 1, -1])], &[y(&[0, 3])]);
        node.attrs = Attrs::default().with("batch_dims", Attr::Int(1));
        vec![tuples, case("batched", node, &[x, i(&[2, 1], &[1, 0])], &[y(&[1, 2])])]
    }
}

fn batch_dims(attrs: &Attrs, limit: usize) -> Result<usize> {
    match usize::try_from(attrs.int("batch_dims", 0)?) {
        Ok(n) if n < limit.max(1) => Ok(n),
        _ => Err(Error::invalid(format!("batch_dims must be at least 0 and below {limit}"))),
    }
}

fn too_long(tuple: usize, rank: usize) -> Error {
    Error::invalid(format!("index tuples of {tuple} are too long for rank {rank}"))
}

/// The first position of the slice that each index tuple names, the first `batch` axes shared.
pub fn slice_positions(shape: &[usize], indices: &Tensor, batch: usize) -> Result<Vec<usize>> {
    let Some((&tuple, outer)) = indices.shape().split_last() else {
        return Err(Error::invalid("the index tuples are a scalar"));
    };
    if tuple == 0
        || batch.saturating_add(tuple) > shape.len()
        || outer.len() < batch
        || outer[..batch] != shape[..batch]
    {
        return Err(Error::invalid(format!("indices of shape {:?} do not fit {shape:?}", indices.shape())));
    }
    let strides = util::strides(shape);
    let per_batch = outer[batch..].iter().product::<usize>().max(1);
    let batch_size = shape[batch..].iter().product::<usize>();
    let values = indices.to_ints()?;
    let n_tuples = outer.iter().product::<usize>();
    let start = |i: usize| {
        let first = i / per_batch * batch_size;
        let along = (0..tuple).map(|k| Ok(wrap_index(values[i * tuple + k], shape[batch + k])? * strides[batch + k]));
        Ok(first + along.sum::<Result<usize>>()?)
    };
    (0..n_tuples).map(start).collect()
}
