//! The form that functions of one real number share: one definition in f64, and where numerics.md section 7 names a
//! sequence, one in f32.
//!
//! * (C1) f64 is the real function; f32 is the named sequence, or else the f64 value rounded once.
//! * (C2) f16 and bf16 are computed as f32 and rounded once.
//! * (C3) an 8-bit quantized function is a table (section 6), built from the real function.
//! * (C4) in a Q31 mode a few have the fixed-point forms of TFLite.

use super::binary::fixed_mode;
use super::number::{Number, with_integer, wrong_dtype};
use super::sample::{case, f32s};
use crate::quant::fixed_unary;
use crate::{AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{Attrs, DataType, Node, Result, Tensor, TensorType};

/// Values of the float attributes, in the order of the schema.
pub type Params<T> = [T; 2];

/// An f32 sequence, applied in place.
type Single = fn(Params<f32>, &mut [f32]);

/// A function of one real number.
pub struct Unary {
    spec: OpSpec,
    /// Defaults of the attributes, all of them floats.
    defaults: Params<f32>,
    real: fn(Params<f64>, f64) -> f64,
    single: Option<Single>,
    int: Option<fn(i128) -> i128>,
    /// Arguments and values under the default attributes.
    points: &'static [(f32, f32)],
}

impl Unary {
    /// A function without attributes.
    pub const fn new(name: &'static str, since: u32, real: fn(Params<f64>, f64) -> f64) -> Self {
        let spec = OpSpec { name, domain: "", since, inputs: (1, 1), outputs: (1, 1), attrs: &[] };
        Self { spec, defaults: [0.0; 2], real, single: None, int: None, points: &[] }
    }

    /// The domain, if it is not ONNX's own.
    pub const fn domain(mut self, domain: &'static str) -> Self {
        self.spec.domain = domain;
        self
    }

    /// At most two float attributes with their defaults.
    pub const fn attrs(mut self, attrs: &'static [AttrSpec], defaults: Params<f32>) -> Self {
        self.spec.attrs = attrs;
        self.defaults = defaults;
        self
    }

    /// The f32 sequence, applied in place.
    pub const fn single(mut self, f: Single) -> Self {
        self.single = Some(f);
        self
    }

    /// The function on integers, which wraps.
    pub const fn int(mut self, f: fn(i128) -> i128) -> Self {
        self.int = Some(f);
        self
    }

    /// Known values.
    pub const fn points(mut self, points: &'static [(f32, f32)]) -> Self {
        self.points = points;
        self
    }

    fn params(&self, attrs: &Attrs) -> Result<Params<f32>> {
        let mut params = self.defaults;
        for (p, spec) in params.iter_mut().zip(self.spec.attrs) {
            *p = attrs.float(spec.name, *p)?;
        }
        Ok(params)
    }

    fn eval_single(&self, params: Params<f32>, values: &mut [f32]) {
        match self.single {
            Some(f) => f(params, values),
            None => {
                let params = params.map(f64::from);
                each(values, |x| (self.real)(params, x.into()) as f32);
            }
        }
    }
}

/// Replaces every value by its image.
pub fn each<T: Copy>(values: &mut [T], f: impl Fn(T) -> T) {
    values.iter_mut().for_each(|v| *v = f(*v));
}

impl Op for &'static Unary {
    fn spec(&self) -> &'static OpSpec {
        let this: &'static Unary = self;
        &this.spec
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let x = cx.input(0)?.ty;
        Ok(vec![TensorType::new(x.dtype, x.shape.clone())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let params = self.params(cx.attrs())?;
        let y = match x.dtype() {
            DataType::F32 => {
                let mut y = x.clone();
                self.eval_single(params, y.as_slice_mut::<f32>()?);
                y
            }
            DataType::F64 => {
                let mut y = x.clone();
                let params = params.map(f64::from);
                each(y.as_slice_mut::<f64>()?, |v| (self.real)(params, v));
                y
            }
            half @ (DataType::F16 | DataType::BF16) => {
                let mut values = x.to_f32s()?;
                self.eval_single(params, &mut values);
                Tensor::from_f32s(half, x.shape(), &values)?
            }
            int => match self.int {
                Some(f) => with_integer!(int, self.spec.name, T => {
                    let mut y = x.clone();
                    each(y.as_slice_mut::<T>()?, |v| T::narrow(f(v.widen())));
                    Ok(y)
                })?,
                None => return Err(wrong_dtype(self.spec.name, int)),
            },
        };
        Ok(vec![y])
    }

    fn quant_rule(&self, node: &Node) -> QuantRule {
        if fixed_mode(node).is_some() { QuantRule::Own } else { QuantRule::Unary }
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let y = fixed_mode(cx.node).map_or(Ok(None), |mode| fixed_unary::eval(mode, cx))?;
        Ok(y.map(|y| vec![y]))
    }

    fn real(&self, node: &Node, x: f64) -> Result<f64> {
        Ok((self.real)(self.params(&node.attrs)?.map(f64::from), x))
    }

    fn cases(&self) -> Vec<Case> {
        let (x, y): (Vec<f32>, Vec<f32>) = self.points.iter().copied().unzip();
        let mut node = Node::new("unary", self.spec.name, self.spec.since);
        node.domain = self.spec.domain.into();
        vec![case("points", node, &[f32s(&[x.len()], &x)], &[f32s(&[y.len()], &y)])]
    }
}
