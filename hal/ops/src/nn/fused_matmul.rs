//! com.microsoft `FusedMatMul`: `alpha * A' * B'` with the last two axes of either operand transposed on request.
//!
//! * (C1) The sum is multiplied by alpha once, after it is complete.

use super::matmul::{matrices, product_dims};
use super::product::{Acc, Kernel, transpose};
use super::real::{Real, alloc, count, with_real};
use crate::elementwise::sample::{case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, MICROSOFT, Op, OpSpec};
use ottava_hal::{Attr, Attrs, Dim, Error, Node, Reason, Result, Tensor, TensorType};

/// Matrix product with transpositions and a factor.
pub struct FusedMatMul;

static SPEC: OpSpec = OpSpec {
    name: "FusedMatMul",
    domain: MICROSOFT,
    since: 1,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("alpha", AttrKind::Float),
        AttrSpec::optional("transA", AttrKind::Int),
        AttrSpec::optional("transB", AttrKind::Int),
        AttrSpec::optional("transBatchA", AttrKind::Int),
        AttrSpec::optional("transBatchB", AttrKind::Int),
    ],
};

/// A shape with its last two axes exchanged where the attribute says so; vectors stay as they are.
fn seen<D: Clone>(attrs: &Attrs, name: &str, shape: &[D]) -> Result<Vec<D>> {
    let mut shape = shape.to_vec();
    let rank = shape.len();
    if attrs.int(name, 0)? != 0 && rank > 1 {
        shape.swap(rank - 2, rank - 1);
    }
    Ok(shape)
}

/// An operand in the order that [`seen`] gives it.
fn read<T: Real>(attrs: &Attrs, name: &str, t: &Tensor) -> Result<Vec<T>> {
    let data = T::read(t)?;
    match *t.shape() {
        [.., rows, cols] if attrs.int(name, 0)? != 0 && rows * cols > 0 => {
            Ok(data.chunks_exact(rows * cols).flat_map(|m| transpose(rows, cols, m)).collect())
        }
        _ => Ok(data),
    }
}

fn run<T: Real + Acc>(cx: &EvalCx) -> Result<Tensor> {
    let (a, b, attrs) = (cx.input(0)?, cx.input(1)?, cx.attrs());
    let (kernel, shape) = matrices(&seen(attrs, "transA", a.shape())?, &seen(attrs, "transB", b.shape())?)?;
    let mut y = alloc::<T>(count(&shape)?)?;
    kernel.run(&read::<T>(attrs, "transA", a)?, &read::<T>(attrs, "transB", b)?, &mut y);
    let alpha = T::of(attrs.float("alpha", 1.0)?.into());
    y.iter_mut().for_each(|v| *v = alpha * *v);
    T::write(a.dtype(), &shape, &y)
}

impl Op for FusedMatMul {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let a: Vec<Dim> = seen(cx.attrs(), "transA", cx.shape(0)?)?;
        let b: Vec<Dim> = seen(cx.attrs(), "transB", cx.shape(1)?)?;
        Ok(vec![cx.ty(cx.dtype(0)?, product_dims(&a, &b)?)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        if cx.attrs().int("transBatchA", 0)? != 0 || cx.attrs().int("transBatchB", 0)? != 0 {
            return Err(Error::unsupported(Reason::AttrValue, "FusedMatMul with transposed batch axes"));
        }
        let y = with_real!(cx.input(0)?.dtype(), "FusedMatMul", T => run::<T>(cx))?;
        Ok(vec![y])
    }

    fn macs(&self, node: &Node, inputs: &[Option<&TensorType>], outputs: &[&TensorType]) -> u64 {
        let macs = || {
            let a = seen(&node.attrs, "transA", &inputs.first().copied().flatten()?.shape.0).ok()?;
            (a.last()?.known()? as u64).checked_mul(outputs.first()?.shape.elements()? as u64)
        };
        macs().unwrap_or(0)
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("mm", "FusedMatMul", 1);
        node.domain = MICROSOFT.into();
        node.attrs = Attrs::default().with("alpha", Attr::Float(0.5)).with("transB", Attr::Int(1));
        let inputs = [f32s(&[1, 2], &[1.0, 2.0]), f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0])];
        vec![case("c1_transposed_and_scaled", node, &inputs, &[f32s(&[1, 2], &[2.5, 5.5])])]
    }
}
