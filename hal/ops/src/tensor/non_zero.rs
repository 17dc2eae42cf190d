//! NonZero: the indices of all elements that are not 0, one column per element, in row-major order.

use crate::elementwise::cast::cast;
use crate::elementwise::sample::{case, f32s, ints};
use crate::{Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{DataType, Dim, Node, Result, Tensor, TensorType};

/// The operator.
pub struct NonZero;

static SPEC: OpSpec = OpSpec { name: "NonZero", domain: "", since: 9, inputs: (1, 1), outputs: (1, 1), attrs: &[] };

impl Op for NonZero {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(DataType::S64, vec![Dim::Known(cx.shape(0)?.len()), cx.fresh(0, 1)])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let flags = cast(x, DataType::Bool)?;
        let found: Vec<usize> = flags.bytes().iter().enumerate().filter(|(_, f)| **f != 0).map(|(i, _)| i).collect();
        let strides = util::strides(x.shape());
        let coordinate = |(&n, &stride): (&usize, &usize)| found.iter().map(move |i| (i / stride % n) as i64);
        let indices: Vec<i64> = x.shape().iter().zip(&strides).flat_map(coordinate).collect();
        Ok(vec![Tensor::from_slice(&[x.shape().len(), found.len()], &indices)?])
    }

    fn cases(&self) -> Vec<Case> {
        let x = f32s(&[2, 2], &[1.0, 0.0, 3.0, -1.0]);
        let y = ints(DataType::S64, &[2, 3], &[0, 1, 1, 0, 0, 1]);
        vec![case("matrix", Node::new("non_zero", "NonZero", 13), &[x], &[y])]
    }
}
