//! Context of shape and type inference.

use crate::{Op, lookup, util};
use ottava_hal::{Attrs, DataType, Dim, Error, Node, Reason, Result, Shape, Tensor, TensorType};

/// Dimensions that an output may have.
const MAX_RANK: usize = 64;

/// One input as inference sees it.
#[derive(Debug, Clone, Copy)]
pub struct InferInput<'a> {
    /// Type.
    pub ty: &'a TensorType,
    /// Data, where the value is constant.
    pub constant: Option<&'a Tensor>,
}

/// A node with the types of its inputs.
pub struct InferCx<'a> {
    /// The node.
    pub node: &'a Node,
    /// Inputs; `None` where absent. May be shorter than the schema.
    pub inputs: &'a [Option<InferInput<'a>>],
}

impl<'a> InferCx<'a> {
    /// Attributes of the node.
    pub fn attrs(&self) -> &'a Attrs {
        &self.node.attrs
    }

    /// Number of outputs that the node has.
    pub fn n_outputs(&self) -> usize {
        self.node.outputs.len()
    }

    /// Input `i`, which must be present.
    pub fn input(&self, i: usize) -> Result<InferInput<'a>> {
        self.opt(i).ok_or_else(|| Error::invalid(format!("{}: input {i} is missing", self.node.full_op())))
    }

    /// Input `i`, if present.
    pub fn opt(&self, i: usize) -> Option<InferInput<'a>> {
        self.inputs.get(i).copied().flatten()
    }

    /// Shape of input `i`.
    pub fn shape(&self, i: usize) -> Result<&'a [Dim]> {
        Ok(&self.input(i)?.ty.shape.0)
    }

    /// Element type of input `i`.
    pub fn dtype(&self, i: usize) -> Result<DataType> {
        Ok(self.input(i)?.ty.dtype)
    }

    /// Input `i`'s constant integers, or an error with reason `DynamicShape` where it is not constant.
    pub fn const_ints(&self, i: usize) -> Result<Vec<i64>> {
        self.input(i)?.constant.ok_or_else(|| self.dynamic(&format!("input {i} is not constant")))?.to_ints()
    }

    /// As [`Self::const_ints`], `None` where the input is absent.
    pub fn opt_const_ints(&self, i: usize) -> Result<Option<Vec<i64>>> {
        self.opt(i).map(|_| self.const_ints(i)).transpose()
    }

    /// Input `i`'s constant integers; `None` where only data decides them.
    pub fn known_ints(&self, i: usize) -> Result<Option<Vec<i64>>> {
        self.input(i)?.constant.map(Tensor::to_ints).transpose()
    }

    /// Whether data decides one of these inputs: it is there, but not constant.
    pub fn any_open(&self, inputs: &[usize]) -> bool {
        inputs.iter().any(|&i| self.opt(i).is_some_and(|input| input.constant.is_none()))
    }

    /// The axes that input `i` names; all axes where it is absent or data decides it.
    pub fn axes(&self, i: usize, rank: usize) -> Result<Vec<usize>> {
        match self.opt(i).and_then(|input| input.constant) {
            Some(axes) => axes.to_ints()?.into_iter().map(|a| util::axis(a, rank)).collect(),
            None => Ok((0..rank).collect()),
        }
    }

    /// The type of input 0 for output 0, where data decides the extents along some axes.
    pub fn open_along(&self, axes: &[usize]) -> Result<TensorType> {
        let mut dims = self.shape(0)?.to_vec();
        for &axis in axes {
            dims[axis] = self.fresh(0, axis);
        }
        Ok(self.ty(self.dtype(0)?, dims))
    }

    /// How many numbers input `i` holds, if its type says it.
    pub fn length(&self, i: usize) -> Result<Option<usize>> {
        Ok(self.input(i)?.ty.shape.elements())
    }

    /// The type of output 0 where data decides its extents. Without a rank it is unranked.
    pub fn open(&self, dtype: DataType, rank: Option<usize>) -> Result<TensorType> {
        match rank {
            None => Ok(TensorType::unranked(dtype)),
            Some(rank) if rank > MAX_RANK => {
                Err(Error::invalid(format!("{}: an output of {rank} dimensions", self.node.full_op())))
            }
            Some(rank) => Ok(self.ty(dtype, (0..rank).map(|axis| self.fresh(0, axis)).collect())),
        }
    }

    /// A dimension that is not known yet: a symbol that is unique to this node, output and axis.
    pub fn fresh(&self, output: usize, axis: usize) -> Dim {
        Dim::Sym(format!("{}:{output}:{axis}", self.node.name).into())
    }

    /// The error of a shape that only data decides.
    pub fn dynamic(&self, why: &str) -> Error {
        Error::unsupported(
            Reason::DynamicShape,
            format!("{}: the output's shape is not known: {why}", self.node.full_op()),
        )
    }

    /// A plain type.
    pub fn ty(&self, dtype: DataType, dims: Vec<Dim>) -> TensorType {
        TensorType::new(dtype, Shape(dims))
    }
}

/// Infers the types of a node's outputs after checking its arity; errors name the node and operator.
pub fn infer(cx: &InferCx) -> Result<Vec<TensorType>> {
    let op = lookup(&cx.node.domain, &cx.node.op)?;
    let spec = op.spec();
    let (n_in, n_out) = (cx.inputs.len(), cx.n_outputs());
    let residual = usize::from(cx.node.fused.residual);
    if n_in < spec.inputs.0 || n_in > spec.inputs.1.saturating_add(residual) {
        let (lo, hi) = spec.inputs;
        return Err(Error::invalid(format!("{} has {n_in} inputs, expected {lo} to {hi}", cx.node.full_op())));
    }
    if n_out < spec.outputs.0 || n_out > spec.outputs.1 {
        let (lo, hi) = spec.outputs;
        return Err(Error::invalid(format!("{} has {n_out} outputs, expected {lo} to {hi}", cx.node.full_op())));
    }
    let unranked = cx.inputs.iter().flatten().any(|input| input.ty.is_unranked());
    if unranked && !op.infers_from_unranked() { infer_unranked(op, cx) } else { op.infer(cx) }
}

/// Where the rank of an input is unknown, an operator is asked for its element types only. What it says of shapes, or
/// finds wrong, rests on a shape that is not one.
fn infer_unranked(op: &dyn Op, cx: &InferCx) -> Result<Vec<TensorType>> {
    let types = op.infer(cx).map_err(|_| cx.dynamic("the rank of an input is not known"))?;
    Ok(types.into_iter().map(|ty| TensorType::unranked(ty.dtype)).collect())
}
