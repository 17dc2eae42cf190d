//! Mod: the remainder of a division, with broadcasting.
//!
//! * (C1) `fmod = 0`: the sign of the divisor. (C2) `fmod = 1`: C's fmod, the sign of the dividend.
//! * (C3) an integer divisor of 0 is an error.

use super::binary::{infer_broadcast, refuse_zero, same_dtype};
use super::broadcast::Broadcast;
use super::number::{Compute, Number, with_number};
use super::sample::{case, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{Attr, Attrs, DataType, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Mod;

static SPEC: OpSpec = OpSpec {
    name: "Mod",
    domain: "",
    since: 10,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("fmod", AttrKind::Int)],
};

impl Op for Mod {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        same_dtype(cx, 0, 1)?;
        infer_broadcast(cx, cx.dtype(0)?)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        let floored = cx.attrs().int("fmod", 0)? == 0;
        let plan = Broadcast::new(a.shape(), b.shape())?;
        let mut out = util::output(a.dtype(), &plan.shape)?;
        with_number!(a.dtype(), "Mod", T => {
            let (x, y) = (a.as_slice::<T>()?, b.as_slice::<T>()?);
            if a.dtype().is_integer() {
                refuse_zero(y, "Mod")?;
            }
            let f = |x: T, y: T| T::narrow(remainder(x.widen(), y.widen(), floored));
            plan.map(x, y, out.as_slice_mut::<T>()?, f);
            Ok(vec![out])
        })
    }

    fn cases(&self) -> Vec<Case> {
        let mut fmod = Node::new("mod", "Mod", 13);
        let plain = fmod.clone();
        fmod.attrs = Attrs::default().with("fmod", Attr::Int(1));
        let s32 = |v: &[i64]| ints(DataType::S32, &[3], v);
        let (a, b) = (s32(&[-4, 7, 5]), s32(&[3, -3, 8]));
        vec![
            case("c1_integers", plain, &[a.clone(), b.clone()], &[s32(&[2, -2, 5])]),
            case("c2_integers", fmod.clone(), &[a, b], &[s32(&[-1, 1, 5])]),
            case("c2_floats", fmod, &[f32s(&[2], &[-4.5, 5.0]), f32s(&[], &[2.0])], &[f32s(&[2], &[-0.5, 1.0])]),
        ]
    }
}

fn remainder<C: Compute>(x: C, y: C, floored: bool) -> C {
    let r = x.rem(y);
    let other_sign = (r < C::ZERO) != (y < C::ZERO) && r != C::ZERO;
    if floored && other_sign { r.add(y) } else { r }
}
