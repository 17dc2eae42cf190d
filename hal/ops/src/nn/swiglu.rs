//! `SwiGLU`: `a * sigmoid(alpha * a) * b`.
//!
//! * (C1) Both inputs have one shape and type; nothing broadcasts.

use super::real::{Real, with_real};
use crate::elementwise::sample::{case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Error, Node, Result, Tensor, TensorType};

/// Gated activation.
pub struct SwiGlu;

static SPEC: OpSpec = OpSpec {
    name: "SwiGLU",
    domain: "",
    since: 28,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("alpha", AttrKind::Float)],
};

impl Op for SwiGlu {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        if a.ty() != b.ty() {
            return Err(Error::invalid(format!("SwiGLU: inputs {} and {} must be equal", a.ty(), b.ty())));
        }
        let alpha = cx.attrs().float("alpha", 1.0)?;
        let y = with_real!(a.dtype(), "SwiGLU", T => {
            let alpha = T::of(alpha.into());
            let gate = |(a, b): (T, T)| a * (alpha * a).sigmoid() * b;
            let y: Vec<T> = T::read(a)?.into_iter().zip(T::read(b)?).map(gate).collect();
            T::write(a.dtype(), a.shape(), &y)
        })?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let (a, b) = (f32s(&[2], &[0.0, 100.0]), f32s(&[2], &[5.0, 0.5]));
        vec![case("c1_gate", Node::new("glu", "SwiGLU", 28), &[a, b], &[f32s(&[2], &[0.0, 50.0])])]
    }
}
