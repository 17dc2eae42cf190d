//! The floating-point types that recurrent cells compute in, and the activations of their gates.

use crate::elementwise::number::Compute;
use ottava_hal::refmath::float;
use ottava_hal::{Error, Result};

/// f32 or f64 with the functions that gates use.
pub trait Real: Compute {
    /// From an attribute.
    fn from_f32(v: f32) -> Self;
    /// `e^x`.
    fn exp(self) -> Self;
    /// `1 / (1 + e^-x)`.
    fn sigmoid(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// `ln x`.
    fn log(self) -> Self;
}

impl Real for f32 {
    fn from_f32(v: f32) -> Self {
        v
    }

    fn exp(self) -> Self {
        float::exp(self)
    }

    fn sigmoid(self) -> Self {
        float::sigmoid(self)
    }

    fn tanh(self) -> Self {
        float::tanh(self)
    }

    fn log(self) -> Self {
        float::log(self)
    }
}

impl Real for f64 {
    fn from_f32(v: f32) -> Self {
        v.into()
    }

    fn exp(self) -> Self {
        libm::exp(self)
    }

    fn sigmoid(self) -> Self {
        1.0 / (1.0 + libm::exp(-self))
    }

    fn tanh(self) -> Self {
        libm::tanh(self)
    }

    fn log(self) -> Self {
        libm::log(self)
    }
}

/// The functions that ONNX names for gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Affine,
    Elu,
    HardSigmoid,
    LeakyRelu,
    Relu,
    ScaledTanh,
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu,
}

/// An activation with its parameters.
#[derive(Debug, Clone, Copy)]
pub struct Gate<R> {
    kind: Kind,
    alpha: R,
    beta: R,
}

/// Name (without regard to case), function, defaults of alpha and beta where it has them.
const KINDS: [(&str, Kind, Option<f32>, Option<f32>); 11] = [
    ("affine", Kind::Affine, Some(1.0), Some(0.0)),
    ("elu", Kind::Elu, Some(1.0), None),
    ("hardsigmoid", Kind::HardSigmoid, Some(0.2), Some(0.5)),
    ("leakyrelu", Kind::LeakyRelu, Some(0.01), None),
    ("relu", Kind::Relu, None, None),
    ("scaledtanh", Kind::ScaledTanh, Some(1.0), Some(1.0)),
    ("sigmoid", Kind::Sigmoid, None, None),
    ("softplus", Kind::Softplus, None, None),
    ("softsign", Kind::Softsign, None, None),
    ("tanh", Kind::Tanh, None, None),
    ("thresholdedrelu", Kind::ThresholdedRelu, Some(1.0), None),
];

impl<R: Real> Gate<R> {
    /// The activation of a name. Where it has parameters they are the next of the given ones, or ONNX's defaults.
    pub fn new<'a>(
        name: &str,
        alphas: &mut impl Iterator<Item = &'a f32>,
        betas: &mut impl Iterator<Item = &'a f32>,
    ) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        let known = KINDS.iter().find(|k| k.0 == lower);
        let &(_, kind, alpha, beta) =
            known.ok_or_else(|| Error::invalid(format!("activation `{name}` is not one of ONNX's for gates")))?;
        let alpha = alpha.map_or(0.0, |default| alphas.next().copied().unwrap_or(default));
        let beta = beta.map_or(0.0, |default| betas.next().copied().unwrap_or(default));
        Ok(Self { kind, alpha: R::from_f32(alpha), beta: R::from_f32(beta) })
    }

    /// The activation's value.
    pub fn apply(self, x: R) -> R {
        let (zero, one) = (R::ZERO, R::from_count(1));
        match self.kind {
            Kind::Affine => self.alpha.mul(x).add(self.beta),
            Kind::Elu if x < zero => self.alpha.mul(x.exp().sub(one)),
            Kind::HardSigmoid => clamp(self.alpha.mul(x).add(self.beta), zero, one),
            Kind::LeakyRelu if x < zero => self.alpha.mul(x),
            Kind::Relu if x < zero => zero,
            Kind::ScaledTanh => self.alpha.mul(self.beta.mul(x).tanh()),
            Kind::Sigmoid => x.sigmoid(),
            Kind::Softplus if x > zero => x.add(zero.sub(x).exp().add(one).log()),
            Kind::Softplus => x.exp().add(one).log(),
            Kind::Softsign => x.div(one.add(if x < zero { zero.sub(x) } else { x })),
            Kind::Tanh => x.tanh(),
            Kind::ThresholdedRelu if x <= self.alpha => zero,
            Kind::Elu | Kind::LeakyRelu | Kind::Relu | Kind::ThresholdedRelu => x,
        }
    }
}

/// NaN stays NaN.
pub fn clamp<R: Real>(x: R, lo: R, hi: R) -> R {
    if x < lo {
        lo
    } else if x > hi {
        hi
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(name: &str, alphas: &[f32]) -> Result<Gate<f64>> {
        Gate::new(name, &mut alphas.iter(), &mut [].iter())
    }

    #[test]
    fn names_are_found_without_regard_to_case() {
        let at = |name: &str, x: f64| gate(name, &[]).unwrap().apply(x);
        assert_eq!(at("Sigmoid", 0.0), 0.5);
        assert_eq!(at("HARDSIGMOID", 1.0), f64::from(0.2f32) + 0.5);
        assert_eq!((at("relu", -1.0), at("Softsign", -1.0), at("ThresholdedRelu", 1.0)), (0.0, -0.5, 0.0));
        assert_eq!(at("Softplus", 1000.0), 1000.0);
        assert!(gate("Sine", &[]).is_err());
    }

    #[test]
    fn only_functions_with_parameters_consume_them() {
        assert_eq!(gate("LeakyRelu", &[0.5]).unwrap().apply(-2.0), -1.0);
        let mut alphas = [0.5f32].iter();
        Gate::<f64>::new("Tanh", &mut alphas, &mut [].iter()).unwrap();
        assert_eq!(alphas.len(), 1);
    }
}
