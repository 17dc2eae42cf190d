//! Operators whose scales are inputs (QLinear*) as the typed operators that they mean: parameters move from inputs into
//! types, then [`crate::evaluate`] computes. There is one arithmetic, that of the typed form.

use crate::{EvalCx, InferCx, InferInput, evaluate, infer};
use ottava_hal::{DataType, Error, Node, QuantParams, Result, Shape, Tensor, TensorType};

/// One operand of a typed form.
pub(crate) struct Operand<'a> {
    data: Option<&'a Tensor>,
    ty: Option<TensorType>,
}

impl<'a> Operand<'a> {
    /// A quantized operand.
    pub fn quantized(data: &'a Tensor, params: QuantParams) -> Self {
        Self { data: Some(data), ty: Some(data.ty().quantized(params)) }
    }

    /// A plain operand, possibly absent.
    pub fn plain(data: Option<&'a Tensor>) -> Self {
        Self { data, ty: data.map(Tensor::ty) }
    }
}

/// `node` renamed to the ONNX operator `op` of a version.
pub(crate) fn renamed(node: &Node, op: &str, version: u32) -> Node {
    Node { op: op.into(), domain: String::new(), version, ..node.clone() }
}

/// Evaluates a typed form with one output; a plain output is f32.
pub(crate) fn eval(node: &Node, operands: &[Operand], output: Option<(DataType, QuantParams)>) -> Result<Tensor> {
    let inputs: Vec<Option<&Tensor>> = operands.iter().map(|o| o.data).collect();
    let in_types: Vec<Option<&TensorType>> = operands.iter().map(|o| o.ty.as_ref()).collect();
    // The shape of an output type is not read by evaluation.
    let out = match output {
        Some((dtype, params)) => {
            params.check(dtype, None).map_err(Error::Invalid)?;
            TensorType::new(dtype, Shape::default()).quantized(params)
        }
        None => TensorType::new(DataType::F32, Shape::default()),
    };
    let mut node = node.clone();
    node.outputs.truncate(1);
    let cx = EvalCx { node: &node, inputs: &inputs, in_types: &in_types, out_types: &[&out] };
    evaluate(&cx)?.into_iter().next().ok_or_else(|| Error::invalid(format!("{} has no output", node.full_op())))
}

/// The shape that ONNX operator `op` infers from some of a node's inputs, with another element type.
pub(crate) fn infer_as(cx: &InferCx, node: &Node, inputs: &[Option<usize>], dtype: DataType) -> Result<TensorType> {
    let picked: Vec<Option<InferInput>> = inputs.iter().map(|i| i.and_then(|i| cx.opt(i))).collect();
    let types = infer(&InferCx { node, inputs: &picked })?;
    let first = types.into_iter().next().ok_or_else(|| Error::invalid("no type was inferred"))?;
    Ok(TensorType::new(dtype, first.shape))
}

/// Input `i` of an evaluation as a per-tensor quantized operand, its parameters in the next two inputs.
pub(crate) fn triple<'a>(cx: &EvalCx<'a>, i: usize) -> Result<Operand<'a>> {
    let data = cx.input(i)?;
    let params = super::params::per_tensor(cx.input(i + 1)?, cx.opt(i + 2), data.dtype())?;
    Ok(Operand::quantized(data, params))
}

/// The output parameters in inputs `i` and `i + 1`; without a zero point the type is that of `like`.
pub(crate) fn result(cx: &EvalCx, i: usize, like: DataType) -> Result<(DataType, QuantParams)> {
    let dtype = cx.opt(i + 1).map_or(like, Tensor::dtype);
    Ok((dtype, super::params::per_tensor(cx.input(i)?, cx.opt(i + 1), dtype)?))
}
