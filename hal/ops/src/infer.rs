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

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::Attr;

    /// The type that `op` infers from inputs like `f32[2,N]`, none of them constant.
    fn open(op: &str, attrs: Attrs, inputs: &[&TensorType]) -> String {
        let mut node = Node::new("n", op, 21);
        node.attrs = attrs;
        node.outputs = vec![ottava_hal::ValueId(0)];
        let inputs: Vec<_> = inputs.iter().map(|&ty| Some(InferInput { ty, constant: None })).collect();
        infer(&InferCx { node: &node, inputs: &inputs }).unwrap_or_else(|e| panic!("{op}: {e}"))[0].to_string()
    }

    #[test]
    fn data_decides_extents_but_not_the_rank() {
        let x = &TensorType::new(DataType::F32, Shape(vec![Dim::Known(2), Dim::Known(3), Dim::Sym("N".into())]));
        let [one, three, five] = &[1, 3, 5].map(|n| TensorType::fixed(DataType::S64, &[n]));
        let (number, flags) = (&TensorType::fixed(DataType::S64, &[]), &TensorType::fixed(DataType::Bool, &[3]));
        let axis = |a| Attrs::default().with("axis", Attr::Int(a));
        let cases: Vec<(&str, Attrs, Vec<&TensorType>, &str)> = vec![
            ("Reshape", Attrs::default(), vec![x, five], "f32[n:0:0,n:0:1,n:0:2,n:0:3,n:0:4]"),
            ("ConstantOfShape", Attrs::default(), vec![one], "f32[n:0:0]"),
            ("Expand", Attrs::default(), vec![x, five], "f32[n:0:0,n:0:1,2,3,n:0:4]"),
            ("Expand", Attrs::default(), vec![x, one], "f32[2,3,n:0:2]"),
            ("Tile", Attrs::default(), vec![x, three], "f32[n:0:0,n:0:1,n:0:2]"),
            ("Pad", Attrs::default(), vec![x, five], "f32[n:0:0,n:0:1,n:0:2]"),
            ("Slice", Attrs::default(), vec![x, one, one], "f32[n:0:0,3,N]"),
            ("Resize", Attrs::default(), vec![x, one, three], "f32[n:0:0,n:0:1,n:0:2]"),
            ("Range", Attrs::default(), vec![number, number, number], "s64[n:0:0]"),
            ("NonZero", Attrs::default(), vec![x], "s64[3,n:0:1]"),
            ("NonMaxSuppression", Attrs::default(), vec![x, x], "s64[n:0:0,3]"),
            ("TopK", axis(1), vec![x, one], "f32[2,n:0:1,N]"),
            ("OneHot", axis(0), vec![one, number, x], "f32[n:0:0,1]"),
            ("Compress", axis(1), vec![x, flags], "f32[2,n:0:1,N]"),
            ("Compress", Attrs::default(), vec![x, flags], "f32[n:0:0]"),
            ("CenterCropPad", Attrs::default().with("axes", Attr::Ints(vec![-1])), vec![x, one], "f32[2,3,n:0:2]"),
            ("Squeeze", Attrs::default(), vec![x, one], "f32[n:0:0,n:0:1]"),
            ("Unsqueeze", Attrs::default(), vec![x, one], "f32[n:0:0,n:0:1,n:0:2,n:0:3]"),
            ("Split", axis(1), vec![x, one], "f32[2,n:0:1,N]"),
            ("ReduceSum", Attrs::default().with("keepdims", Attr::Int(0)), vec![x, one], "f32[n:0:0,n:0:1]"),
            ("AffineGrid", Attrs::default(), vec![x, five], "f32[n:0:0,n:0:1,n:0:2,n:0:3,n:0:4]"),
        ];
        for (op, attrs, inputs, expected) in cases {
            assert_eq!(open(op, attrs, &inputs), expected, "{op}");
        }
    }

    #[test]
    fn without_a_rank_the_element_type_remains() {
        let (x, numbers) = (&TensorType::unranked(DataType::S32), &TensorType::unranked(DataType::S64));
        let y = &TensorType::fixed(DataType::S32, &[2]);
        let none = Attrs::default;
        assert_eq!(open("Reshape", none(), &[y, numbers]), "s32[...]");
        assert_eq!(
            open("Squeeze", none(), &[&TensorType::new(DataType::S32, Shape(vec![Dim::Sym("N".into())]))]),
            "s32[...]"
        );
        assert_eq!(open("Equal", none(), &[x, y]), "bool[...]");
        assert_eq!(open("Shape", none(), &[x]), "s64[n:0:0]");
        assert_eq!(open("Transpose", Attrs::default().with("perm", Attr::Ints(vec![0])), &[x]), "s32[...]");
    }

    #[test]
    fn the_rank_is_bounded() {
        let node = Node::new("n", "Reshape", 21);
        let (x, shape) = (TensorType::fixed(DataType::F32, &[1]), TensorType::fixed(DataType::S64, &[usize::MAX]));
        let inputs = [&x, &shape].map(|ty| Some(InferInput { ty, constant: None }));
        let node = Node { outputs: vec![ottava_hal::ValueId(0)], ..node };
        assert!(infer(&InferCx { node: &node, inputs: &inputs }).unwrap_err().to_string().contains("dimensions"));
    }
}
