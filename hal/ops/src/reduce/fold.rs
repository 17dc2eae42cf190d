//! The `Reduce*` operators.
//!
//! * (C1) One accumulator per output, ascending index, plain additions; mean = sum / n.
//! * (C2) Without axes everything is folded, or nothing where `noop_with_empty_axes` is set.
//! * (C3) An empty set gives the neutral element: 0, 1, -inf for Max and the logarithms, +inf for Min.
//! * (C4) LogSumExp subtracts the maximum first.
//! * (C5) Integers are computed modulo 2^n of their type; Mean truncates, roots and logarithms go through f64.
//! * (C6) Quantized Mean and Sum are integer sums with `m = fl32(xs / fl32(ys * n))`, n = 1 for Sum; Max and Min work
//!   on the integers.

use super::plan::{Plan, infer_dims};
use crate::elementwise::sample::{case_const, f32s, ints, quant_case};
use crate::nn::matmul::wrap;
use crate::nn::means::Means;
use crate::nn::real::{Real, with_real};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{DataType, Error, Node, Result, Tensor, TensorType};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    L1,
    L2,
    LogSum,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Sum,
    SumSquare,
}

/// A reduction.
pub struct Reduce {
    spec: OpSpec,
    kind: Kind,
}

const fn reduce(name: &'static str, kind: Kind) -> Reduce {
    const ATTRS: &[AttrSpec] =
        &[AttrSpec::optional("keepdims", AttrKind::Int), AttrSpec::optional("noop_with_empty_axes", AttrKind::Int)];
    Reduce { spec: OpSpec { name, domain: "", since: 1, inputs: (1, 2), outputs: (1, 1), attrs: ATTRS }, kind }
}

/// Sum of magnitudes.
pub static L1: Reduce = reduce("ReduceL1", Kind::L1);
/// Root of the sum of squares.
pub static L2: Reduce = reduce("ReduceL2", Kind::L2);
/// Logarithm of the sum.
pub static LOG_SUM: Reduce = reduce("ReduceLogSum", Kind::LogSum);
/// Logarithm of the sum of exponentials.
pub static LOG_SUM_EXP: Reduce = reduce("ReduceLogSumExp", Kind::LogSumExp);
/// Maximum.
pub static MAX: Reduce = reduce("ReduceMax", Kind::Max);
/// Mean.
pub static MEAN: Reduce = reduce("ReduceMean", Kind::Mean);
/// Minimum.
pub static MIN: Reduce = reduce("ReduceMin", Kind::Min);
/// Product.
pub static PROD: Reduce = reduce("ReduceProd", Kind::Prod);
/// Sum.
pub static SUM: Reduce = reduce("ReduceSum", Kind::Sum);
/// Sum of squares.
pub static SUM_SQUARE: Reduce = reduce("ReduceSumSquare", Kind::SumSquare);

/// The plan of a node; where it folds nothing, each element is its own set.
fn plan(cx: &EvalCx) -> Result<Plan> {
    match Plan::of(cx, 1)? {
        Some(plan) => Ok(plan),
        None => {
            let x = cx.input(0)?;
            let mut apart = x.shape().to_vec();
            apart.push(1);
            let last = [x.shape().len() as i64];
            Plan::new(&apart, Some(&last), false)
        }
    }
}

impl Op for Reduce {
    fn spec(&self) -> &'static OpSpec {
        let all = [&L1, &L2, &LOG_SUM, &LOG_SUM_EXP, &MAX, &MEAN, &MIN, &PROD, &SUM, &SUM_SQUARE];
        &all[self.kind as usize].spec
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, infer_dims(cx, 1)?)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let plan = plan(cx)?;
        if !x.dtype().is_float() {
            return Ok(vec![self.integers(x, &plan)?]);
        }
        let y = with_real!(x.dtype(), self.spec.name, T => {
            T::write(x.dtype(), &plan.output, &self.reals(&T::read(x)?, &plan))
        })?;
        Ok(vec![y])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        match self.kind {
            Kind::Max | Kind::Min => QuantRule::Move,
            Kind::Mean | Kind::Sum => QuantRule::Own,
            _ => QuantRule::Float,
        }
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let Some(mut means) = Means::of(cx)? else { return Ok(None) };
        let plan = plan(cx)?;
        if plan.n == 0 {
            return Ok(None);
        }
        let mut sums = vec![0i64; plan.outputs()];
        plan.fold(&means.centred(cx.input(0)?)?, &mut sums, |acc, v| *acc += v);
        let divisor = if self.kind == Kind::Mean { plan.n } else { 1 };
        let y: Vec<i64> = sums.into_iter().map(|s| means.value(s, plan.n, divisor)).collect::<Result<_>>()?;
        Ok(Some(vec![Tensor::from_ints(means.dtype, &plan.output, &y)?]))
    }

    fn cases(&self) -> Vec<Case> {
        let node = || Node::new("reduce", self.spec.name, 18);
        let axis = || ints(DataType::S64, &[1], &[-1]);
        let y: [f32; 2] = match self.kind {
            Kind::L1 => [7.0, 5.0],
            Kind::L2 => [5.0, 5.0],
            Kind::LogSum => [0.0, 5f32.ln()],
            Kind::LogSumExp => [4.000_911_7, 5.006_715_3],
            Kind::Max => [4.0, 5.0],
            Kind::Mean => [0.5, 2.5],
            Kind::Min => [-3.0, 0.0],
            Kind::Prod => [-12.0, 0.0],
            Kind::Sum => [1.0, 5.0],
            Kind::SumSquare => [25.0, 25.0],
        };
        let x = f32s(&[2, 2], &[-3.0, 4.0, 0.0, 5.0]);
        let mut cases = vec![case_const("c1_last_axis", node(), 1, &[x, axis()], &[f32s(&[2, 1], &y)])];
        let q = |v: &[i64], shape: &[usize]| ints(DataType::U8, shape, v);
        // Sums 3 and 5 about zero point 10; as means 1.5 and 2.5, both to even.
        let y = match self.kind {
            Kind::Mean => [2, 2],
            Kind::Sum => [3, 5],
            _ => return cases,
        };
        let mut typed =
            quant_case("c6_integers", node(), &[(q(&[11, 12, 10, 15], &[2, 2]), 0.5, 10)], (q(&y, &[2, 1]), 0.5, 0));
        typed.inputs.push(Some(crate::CaseInput::plain(axis()).constant()));
        cases.push(typed);
        cases
    }
}

impl Reduce {
    fn reals<T: Real>(&self, x: &[T], plan: &Plan) -> Vec<T> {
        let n = plan.outputs();
        let start = |v: T| vec![v; n];
        let zero = || start(T::default());
        let mut acc = match self.kind {
            Kind::Max => start(T::LOWEST),
            Kind::Min => start(-T::LOWEST),
            Kind::Prod => start(T::ONE),
            _ => zero(),
        };
        match self.kind {
            Kind::L1 => plan.fold(x, &mut acc, |a, v| *a += v.abs()),
            Kind::L2 | Kind::SumSquare => plan.fold(x, &mut acc, |a, v| *a += v * v),
            Kind::Max => plan.fold(x, &mut acc, |a, v| *a = a.max_nan(v)),
            Kind::Min => plan.fold(x, &mut acc, |a, v| *a = a.min_nan(v)),
            Kind::Prod => plan.fold(x, &mut acc, |a, v| *a = *a * v),
            Kind::Sum | Kind::Mean | Kind::LogSum => plan.fold(x, &mut acc, |a, v| *a += v),
            Kind::LogSumExp => return log_sum_exp(x, plan),
        }
        match self.kind {
            Kind::L2 => acc.iter_mut().for_each(|v| *v = v.sqrt()),
            Kind::LogSum => acc.iter_mut().for_each(|v| *v = v.ln()),
            Kind::Mean => acc.iter_mut().for_each(|v| *v = *v / T::of(plan.n as f64)),
            _ => {}
        }
        acc
    }

    /// (C5) Integers and booleans.
    fn integers(&self, x: &Tensor, plan: &Plan) -> Result<Tensor> {
        let dtype = x.dtype();
        if let Kind::L2 | Kind::LogSum | Kind::LogSumExp = self.kind {
            let real = self.reals(&f64::read(x)?, plan);
            let (lo, hi) = dtype.int_range().unwrap_or((i64::MIN, i64::MAX));
            let y: Vec<i64> = real.into_iter().map(|v| (v as i64).clamp(lo, hi)).collect();
            return Tensor::from_ints(dtype, &plan.output, &y);
        }
        let bool_range = (dtype == DataType::Bool).then_some((0, 1));
        let (lo, hi) = bool_range.or(dtype.int_range()).unwrap_or((i64::MIN, i64::MAX));
        // u64 beyond i64 orders as its bits with the sign flipped.
        let key = |v: i64| if dtype == DataType::U64 { v ^ i64::MIN } else { v };
        let (least, most) = if dtype == DataType::U64 { (0, -1) } else { (lo, hi) };
        let first = match self.kind {
            Kind::Max => least,
            Kind::Min => most,
            Kind::Prod => 1,
            _ => 0,
        };
        let mut acc = vec![first; plan.outputs()];
        let step = |a: &mut i64, v: i64| {
            *a = match self.kind {
                Kind::L1 => a.wrapping_add(if dtype == DataType::U64 { v } else { v.wrapping_abs() }),
                Kind::SumSquare => a.wrapping_add(v.wrapping_mul(v)),
                Kind::Max => {
                    if key(v) > key(*a) {
                        v
                    } else {
                        *a
                    }
                }
                Kind::Min => {
                    if key(v) < key(*a) {
                        v
                    } else {
                        *a
                    }
                }
                Kind::Prod => a.wrapping_mul(v),
                _ => a.wrapping_add(v),
            }
        };
        plan.fold(&x.to_ints()?, &mut acc, step);
        if self.kind == Kind::Mean {
            let n = i64::try_from(plan.n).ok().filter(|&n| n > 0);
            let n = n.ok_or_else(|| Error::invalid("ReduceMean of integers over an empty set has no value"))?;
            acc.iter_mut().for_each(|v| *v /= n);
        }
        acc.iter_mut().for_each(|v| *v = wrap(dtype, *v));
        Tensor::from_ints(dtype, &plan.output, &acc)
    }
}

/// (C4) A set whose maximum is infinite has that value.
fn log_sum_exp<T: Real>(x: &[T], plan: &Plan) -> Vec<T> {
    let mut most = vec![T::LOWEST; plan.outputs()];
    plan.fold(x, &mut most, |m, v| *m = m.max_nan(v));
    let mut acc: Vec<(T, T)> = most.into_iter().map(|m| (m, T::default())).collect();
    let is_infinite = |m: T| m == T::LOWEST || m == -T::LOWEST;
    plan.fold(x, &mut acc, |(m, sum), v| {
        if !is_infinite(*m) {
            *sum += (v - *m).exp();
        }
    });
    acc.into_iter().map(|(m, sum)| if is_infinite(m) { m } else { m + sum.ln() }).collect()
}
