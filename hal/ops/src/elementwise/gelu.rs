//! Gelu: `0.5 x (1 + erf(x / sqrt 2))`, or its tanh approximation; com.microsoft Gelu, FastGelu, BiasGelu.
//!
//! * (C1) f32: `h = 0.5 * x; y = h * (1 + erf(x * c))` with `c = f32(1 / sqrt 2)`, every operation rounded.
//! * (C2) approximation: `u = x * (c0 + (c1 * x) * x)`, `y = h * (1 + tanh(u))`, `c0 = f32(sqrt(2 / pi))`,
//!   `c1 = f32(0.044715 * sqrt(2 / pi))`.
//! * (C3) FastGelu and BiasGelu first add their bias along the last axis.

use super::arithmetic::ADD;
use super::number::wrong_dtype;
use super::sample::{case, f32s};
use super::unary::each;
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, MICROSOFT, Op, OpSpec, QuantRule};
use ottava_hal::refmath::float;
use ottava_hal::{Attrs, DataType, Error, Node, Result, Tensor, TensorType};
use std::borrow::Cow;

/// A member of the family.
pub struct Gelu {
    spec: &'static OpSpec,
    /// Whether it is the tanh approximation unless an attribute says otherwise.
    tanh: bool,
    /// Its value at 1, for the cases.
    example: f32,
}

const fn spec(name: &'static str, domain: &'static str, since: u32, inputs: (usize, usize)) -> OpSpec {
    OpSpec { name, domain, since, inputs, outputs: (1, 1), attrs: &[] }
}

static GELU_SPEC: OpSpec = OpSpec {
    name: "Gelu",
    domain: "",
    since: 20,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("approximate", AttrKind::Str)],
};

/// ONNX Gelu.
pub static GELU: Gelu = Gelu { spec: &GELU_SPEC, tanh: false, example: 0.841_344_7 };
/// ONNX Runtime's Gelu.
pub static MS_GELU: Gelu = Gelu { spec: &spec("Gelu", MICROSOFT, 1, (1, 1)), tanh: false, example: 0.841_344_7 };
/// ONNX Runtime's tanh approximation with an optional bias.
pub static FAST_GELU: Gelu = Gelu { spec: &spec("FastGelu", MICROSOFT, 1, (1, 2)), tanh: true, example: 0.841_192 };
/// ONNX Runtime's Gelu with a bias.
pub static BIAS_GELU: Gelu = Gelu { spec: &spec("BiasGelu", MICROSOFT, 1, (2, 2)), tanh: false, example: 0.841_344_7 };

impl Op for Gelu {
    fn spec(&self) -> &'static OpSpec {
        self.spec
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let x = cx.input(0)?.ty;
        Ok(vec![TensorType::new(x.dtype, x.shape.clone())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let tanh = self.is_tanh(cx.attrs())?;
        let x = match cx.opt(1) {
            Some(_) => Cow::Owned(ADD.eval(cx)?.swap_remove(0)),
            None => Cow::Borrowed(cx.input(0)?),
        };
        let y = match x.dtype() {
            DataType::F64 => {
                let mut y = x.into_owned();
                each(y.as_slice_mut::<f64>()?, |v| real(tanh, v));
                y
            }
            dtype if dtype.is_float() => {
                let mut values = x.to_f32s()?;
                each(&mut values, if tanh { gelu_tanh } else { gelu_erf });
                Tensor::from_f32s(dtype, x.shape(), &values)?
            }
            other => return Err(wrong_dtype(self.spec.name, other)),
        };
        if y.shape() != cx.input(0)?.shape() {
            return Err(Error::invalid(format!("{}: the bias does not fit {:?}", self.spec.name, y.shape())));
        }
        Ok(vec![y])
    }

    fn quant_rule(&self, node: &Node) -> QuantRule {
        if node.inputs.iter().flatten().count() > 1 { QuantRule::Float } else { QuantRule::Unary }
    }

    fn real(&self, node: &Node, x: f64) -> Result<f64> {
        Ok(real(self.is_tanh(&node.attrs)?, x))
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("gelu", self.spec.name, self.spec.since);
        node.domain = self.spec.domain.into();
        let expected = f32s(&[1, 2], &[0.0, self.example]);
        if self.spec.inputs.1 == 1 {
            return vec![case("plain", node, &[f32s(&[1, 2], &[0.0, 1.0])], &[expected])];
        }
        vec![case("c3_bias", node, &[f32s(&[1, 2], &[-1.0, 0.5]), f32s(&[2], &[1.0, 0.5])], &[expected])]
    }
}

impl Gelu {
    fn is_tanh(&self, attrs: &Attrs) -> Result<bool> {
        match attrs.str("approximate", if self.tanh { "tanh" } else { "none" })? {
            "none" => Ok(false),
            "tanh" => Ok(true),
            other => Err(Error::invalid(format!("Gelu: approximate is `{other}`, expected `none` or `tanh`"))),
        }
    }
}

/// (C1)
pub fn gelu_erf(x: f32) -> f32 {
    (0.5 * x) * (1.0 + float::erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// (C2)
pub fn gelu_tanh(x: f32) -> f32 {
    const C0: f32 = 0.797_884_6;
    const C1: f32 = 0.035_677_407;
    (0.5 * x) * (1.0 + float::tanh(x * (C0 + (C1 * x) * x)))
}

fn real(tanh: bool, x: f64) -> f64 {
    if tanh {
        let root = libm::sqrt(2.0 / std::f64::consts::PI);
        0.5 * x * (1.0 + libm::tanh(root * (x + 0.044715 * x * x * x)))
    } else {
        // The complement keeps the digits of small values at the negative end.
        0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
    }
}
