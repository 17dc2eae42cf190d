//! The form that arithmetic of two broadcast operands shares, and inference by broadcasting.

use super::broadcast::Broadcast;
use super::number::{Number, with_number};
use crate::elementwise::number::Compute;
use crate::quant::fixed_binary::{self, Fixed};
use crate::quant::qlinear_binary;
use crate::{Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{DataType, Error, Node, Reason, RequantMode, Result, Tensor, TensorType};

/// A function of two numbers of one type, written once for every computing type.
pub(crate) trait BinaryFn: Sync {
    /// Schema.
    const SPEC: &'static OpSpec;
    /// Whether an integer second operand of 0 is an error.
    const DIVIDES: bool = false;
    /// The form with the zero point added before rounding, for operators that have one.
    const BEFORE_ROUND: Option<qlinear_binary::Binary> = None;
    /// The fixed-point form of the Q31 modes, for operators that have one.
    const FIXED: Option<Fixed> = None;

    /// The function.
    fn apply<C: Compute>(a: C, b: C) -> C;

    /// Cases of the operator.
    fn cases() -> Vec<Case>;
}

/// The operator of a function of two numbers.
pub struct Binary<F>(pub F);

/// A schema of two inputs and one output.
pub const fn spec2(name: &'static str, since: u32) -> OpSpec {
    OpSpec { name, domain: "", since, inputs: (2, 2), outputs: (1, 1), attrs: &[] }
}

impl<F: BinaryFn> Op for Binary<F> {
    fn spec(&self) -> &'static OpSpec {
        F::SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        same_dtype(cx, 0, 1)?;
        infer_broadcast(cx, cx.dtype(0)?)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        let name = F::SPEC.name;
        with_number!(a.dtype(), name, T => {
            let (x, y) = (a.as_slice::<T>()?, b.as_slice::<T>()?);
            if F::DIVIDES && a.dtype().is_integer() {
                refuse_zero(y, name)?;
            }
            let plan = Broadcast::new(a.shape(), b.shape())?;
            let mut out = util::output(a.dtype(), &plan.shape)?;
            plan.map(x, y, out.as_slice_mut::<T>()?, |x, y| T::narrow(F::apply(x.widen(), y.widen())));
            Ok(vec![out])
        })
    }

    fn quant_rule(&self, node: &Node) -> QuantRule {
        if node.fused.zp_before_round || fixed_mode(node).is_some() { QuantRule::Own } else { QuantRule::Float }
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        if let (Some(mode), false) = (fixed_mode(cx.node), cx.node.fused.zp_before_round) {
            let y = F::FIXED.map_or(Ok(None), |op| fixed_binary::eval(op, mode, cx))?;
            return Ok(y.map(|y| vec![y]));
        }
        let params = (cx.in_quant(0), cx.in_quant(1), cx.out_quant(0), cx.out_dtype(0));
        let (Some(form), (Some(qa), Some(qb), Some(qy), Some(dtype))) = (F::BEFORE_ROUND, params) else {
            let what = format!("{}: the zero point cannot be added before rounding", F::SPEC.name);
            return Err(Error::unsupported(Reason::QuantScheme, what));
        };
        let y = qlinear_binary::before_round(form, (cx.input(0)?, qa), (cx.input(1)?, qb), (dtype, qy))?;
        Ok(Some(vec![y]))
    }

    fn cases(&self) -> Vec<Case> {
        F::cases()
    }
}

/// The mode of a node that is computed in fixed point.
pub(crate) fn fixed_mode(node: &Node) -> Option<RequantMode> {
    node.requant.filter(|mode| *mode != RequantMode::Fp32Rne)
}

/// Integers have no quotient by 0.
pub fn refuse_zero<T: Number>(divisor: &[T], op: &str) -> Result<()> {
    if divisor.iter().any(|&v| v.widen() == T::Wide::ZERO) {
        return Err(Error::invalid(format!("{op}: an integer is divided by 0")));
    }
    Ok(())
}

/// Two plain inputs have one element type. Quantized ones may differ in storage.
pub fn same_dtype(cx: &InferCx, a: usize, b: usize) -> Result<()> {
    let (x, y) = (cx.input(a)?.ty, cx.input(b)?.ty);
    if x.dtype != y.dtype && x.quant.is_none() && y.quant.is_none() {
        let op = cx.node.full_op();
        return Err(Error::invalid(format!(
            "{op}: input {a} is {}, input {b} is {}, expected one type",
            x.dtype, y.dtype
        )));
    }
    Ok(())
}

/// One output of `dtype` with the broadcast shape of all inputs that are present.
pub fn infer_broadcast(cx: &InferCx, dtype: DataType) -> Result<Vec<TensorType>> {
    let mut dims = cx.shape(0)?.to_vec();
    for input in cx.inputs.iter().skip(1).flatten() {
        dims = util::broadcast_dims(&dims, &input.ty.shape.0)?;
    }
    Ok(vec![cx.ty(dtype, dims)])
}
