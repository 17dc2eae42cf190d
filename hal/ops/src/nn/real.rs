//! The arithmetic that float operators are written in: f32 for f16, bf16 and f32 tensors, f64 for f64 tensors
//! (numerics.md section 7). The f32 functions are the named sequences of `refmath`.

use ottava_hal::refmath::float;
use ottava_hal::{DataType, Error, Reason, Result, Tensor};
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// A float type that operators compute in.
pub trait Real:
    Copy
    + Default
    + PartialOrd
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// One.
    const ONE: Self;
    /// Minus infinity.
    const LOWEST: Self;

    /// All elements of a tensor, widened to this type.
    fn read(t: &Tensor) -> Result<Vec<Self>>;
    /// A tensor of `dtype` from elements, each rounded to nearest even.
    fn write(dtype: DataType, shape: &[usize], values: &[Self]) -> Result<Tensor>;
    /// From a count or an attribute.
    fn of(v: f64) -> Self;
    /// Exact.
    fn wide(self) -> f64;
    /// Rounded to bf16 and back.
    fn to_bf16(self) -> Self {
        Self::of(half::bf16::from_f32(self.wide() as f32).to_f64())
    }
    /// `self * a + b` with one rounding.
    fn fma(self, a: Self, b: Self) -> Self;
    /// The exponential.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The logistic function.
    fn sigmoid(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The power.
    fn pow(self, e: Self) -> Self;
    /// The magnitude.
    fn abs(self) -> Self;
    /// Softmax of a row.
    fn softmax_row(xs: &[Self], out: &mut [Self]);
    /// The logarithm of Softmax of a row.
    fn log_softmax_row(xs: &[Self], out: &mut [Self]);
    /// `sum / n`.
    fn mean(xs: &[Self]) -> Self;
    /// The mean of the squared distances from `mean`.
    fn variance(xs: &[Self], mean: Self) -> Self;
    /// LayerNormalization (`centred`) or RMSNormalization of a row with its scale and offset.
    fn normalize_row(
        xs: &[Self],
        centred: bool,
        affine: (Option<&[Self]>, Option<&[Self]>),
        eps: Self,
        out: &mut [Self],
    );
    /// The greater value; NaN if either is NaN.
    fn max_nan(self, other: Self) -> Self {
        if self > other || self.partial_cmp(&self).is_none() { self } else { other }
    }
    /// The lesser value; NaN if either is NaN.
    fn min_nan(self, other: Self) -> Self {
        if self < other || self.partial_cmp(&self).is_none() { self } else { other }
    }
}

impl Real for f32 {
    const ONE: Self = 1.0;
    const LOWEST: Self = f32::NEG_INFINITY;

    fn read(t: &Tensor) -> Result<Vec<Self>> {
        t.to_f32s()
    }
    fn write(dtype: DataType, shape: &[usize], values: &[Self]) -> Result<Tensor> {
        Tensor::from_f32s(dtype, shape, values)
    }
    fn of(v: f64) -> Self {
        v as f32
    }
    fn wide(self) -> f64 {
        self.into()
    }
    #[inline]
    fn fma(self, a: Self, b: Self) -> Self {
        self.mul_add(a, b)
    }
    fn exp(self) -> Self {
        float::exp(self)
    }
    fn ln(self) -> Self {
        float::log(self)
    }
    fn sigmoid(self) -> Self {
        float::sigmoid(self)
    }
    fn tanh(self) -> Self {
        float::tanh(self)
    }
    fn sqrt(self) -> Self {
        f32::sqrt(self)
    }
    fn pow(self, e: Self) -> Self {
        libm::pow(self.into(), e.into()) as f32
    }
    fn abs(self) -> Self {
        f32::abs(self)
    }
    fn softmax_row(xs: &[Self], out: &mut [Self]) {
        float::softmax_row(xs, out);
    }
    fn log_softmax_row(xs: &[Self], out: &mut [Self]) {
        float::log_softmax_row(xs, out);
    }
    fn mean(xs: &[Self]) -> Self {
        float::mean(xs)
    }
    fn variance(xs: &[Self], mean: Self) -> Self {
        float::variance(xs, mean)
    }
    fn normalize_row(
        xs: &[Self],
        centred: bool,
        (gamma, beta): (Option<&[Self]>, Option<&[Self]>),
        eps: Self,
        out: &mut [Self],
    ) {
        if centred {
            float::layer_norm_row(xs, gamma, beta, eps, out);
        } else {
            float::rms_norm_row(xs, gamma, eps, out);
        }
    }
}

impl Real for f64 {
    const ONE: Self = 1.0;
    const LOWEST: Self = f64::NEG_INFINITY;

    fn read(t: &Tensor) -> Result<Vec<Self>> {
        match t.dtype() {
            DataType::F64 => Tensor::collect(t.as_slice::<f64>()?.iter().copied()),
            dtype if dtype.is_float() => Tensor::collect(t.to_f32s()?.into_iter().map(f64::from)),
            _ => Tensor::collect(t.to_ints()?.into_iter().map(|v| v as f64)),
        }
    }
    fn write(dtype: DataType, shape: &[usize], values: &[Self]) -> Result<Tensor> {
        match dtype {
            DataType::F64 => Tensor::from_slice(shape, values),
            _ => Tensor::from_f32s(dtype, shape, &Tensor::collect(values.iter().map(|&v| v as f32))?),
        }
    }
    fn of(v: f64) -> Self {
        v
    }
    fn wide(self) -> f64 {
        self
    }
    #[inline]
    fn fma(self, a: Self, b: Self) -> Self {
        self.mul_add(a, b)
    }
    fn exp(self) -> Self {
        libm::exp(self)
    }
    fn ln(self) -> Self {
        libm::log(self)
    }
    fn sigmoid(self) -> Self {
        1.0 / (1.0 + libm::exp(-self))
    }
    fn tanh(self) -> Self {
        libm::tanh(self)
    }
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
    fn pow(self, e: Self) -> Self {
        libm::pow(self, e)
    }
    fn abs(self) -> Self {
        f64::abs(self)
    }
    fn softmax_row(xs: &[Self], out: &mut [Self]) {
        let most = xs.iter().fold(Self::LOWEST, |m, &x| m.max_nan(x));
        out.iter_mut().zip(xs).for_each(|(y, &x)| *y = libm::exp(x - most));
        let total: f64 = out.iter().sum();
        out.iter_mut().for_each(|y| *y /= total);
    }
    fn log_softmax_row(xs: &[Self], out: &mut [Self]) {
        let most = xs.iter().fold(Self::LOWEST, |m, &x| m.max_nan(x));
        let total: f64 = xs.iter().map(|&x| libm::exp(x - most)).sum();
        out.iter_mut().zip(xs).for_each(|(y, &x)| *y = (x - most) - libm::log(total));
    }
    fn mean(xs: &[Self]) -> Self {
        xs.iter().sum::<f64>() / xs.len() as f64
    }
    fn variance(xs: &[Self], mean: Self) -> Self {
        xs.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / xs.len() as f64
    }
    fn normalize_row(
        xs: &[Self],
        centred: bool,
        (gamma, beta): (Option<&[Self]>, Option<&[Self]>),
        eps: Self,
        out: &mut [Self],
    ) {
        let mean = if centred { Self::mean(xs) } else { 0.0 };
        let inv = 1.0 / (Self::variance(xs, mean) + eps).sqrt();
        for (i, (y, x)) in out.iter_mut().zip(xs).enumerate() {
            *y = (x - mean) * inv * gamma.map_or(1.0, |g| g[i]) + beta.map_or(0.0, |b| b[i]);
        }
    }
}

/// Calls a generic function with the arithmetic of a float element type; other types are refused by name.
macro_rules! with_real {
    ($dtype:expr, $what:expr, $T:ident => $body:expr) => {
        match $dtype {
            ottava_hal::DataType::F64 => {
                type $T = f64;
                $body
            }
            ottava_hal::DataType::F16 | ottava_hal::DataType::BF16 | ottava_hal::DataType::F32 => {
                type $T = f32;
                $body
            }
            other => Err($crate::nn::real::refuse(other, $what)),
        }
    };
}
pub(crate) use with_real;

/// The error of an element type that an operator is not defined for.
pub(crate) fn refuse(dtype: DataType, what: &str) -> Error {
    Error::unsupported(Reason::Dtype, format!("{what} is not defined for {dtype}; expected a float type"))
}

/// A vector of `n` defaults; an error where memory does not suffice.
pub(crate) fn alloc<T: Copy + Default>(n: usize) -> Result<Vec<T>> {
    let mut v = Vec::new();
    v.try_reserve_exact(n).map_err(|_| Error::invalid(format!("{n} elements are too many for this machine")))?;
    v.resize(n, T::default());
    Ok(v)
}

/// The product of extents; an error on overflow.
pub(crate) fn count(dims: &[usize]) -> Result<usize> {
    let product = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    product.ok_or_else(|| Error::invalid(format!("shape {dims:?} is too large for this machine")))
}
