//! Transpose: permute axes; without `perm` they are reversed.

use super::pick::{Walk, strided};
use crate::elementwise::sample::{case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{Attr, Attrs, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Transpose;

static SPEC: OpSpec = OpSpec {
    name: "Transpose",
    domain: "",
    since: 1,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("perm", AttrKind::Ints)],
};

impl Op for Transpose {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dims = cx.shape(0)?;
        let perm = permutation(cx.attrs(), dims.len())?;
        Ok(vec![cx.ty(cx.dtype(0)?, perm.iter().map(|&p| dims[p].clone()).collect())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        Ok(vec![permute(x, &permutation(cx.attrs(), x.shape().len())?)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let plain = Node::new("transpose", "Transpose", 13);
        let mut perm = plain.clone();
        perm.attrs = Attrs::default().with("perm", Attr::Ints(vec![0, 2, 1]));
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let y = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
        vec![
            case("reversed", plain, &[f32s(&[2, 3], &x)], &[f32s(&[3, 2], &y)]),
            case("perm", perm, &[f32s(&[1, 2, 3], &x)], &[f32s(&[1, 3, 2], &y)]),
        ]
    }
}

/// The `perm` attribute, checked to be a permutation of `rank` axes.
fn permutation(attrs: &Attrs, rank: usize) -> Result<Vec<usize>> {
    let Some(perm) = attrs.ints_opt("perm")? else { return Ok((0..rank).rev().collect()) };
    let axes = perm.iter().map(|&p| util::axis(p, rank)).collect::<Result<Vec<_>>>()?;
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..rank) {
        return Err(Error::invalid(format!("Transpose: perm {perm:?} is no permutation of {rank} axes")));
    }
    Ok(axes)
}

/// `x` with its axes in the order of a permutation.
pub fn permute(x: &Tensor, perm: &[usize]) -> Result<Tensor> {
    let own = util::strides(x.shape());
    let shape = perm.iter().map(|&p| x.shape()[p]).collect();
    let steps = perm.iter().map(|&p| own[p] as isize).collect();
    strided(x, &Walk { shape, steps, offset: 0 })
}
