//! IsNaN and IsInf: classes of floats as booleans.

use super::number::wrong_dtype;
use super::sample::{bools, case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{DataType, Node, Result, Tensor, TensorType};

/// Whether an element is a NaN.
pub struct IsNan;
/// Whether an element is infinite, of a sign that the attributes choose.
pub struct IsInf;

static IS_NAN: OpSpec = OpSpec { name: "IsNaN", domain: "", since: 9, inputs: (1, 1), outputs: (1, 1), attrs: &[] };
static IS_INF: OpSpec = OpSpec {
    name: "IsInf",
    domain: "",
    since: 10,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("detect_negative", AttrKind::Int),
        AttrSpec::optional("detect_positive", AttrKind::Int),
    ],
};

impl Op for IsNan {
    fn spec(&self) -> &'static OpSpec {
        &IS_NAN
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(DataType::Bool, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        classify(cx, f64::is_nan)
    }

    fn cases(&self) -> Vec<Case> {
        let x = f32s(&[3], &[1.0, f32::NAN, f32::INFINITY]);
        vec![case("three", Node::new("nan", "IsNaN", 13), &[x], &[bools(&[3], &[false, true, false])])]
    }
}

impl Op for IsInf {
    fn spec(&self) -> &'static OpSpec {
        &IS_INF
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(DataType::Bool, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let negative = cx.attrs().int("detect_negative", 1)? != 0;
        let positive = cx.attrs().int("detect_positive", 1)? != 0;
        classify(cx, |v| v.is_infinite() && if v > 0.0 { positive } else { negative })
    }

    fn cases(&self) -> Vec<Case> {
        let x = f32s(&[3], &[f32::NEG_INFINITY, f32::NAN, f32::INFINITY]);
        vec![case("three", Node::new("inf", "IsInf", 10), &[x], &[bools(&[3], &[true, false, true])])]
    }
}

fn classify(cx: &EvalCx, is: impl Fn(f64) -> bool) -> Result<Vec<Tensor>> {
    let x = cx.input(0)?;
    let mut out = util::output(DataType::Bool, x.shape())?;
    let classes = out.bytes_mut().iter_mut();
    match x.dtype() {
        DataType::F64 => classes.zip(x.as_slice::<f64>()?).for_each(|(y, &v)| *y = u8::from(is(v))),
        t if t.is_float() => classes.zip(x.to_f32s()?).for_each(|(y, v)| *y = u8::from(is(v.into()))),
        other => return Err(wrong_dtype(&cx.node.full_op(), other)),
    }
    Ok(vec![out])
}
