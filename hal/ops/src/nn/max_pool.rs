//! `MaxPool`: the greatest element of each window, and where it is.
//!
//! * (C1) Indices are flat within the whole input; `storage_order` 1 counts each plane column-major.
//! * (C2) The first of equal elements wins; NaN wins over numbers.
//! * (C3) On quantized values it works on the integers.

use super::pool::{self, Pool, infer_dims};
use super::real::{alloc, count, with_real};
use crate::elementwise::sample::{f32s, ints, quant_case};
use crate::{AttrKind, AttrSpec, Case, CaseInput, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{Attr, DataType, Node, Result, Tensor, TensorType};

/// Maximum pool.
pub struct MaxPool;

static SPEC: OpSpec = OpSpec {
    name: "MaxPool",
    domain: "",
    since: 1,
    inputs: (1, 1),
    outputs: (1, 2),
    attrs: &[
        pool::AUTO_PAD,
        pool::CEIL,
        pool::DILATIONS,
        pool::KERNEL,
        pool::PADS,
        AttrSpec::optional("storage_order", AttrKind::Int),
        pool::STRIDES,
    ],
};

impl Op for MaxPool {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dims = infer_dims(cx)?;
        Ok(vec![cx.ty(cx.dtype(0)?, dims.clone()), cx.ty(DataType::S64, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let pool = Pool::of(cx.attrs(), x.shape())?;
        let column_major = cx.attrs().int("storage_order", 0)? != 0;
        let (y, at) = if x.dtype().is_integer() {
            let lowest = x.dtype().int_range().map_or(i64::MIN, |(lo, _)| lo);
            let (values, at) = run(&pool, &x.to_ints()?, lowest)?;
            (Tensor::from_ints(x.dtype(), &pool.shape, &values)?, at)
        } else {
            with_real!(x.dtype(), "MaxPool", T => {
                use super::real::Real;
                let (values, at) = run(&pool, &T::read(x)?, T::LOWEST)?;
                Ok((T::write(x.dtype(), &pool.shape, &values)?, at))
            })?
        };
        let indices: Vec<i64> = at.into_iter().map(|i| flat(&pool, i, column_major) as i64).collect();
        Ok(vec![y, Tensor::from_slice(&pool.shape, &indices)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let node = || {
            let mut node = Node::new("pool", "MaxPool", 22);
            node.attrs.set("kernel_shape", Attr::Ints(vec![2]));
            node
        };
        let indices = Case {
            name: "c2_first_of_equal_wins",
            node: node(),
            inputs: vec![Some(CaseInput::plain(f32s(&[1, 2, 3], &[1.0, 5.0, 5.0, 2.0, 1.0, 0.0])))],
            outputs: vec![
                (f32s(&[1, 2, 2], &[5.0, 5.0, 2.0, 1.0]), None),
                (ints(DataType::S64, &[1, 2, 2], &[1, 1, 3, 4]), None),
            ],
        };
        let x = ints(DataType::S8, &[1, 1, 3], &[-128, -3, 7]);
        let y = ints(DataType::S8, &[1, 1, 2], &[-3, 7]);
        vec![indices, quant_case("c3_integers", node(), &[(x, 0.1, 5)], (y, 0.1, 5))]
    }
}

/// Values and their flat indices; a window without any tap has the lowest value and the plane's first index.
fn run<T: Copy + Default + PartialOrd>(pool: &Pool, x: &[T], lowest: T) -> Result<(Vec<T>, Vec<usize>)> {
    let n = count(&pool.shape)?;
    let (mut values, mut at) = (alloc::<T>(n)?, alloc::<usize>(n)?);
    let mut o = 0;
    pool.for_each(|plane, taps| {
        let start = plane * pool.plane_len();
        let mut best: Option<(T, usize)> = None;
        taps.for_each(|i| {
            let v = x[start + i];
            let wins = best.is_none_or(|(b, _)| v > b || (is_nan(&v) && !is_nan(&b)));
            if wins {
                best = Some((v, start + i));
            }
        });
        (values[o], at[o]) = best.unwrap_or((lowest, start));
        o += 1;
    });
    Ok((values, at))
}

fn is_nan<T: PartialOrd>(v: &T) -> bool {
    v.partial_cmp(v).is_none()
}

/// (C1)
fn flat(pool: &Pool, row_major: usize, column_major: bool) -> usize {
    if !column_major {
        return row_major;
    }
    let [d, h, w] = pool.axes.map(|a| a.input);
    let plane = row_major / pool.plane_len();
    let inside = row_major % pool.plane_len();
    let (id, ih, iw) = (inside / (h * w), inside / w % h, inside % w);
    plane * pool.plane_len() + id + d * (ih + h * iw)
}
