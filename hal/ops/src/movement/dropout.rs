//! Dropout as inference sees it: the data itself, and a mask that keeps everything.

use crate::elementwise::cast::cast;
use crate::elementwise::sample::{bools, case, f32s};
use crate::movement::expand::expand_to;
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{DataType, Error, Node, Reason, Result, Tensor, TensorType};

/// The operator.
pub struct Dropout;

static SPEC: OpSpec = OpSpec {
    name: "Dropout",
    domain: "",
    since: 1,
    inputs: (1, 3),
    outputs: (1, 2),
    attrs: &[AttrSpec::optional("seed", AttrKind::Int)],
};

impl Op for Dropout {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dims = cx.shape(0)?.to_vec();
        let types = [cx.ty(cx.dtype(0)?, dims.clone()), cx.ty(DataType::Bool, dims)];
        Ok(types.into_iter().take(cx.n_outputs()).collect())
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let training = cx.opt(2).is_some_and(|t| t.bytes().iter().any(|&b| b != 0));
        let ratio = cx.opt(1).map(|r| cast(r, DataType::F32)?.to_f32s()).transpose()?;
        if training && ratio.is_none_or(|r| r != [0.0]) {
            let what = "Dropout in training mode draws random numbers; set training_mode to false";
            return Err(Error::unsupported(Reason::AttrValue, what));
        }
        Ok(vec![x.clone(), expand_to(&Tensor::from_bools(&[], &[true])?, x.shape())?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let x = || f32s(&[2], &[1.0, -2.0]);
        let outputs = [x(), bools(&[2], &[true, true])];
        vec![case("mask", Node::new("dropout", "Dropout", 22), &[x()], &outputs)]
    }
}
