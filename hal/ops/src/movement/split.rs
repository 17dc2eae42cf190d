//! Split: a tensor cut along an axis, into given sizes or into equal parts (the last one smaller).

use super::pick::{Walk, strided};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::movement::expand::extents;
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Split;

static SPEC: OpSpec = OpSpec {
    name: "Split",
    domain: "",
    since: 2,
    inputs: (1, 2),
    outputs: (1, usize::MAX),
    attrs: &[AttrSpec::optional("axis", AttrKind::Int), AttrSpec::optional("num_outputs", AttrKind::Int)],
};

impl Op for Split {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dims = cx.shape(0)?;
        let axis = util::axis(cx.attrs().int("axis", 0)?, dims.len())?;
        let open = cx.any_open(&[1]);
        let given = if open { None } else { cx.opt_const_ints(1)? };
        let sizes: Vec<Dim> = match (given, dims[axis].known()) {
            (None, extent) if open || extent.is_none() => (0..cx.n_outputs()).map(|i| cx.fresh(i, axis)).collect(),
            (given, extent) => {
                sizes(given.as_deref(), extent, cx.n_outputs(), cx.attrs())?.into_iter().map(Dim::Known).collect()
            }
        };
        let part = |size: Dim| {
            let mut dims = dims.to_vec();
            dims[axis] = size;
            cx.dtype(0).map(|dtype| cx.ty(dtype, dims))
        };
        sizes.into_iter().map(part).collect()
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let axis = util::axis(cx.attrs().int("axis", 0)?, x.shape().len())?;
        let sizes = sizes(cx.opt_ints(1)?.as_deref(), Some(x.shape()[axis]), cx.node.outputs.len(), cx.attrs())?;
        let own = util::strides(x.shape());
        let mut offset = 0;
        let mut parts = Vec::with_capacity(sizes.len());
        for size in sizes {
            let mut shape = x.shape().to_vec();
            shape[axis] = size;
            parts.push(strided(x, &Walk { shape, steps: own.iter().map(|&s| s as isize).collect(), offset })?);
            offset += size * own[axis];
        }
        Ok(parts)
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("split", "Split", 18);
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let parts = [f32s(&[2, 2], &[1.0, 2.0, 4.0, 5.0]), f32s(&[2, 1], &[3.0, 6.0])];
        node.attrs = Attrs::default().with("axis", Attr::Int(1));
        let sizes = ints(DataType::S64, &[2], &[2, 1]);
        let given = case_const("sizes", node.clone(), 1, &[x.clone(), sizes], &parts);
        node.attrs.set("num_outputs", Attr::Int(2));
        vec![given, case_const("num_outputs", node, 1, &[x], &parts)]
    }
}

/// The sizes of the parts, which add up to the extent where that is known.
fn sizes(given: Option<&[i64]>, extent: Option<usize>, n_outputs: usize, attrs: &Attrs) -> Result<Vec<usize>> {
    let sizes = match (given, extent) {
        (Some(given), _) => extents(given)?,
        (None, Some(extent)) => {
            let n = match attrs.int_opt("num_outputs")? {
                Some(n) => usize::try_from(n).unwrap_or(0),
                None => n_outputs,
            };
            if n == 0 || n != n_outputs {
                return Err(Error::invalid(format!("Split: num_outputs is {n}, but there are {n_outputs} outputs")));
            }
            let size = extent.div_ceil(n);
            (0..n).map(|i| size.min(extent.saturating_sub(i * size))).collect()
        }
        (None, None) => vec![],
    };
    let total = sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
    if sizes.len() != n_outputs || extent.is_some_and(|extent| total != Some(extent)) {
        return Err(Error::invalid(format!("Split: sizes {sizes:?} for {n_outputs} outputs of an axis of {extent:?}")));
    }
    Ok(sizes)
}
