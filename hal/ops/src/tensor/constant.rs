//! Constant and ConstantOfShape: data that the model carries.

use crate::elementwise::sample::{case, case_const, f32s, ints};
use crate::movement::expand::{expand_to, extents};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Reason, Result, Tensor, TensorType};

static CONSTANT: OpSpec = OpSpec {
    name: "Constant",
    domain: "",
    since: 1,
    inputs: (0, 0),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("value", AttrKind::Tensor),
        AttrSpec::optional("value_float", AttrKind::Float),
        AttrSpec::optional("value_floats", AttrKind::Floats),
        AttrSpec::optional("value_int", AttrKind::Int),
        AttrSpec::optional("value_ints", AttrKind::Ints),
    ],
};
static OF_SHAPE: OpSpec = OpSpec {
    name: "ConstantOfShape",
    domain: "",
    since: 9,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("value", AttrKind::Tensor)],
};

/// The value of an attribute.
pub struct Constant;
/// A shape filled with one value.
pub struct ConstantOfShape;

impl Op for Constant {
    fn spec(&self) -> &'static OpSpec {
        &CONSTANT
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![value(cx.attrs())?.ty()])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        Ok(vec![value(cx.attrs())?])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("constant", "Constant", 13);
        node.attrs = Attrs::default().with("value_ints", Attr::Ints(vec![3, -4]));
        vec![case("ints", node, &[], &[ints(DataType::S64, &[2], &[3, -4])])]
    }
}

fn value(attrs: &Attrs) -> Result<Tensor> {
    if let Some(t) = attrs.tensor_opt("value")? {
        return Ok(t.clone());
    }
    if let Some(v) = attrs.float_opt("value_float")? {
        return Ok(Tensor::scalar(v));
    }
    if let Some(v) = attrs.int_opt("value_int")? {
        return Ok(Tensor::scalar(v));
    }
    if let Some(v) = attrs.floats_opt("value_floats")? {
        return Tensor::from_slice(&[v.len()], v);
    }
    if let Some(v) = attrs.ints_opt("value_ints")? {
        return Tensor::from_slice(&[v.len()], v);
    }
    let what = "Constant has none of value, value_float(s), value_int(s); strings and sparse values are not supported";
    Err(Error::unsupported(Reason::AttrValue, what))
}

impl Op for ConstantOfShape {
    fn spec(&self) -> &'static OpSpec {
        &OF_SHAPE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dtype = fill(cx.attrs())?.dtype();
        let Some(shape) = cx.known_ints(0)? else { return Ok(vec![cx.open(dtype, cx.length(0)?)?]) };
        Ok(vec![cx.ty(dtype, extents(&shape)?.into_iter().map(Dim::Known).collect())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        Ok(vec![expand_to(&fill(cx.attrs())?, &extents(&cx.input(0)?.to_ints()?)?)?])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("fill", "ConstantOfShape", 9);
        let shape = ints(DataType::S64, &[2], &[1, 2]);
        let zeros = case_const("zeros", node.clone(), 0, std::slice::from_ref(&shape), &[f32s(&[1, 2], &[0.0; 2])]);
        node.attrs = Attrs::default().with("value", Attr::Tensor(ints(DataType::S32, &[1], &[7])));
        vec![zeros, case_const("value", node, 0, &[shape], &[ints(DataType::S32, &[1, 2], &[7, 7])])]
    }
}

/// The value as a scalar; f32 zero by default.
fn fill(attrs: &Attrs) -> Result<Tensor> {
    match attrs.tensor_opt("value")? {
        Some(t) if t.elements() == 1 => t.reshaped(&[]),
        Some(t) => Err(Error::invalid(format!("ConstantOfShape: the value is {}, expected one element", t.ty()))),
        None => Ok(Tensor::scalar(0.0f32)),
    }
}
