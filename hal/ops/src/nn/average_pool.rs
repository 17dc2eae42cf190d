//! `AveragePool` and `LpPool`.
//!
//! * (C1) The sum ascends over the taps inside the image, plain additions, then one division by their number.
//! * (C2) `count_include_pad` counts taps in the padding, but not what `ceil_mode` adds behind it.
//! * (C3) Quantized: an integer sum and `m = fl32(xs / fl32(ys * n))` (numerics.md section 4).
//! * (C4) LpPool is `(sum |x|^p)^(1/p)`.

use super::means::Means;
use super::pool::{self, Pool, infer_dims};
use super::real::{Real, alloc, count, with_real};
use crate::elementwise::sample::{case, f32s, ints, quant_case};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::refmath::tflite::tflite_average;
use ottava_hal::{Attr, DataType, Error, Node, Result, Tensor, TensorType};

/// Average pool.
pub struct AveragePool;
/// Norm pool.
pub struct LpPool;

static AVERAGE: OpSpec = OpSpec {
    name: "AveragePool",
    domain: "",
    since: 1,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[
        pool::AUTO_PAD,
        pool::CEIL,
        AttrSpec::optional("count_include_pad", AttrKind::Int),
        pool::DILATIONS,
        pool::KERNEL,
        pool::PADS,
        pool::STRIDES,
    ],
};

static LP: OpSpec = OpSpec {
    name: "LpPool",
    domain: "",
    since: 2,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[
        pool::AUTO_PAD,
        pool::CEIL,
        pool::DILATIONS,
        pool::KERNEL,
        AttrSpec::optional("p", AttrKind::Int),
        pool::PADS,
        pool::STRIDES,
    ],
};

impl Op for AveragePool {
    fn spec(&self) -> &'static OpSpec {
        &AVERAGE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, infer_dims(cx)?)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let pool = Pool::of(cx.attrs(), x.shape())?;
        let with_pad = cx.attrs().int("count_include_pad", 0)? != 0;
        let y = with_real!(x.dtype(), "AveragePool", T => average::<T>(x, &pool, with_pad))?;
        Ok(vec![y])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let Some(means) = Means::of(cx)? else { return Ok(None) };
        let x = cx.input(0)?;
        let pool = Pool::of(cx.attrs(), x.shape())?;
        let with_pad = cx.attrs().int("count_include_pad", 0)? != 0;
        Ok(Some(vec![integer_average(x, &pool, means, with_pad)?]))
    }

    fn cases(&self) -> Vec<Case> {
        let node = |pad: i64| {
            let mut node = Node::new("pool", "AveragePool", 22);
            node.attrs.set("kernel_shape", Attr::Ints(vec![2]));
            node.attrs.set("pads", Attr::Ints(vec![1, 0]));
            node.attrs.set("count_include_pad", Attr::Int(pad));
            node
        };
        let x = f32s(&[1, 1, 3], &[2.0, 4.0, 7.0]);
        let q = ints(DataType::U8, &[1, 1, 3], &[12, 13, 16]);
        // Sums 2, 5, 9 over 1, 2, 2 taps: 2, 2.5, 4.5 rounds to even.
        let y = ints(DataType::U8, &[1, 1, 3], &[12, 12, 14]);
        vec![
            case("c1_taps_inside", node(0), std::slice::from_ref(&x), &[f32s(&[1, 1, 3], &[2.0, 3.0, 5.5])]),
            case("c2_taps_in_padding", node(1), &[x], &[f32s(&[1, 1, 3], &[1.0, 3.0, 5.5])]),
            quant_case("c3_integers", node(0), &[(q, 0.5, 10)], (y, 0.5, 10)),
        ]
    }
}

fn average<T: Real>(x: &Tensor, pool: &Pool, with_pad: bool) -> Result<Tensor> {
    let data = T::read(x)?;
    let mut y = alloc::<T>(count(&pool.shape)?)?;
    let mut o = 0;
    pool.for_each(|plane, taps| {
        let start = plane * pool.plane_len();
        let mut sum = T::default();
        taps.for_each(|i| sum += data[start + i]);
        let n = if with_pad { taps.padded() } else { taps.inside() };
        y[o] = if n == 0 { sum } else { sum / T::of(n as f64) };
        o += 1;
    });
    T::write(x.dtype(), &pool.shape, &y)
}

/// (C3)
fn integer_average(x: &Tensor, pool: &Pool, mut means: Means, with_pad: bool) -> Result<Tensor> {
    let tflite = means.is_tflite_average() && !with_pad;
    let data = if tflite { x.to_ints()? } else { means.centred(x)? };
    let (lo, hi) = means.dtype.storage_range().ok_or_else(|| Error::invalid("the output is no storage type"))?;
    let mut y = Vec::with_capacity(0);
    y.try_reserve(count(&pool.shape)?).map_err(|_| Error::invalid("the pool's output is too large"))?;
    let mut failure = None;
    pool.for_each(|plane, taps| {
        let start = plane * pool.plane_len();
        let mut sum = 0i64;
        taps.for_each(|i| sum += data[start + i]);
        let n = if with_pad { taps.padded() } else { taps.inside() }.max(1);
        if tflite {
            y.push(i64::from(tflite_average(sum as i32, n as u32, lo, hi)));
            return;
        }
        match means.value(sum, taps.inside(), n) {
            Ok(v) => y.push(v),
            Err(e) => failure = Some(e),
        }
    });
    match failure {
        Some(e) => Err(e),
        None => Tensor::from_ints(means.dtype, &pool.shape, &y),
    }
}

impl Op for LpPool {
    fn spec(&self) -> &'static OpSpec {
        &LP
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, infer_dims(cx)?)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let pool = Pool::of(cx.attrs(), x.shape())?;
        let p = norm_order(cx)?;
        let y = with_real!(x.dtype(), "LpPool", T => {
            let data = T::read(x)?;
            let mut y = alloc::<T>(count(&pool.shape)?)?;
            let mut o = 0;
            pool.for_each(|plane, taps| {
                let start = plane * pool.plane_len();
                let mut sum = T::default();
                taps.for_each(|i| sum += power(data[start + i], p));
                y[o] = root(sum, p);
                o += 1;
            });
            T::write(x.dtype(), &pool.shape, &y)
        })?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("pool", "LpPool", 22);
        node.attrs.set("kernel_shape", Attr::Ints(vec![2]));
        let (x, y) = (f32s(&[1, 1, 3], &[3.0, -4.0, 0.0]), f32s(&[1, 1, 2], &[5.0, 4.0]));
        vec![case("c4_euclidean_norm", node, &[x], &[y])]
    }
}

/// The order of a norm: attribute `p`, at least 1.
pub(super) fn norm_order(cx: &EvalCx) -> Result<i64> {
    let p = cx.attrs().int("p", 2)?;
    if p < 1 { Err(Error::invalid(format!("p is {p}, expected at least 1"))) } else { Ok(p) }
}

/// `|x|^p`.
pub(super) fn power<T: Real>(x: T, p: i64) -> T {
    match p {
        1 => x.abs(),
        2 => x * x,
        _ => x.abs().pow(T::of(p as f64)),
    }
}

/// `sum^(1/p)`.
pub(super) fn root<T: Real>(sum: T, p: i64) -> T {
    match p {
        1 => sum,
        2 => sum.sqrt(),
        _ => sum.pow(T::ONE / T::of(p as f64)),
    }
}
