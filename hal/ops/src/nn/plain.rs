//! Products of plain float operands (numerics.md section 7): one accumulator per output, the bias as one addition at
//! the end, then the residual and its activation.

use super::product::{Acc, Kernel};
use super::real::{Real, alloc, count};
use super::typed::{Arrange, Bias};
use crate::EvalCx;
use ottava_hal::{Error, Result, Tensor};

/// Runs a kernel on inputs 0 and 1 in the arithmetic `T`; `alpha` and `beta` scale the sum and the bias.
pub(crate) fn run<T: Real + Acc, K: Kernel>(
    cx: &EvalCx,
    kernel: &K,
    shape: &[usize],
    arrange: Arrange,
    bias: Option<Bias>,
    (alpha, beta): (f32, f32),
) -> Result<Tensor> {
    let x = arrange.x(T::read(cx.input(0)?)?);
    let w = arrange.w(T::read(cx.input(1)?)?);
    let mut out = alloc::<T>(count(shape)?)?;
    kernel.run(&x, &w, &mut out);
    if alpha != 1.0 {
        let alpha = T::of(alpha.into());
        out.iter_mut().for_each(|v| *v = alpha * *v);
    }
    if let Some(Bias { tensor, index, .. }) = bias {
        let beta = T::of(beta.into());
        let values: Vec<T> = T::read(tensor)?.into_iter().map(|b| beta * b).collect();
        let channels = kernel.channels();
        for (i, v) in out.iter_mut().enumerate() {
            *v += values[index.of(i, channels)];
        }
    }
    add_residual(cx, &mut out, shape)?;
    T::write(cx.input(0)?.dtype(), shape, &out)
}

/// Adds the last input where the node says so, then applies the activation.
fn add_residual<T: Real>(cx: &EvalCx, y: &mut [T], shape: &[usize]) -> Result<()> {
    if !cx.node.fused.residual {
        return Ok(());
    }
    let other = cx.input(cx.inputs.len().saturating_sub(1))?;
    if other.shape() != shape {
        let found = other.shape();
        return Err(Error::invalid(format!("the residual of {} is {found:?}, expected {shape:?}", cx.node.full_op())));
    }
    for (v, r) in y.iter_mut().zip(T::read(other)?) {
        *v += r;
        if let Some(act) = cx.node.fused.act {
            *v = T::of(act.apply(v.wide() as f32).into());
        }
    }
    Ok(())
}
