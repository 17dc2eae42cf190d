//! `GlobalAveragePool`, `GlobalMaxPool`, `GlobalLpPool`: one value per plane.
//!
//! * (C1) Sums ascend; the mean is sum / n.
//! * (C2) The quantized average is the integer mean of numerics.md section 4.

use super::average_pool::{norm_order, power, root};
use super::means::Means;
use super::real::{Real, count, with_real};
use crate::elementwise::sample::{case, f32s, ints, quant_case};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// Which value stands for a plane.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Average,
    Max,
    Lp,
}

/// A pool over whole planes.
pub struct GlobalPool {
    spec: OpSpec,
    kind: Kind,
}

const fn global(name: &'static str, kind: Kind, attrs: &'static [AttrSpec]) -> GlobalPool {
    GlobalPool { spec: OpSpec { name, domain: "", since: 1, inputs: (1, 1), outputs: (1, 1), attrs }, kind }
}

/// Mean of each plane.
pub static AVERAGE: GlobalPool = global("GlobalAveragePool", Kind::Average, &[]);
/// Maximum of each plane.
pub static MAX: GlobalPool = global("GlobalMaxPool", Kind::Max, &[]);
/// Norm of each plane.
pub static LP: GlobalPool = global("GlobalLpPool", Kind::Lp, &[AttrSpec::optional("p", AttrKind::Int)]);

fn is_nan<T: PartialOrd>(v: T) -> bool {
    v.partial_cmp(&v).is_none()
}

/// Shape of the output and number of elements per plane.
fn planes(x: &[usize]) -> Result<(Vec<usize>, usize)> {
    if x.len() < 2 {
        return Err(Error::invalid(format!("a global pool needs batch and channel axes, found {x:?}")));
    }
    let mut shape = vec![1; x.len()];
    shape[..2].copy_from_slice(&x[..2]);
    Ok((shape, count(&x[2..])?))
}

impl Op for GlobalPool {
    fn spec(&self) -> &'static OpSpec {
        // The three pools are statics, so their schema lives as long as the program.
        match self.kind {
            Kind::Average => &AVERAGE.spec,
            Kind::Max => &MAX.spec,
            Kind::Lp => &LP.spec,
        }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let x = cx.shape(0)?;
        if x.len() < 2 {
            return Err(Error::invalid(format!("{}: input of rank {}", self.spec.name, x.len())));
        }
        let mut dims = vec![Dim::Known(1); x.len()];
        dims[..2].clone_from_slice(&x[..2]);
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let (shape, n) = planes(x.shape())?;
        if self.kind == Kind::Max && x.dtype().is_integer() {
            let ints = x.to_ints()?;
            let most = |p: &[i64]| p.iter().copied().max().unwrap_or(0);
            let y: Vec<i64> = ints.chunks_exact(n.max(1)).map(most).collect();
            return Ok(vec![Tensor::from_ints(x.dtype(), &shape, &y)?]);
        }
        let p = norm_order(cx)?;
        let y = with_real!(x.dtype(), self.spec.name, T => {
            let data = T::read(x)?;
            let empty = vec![T::default(); count(&shape)?];
            let value = |plane: &[T]| self.value(plane, p);
            let y = if n == 0 { empty } else { data.chunks_exact(n).map(value).collect() };
            T::write(x.dtype(), &shape, &y)
        })?;
        Ok(vec![y])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        match self.kind {
            Kind::Average => QuantRule::Own,
            Kind::Max => QuantRule::Move,
            Kind::Lp => QuantRule::Float,
        }
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let Some(mut means) = Means::of(cx)? else { return Ok(None) };
        let x = cx.input(0)?;
        let (shape, n) = planes(x.shape())?;
        if n == 0 {
            return Ok(None);
        }
        let data = means.centred(x)?;
        let sums = data.chunks_exact(n).map(|p| p.iter().sum::<i64>());
        let y: Vec<i64> = sums.map(|s| means.value(s, n, n)).collect::<Result<_>>()?;
        Ok(Some(vec![Tensor::from_ints(means.dtype, &shape, &y)?]))
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("pool", self.spec.name, 1);
        let x = f32s(&[1, 2, 2], &[3.0, -4.0, 6.0, 8.0]);
        let y = match self.kind {
            Kind::Average => [-0.5, 7.0],
            Kind::Max => [3.0, 8.0],
            Kind::Lp => [5.0, 10.0],
        };
        let mut cases = vec![case("c1_one_value_per_plane", node.clone(), &[x], &[f32s(&[1, 2, 1], &y)])];
        if self.kind == Kind::Average {
            // Sums 5 and -6 of two elements: 2.5 rounds to even, then the zero point is added.
            let x = ints(DataType::S8, &[1, 2, 2], &[4, 3, -3, -1]);
            let y = ints(DataType::S8, &[1, 2, 1], &[9, 4]);
            cases.push(quant_case("c2_integers", node, &[(x, 0.25, 1)], (y, 0.25, 7)));
        }
        cases
    }
}

impl GlobalPool {
    fn value<T: Real>(&self, plane: &[T], p: i64) -> T {
        match self.kind {
            // As MaxPool: the first of equal values stays.
            Kind::Max => plane.iter().fold(T::LOWEST, |m, &v| if m < v || (is_nan(v) && !is_nan(m)) { v } else { m }),
            Kind::Average => {
                let mut sum = T::default();
                plane.iter().for_each(|&v| sum += v);
                sum / T::of(plane.len() as f64)
            }
            Kind::Lp => {
                let mut sum = T::default();
                plane.iter().for_each(|&v| sum += power(v, p));
                root(sum, p)
            }
        }
    }
}
