//! Pow: `x ^ y` with broadcasting; the exponent may have another element type.
//!
//! * (C1) floats: f64 `pow`, rounded once. (C2) integers with an integer exponent wrap; a negative exponent gives the
//!   truncated real power. (C3) integers with a float exponent: the real power, truncated and saturated.

use super::binary::infer_broadcast;
use super::broadcast::Broadcast;
use super::cast::cast;
use super::number::{Number, with_integer};
use super::sample::{case, f32s, ints};
use crate::{Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{DataType, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Pow;

static SPEC: OpSpec = OpSpec { name: "Pow", domain: "", since: 7, inputs: (2, 2), outputs: (1, 1), attrs: &[] };

impl Op for Pow {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        infer_broadcast(cx, cx.dtype(0)?)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, y) = (cx.input(0)?, cx.input(1)?);
        let plan = Broadcast::new(x.shape(), y.shape())?;
        if x.dtype().is_integer() && y.dtype().is_integer() {
            let mut out = util::output(x.dtype(), &plan.shape)?;
            let exponents = cast(y, DataType::S64)?;
            return with_integer!(x.dtype(), "Pow", T => {
                let power = |x: T, y: i64| T::narrow(power_int(x.widen(), y));
                plan.map(x.as_slice::<T>()?, exponents.as_slice::<i64>()?, out.as_slice_mut::<T>()?, power);
                Ok(vec![out])
            });
        }
        let (a, b) = (cast(x, DataType::F64)?, cast(y, DataType::F64)?);
        let mut real = util::output(DataType::F64, &plan.shape)?;
        plan.map(a.as_slice::<f64>()?, b.as_slice::<f64>()?, real.as_slice_mut::<f64>()?, libm::pow);
        Ok(vec![cast(&real, x.dtype())?])
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("pow", "Pow", 15);
        let s32 = |v: &[i64]| ints(DataType::S32, &[v.len()], v);
        vec![
            case(
                "c1_floats",
                node.clone(),
                &[f32s(&[2], &[3.0, 4.0]), f32s(&[2], &[2.0, 0.5])],
                &[f32s(&[2], &[9.0, 2.0])],
            ),
            case("c2_integers", node.clone(), &[s32(&[3, -2, 2, 1]), s32(&[2, 3, -1, -5])], &[s32(&[9, -8, 0, 1])]),
            case("c3_float_exponent", node, &[s32(&[9, 4]), f32s(&[2], &[0.5, 1.5])], &[s32(&[3, 8])]),
        ]
    }
}

/// `x ^ y`, wrapping.
fn power_int(x: i128, y: i64) -> i128 {
    if y < 0 {
        return match x {
            1 => 1,
            -1 => 1 - 2 * i128::from(y % 2 != 0),
            _ => 0,
        };
    }
    let (mut base, mut rest, mut power) = (x, y, 1i128);
    while rest > 0 {
        if rest % 2 == 1 {
            power = power.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        rest /= 2;
    }
    power
}
