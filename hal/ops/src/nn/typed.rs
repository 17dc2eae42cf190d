//! Products of quantized operands (numerics.md sections 3 to 5): the integer form of Conv, ConvTranspose, MatMul and
//! Gemm, and therefore of QLinearConv, QLinearMatMul and QGemm.
//!
//! * (C1) `acc = sum of (x - zx)(w - zw[c]) + b[c]`; padding contributes 0.
//! * (C2) The sums are i32 where the bounds of the weights prove that they fit, i64 otherwise, and always i64 where
//!   both operands have 16 bits.
//! * (C3) A quantized output is requantized in the node's mode, per channel, the zero point after the rounding.
//! * (C4) A float output is `fl32(f32(acc) * fl32(xs*ws[c]))`; an s32 bias is inside `acc`, a float one is added last.
//! * (C5) A residual is added to (C4) in f32 before the activation; then Quantize by true division.
//! * (C6) A float bias of a quantized output is quantized to s32 at scale `xs*ws[c]`, an s32 bias with another scale
//!   is brought to it.
//! * (C7) A weight axis that is not the operator's channel axis, blocked weights and per-axis activations have no
//!   integer form; they are dequantized.

pub(crate) use super::bias::{Bias, BiasIndex};
use super::bias::{FloatBias, IntBias, add_bias};
use super::product::{Channels, Kernel};
use super::real::alloc;
use super::requantize::{Sums, quantize_reals, requant_of, requantize_sums};
use crate::eval::mode_of;
use crate::{EvalCx, dequantize, quant};
use ottava_hal::refmath::bias::{adopt_bias, bias_s32_real};
use ottava_hal::refmath::bounds::{ActivationRange, channel_bounds};
use ottava_hal::refmath::requant::{Requant, RequantMode};
use ottava_hal::{DataType, Error, QuantParams, Result, Scheme, Tensor};

/// Where a product's result goes and what is added to it.
pub(crate) struct Typed<'a> {
    cx: &'a EvalCx<'a>,
    x: &'a Tensor,
    x_params: (f32, i32),
    w: &'a Tensor,
    w_params: &'a QuantParams,
    /// One scale, or one per output channel.
    scales: Vec<f32>,
    /// The factor of the sum: Gemm's alpha, else 1.
    pub alpha: f32,
}

/// An operand minus its zero point, which may differ per channel.
pub(crate) fn centred(t: &Tensor, params: &QuantParams) -> Result<Vec<i32>> {
    let index = quant::channel_index(params, t.shape());
    let zero = |i: usize| i64::from(params.zero_points[index.of(i)]);
    let ints = t.to_ints()?;
    if let [zp] = params.zero_points[..] {
        return Ok(ints.into_iter().map(|v| (v - i64::from(zp)) as i32).collect());
    }
    Ok(ints.into_iter().enumerate().map(|(i, v)| (v - zero(i)) as i32).collect())
}

/// The number of inputs that belong to the operator itself; a residual comes last.
pub(crate) fn own_inputs(cx: &EvalCx) -> usize {
    cx.inputs.len().saturating_sub(usize::from(cx.node.fused.residual))
}

/// Own input `i`, not the residual.
pub(crate) fn own<'a>(cx: &EvalCx<'a>, i: usize) -> Option<&'a Tensor> {
    if i < own_inputs(cx) { cx.opt(i) } else { None }
}

impl<'a> Typed<'a> {
    /// The product of inputs 0 and 1, or `None` where their types have no integer form (C7).
    pub fn of(cx: &'a EvalCx<'a>, w_axis: usize) -> Result<Option<Self>> {
        let (x, w) = (cx.input(0)?, cx.input(1)?);
        let (Some(x_quant), Some(w_params)) = (cx.in_quant(0), cx.in_quant(1)) else { return Ok(None) };
        let Some(x_params) = x_quant.as_per_tensor() else { return Ok(None) };
        let operand = |t: &Tensor| t.dtype().is_integer() && t.dtype().bits() <= 16;
        let axis_fits = match w_params.scheme {
            Scheme::PerTensor => true,
            Scheme::PerAxis { axis } => axis == w_axis,
            Scheme::Blocked { .. } => false,
        };
        let output_fits = match cx.out_quant(0) {
            Some(y) => y.as_per_tensor().is_some(),
            None => cx.out_dtype(0).is_some_and(DataType::is_float),
        };
        if !(operand(x) && operand(w) && axis_fits && output_fits) {
            return Ok(None);
        }
        x_quant.check(x.dtype(), Some(x.shape())).map_err(Error::Invalid)?;
        w_params.check(w.dtype(), Some(w.shape())).map_err(Error::Invalid)?;
        Ok(Some(Self { cx, x, x_params, w, w_params, scales: w_params.scales.clone(), alpha: 1.0 }))
    }

    /// Uses the weight's list of scales once per group.
    pub fn repeat_channels(&mut self, groups: usize) {
        self.scales = self.scales.repeat(groups);
    }

    /// Runs the kernel and its epilogue. `bias` is expanded by `bias_at` (flat output index to bias index);
    /// `arrange` brings operands into the kernel's order.
    pub fn run<K: Kernel>(&self, kernel: &K, shape: &[usize], arrange: Arrange, bias: Option<Bias>) -> Result<Tensor> {
        let n = super::real::count(shape)?;
        let (float_bias, int_bias) = self.split_bias(bias, kernel.channels())?;
        let sums = self.sums(kernel, n, arrange, int_bias.as_ref())?;
        if self.cx.out_quant(0).is_some() && !self.cx.node.fused.residual {
            return self.requantized(&sums, shape, kernel.channels());
        }
        self.real(&sums, shape, kernel.channels(), float_bias.as_ref())
    }

    fn sums<K: Kernel>(&self, kernel: &K, n: usize, arrange: Arrange, bias: Option<&IntBias>) -> Result<Sums> {
        let x_zero = QuantParams::per_tensor(1.0, self.x_params.1);
        let x = arrange.x(centred(self.x, &x_zero)?);
        let w = arrange.w(centred(self.w, self.w_params)?);
        if self.is_wide(kernel, &w, bias) {
            let widen = |v: Vec<i32>| v.into_iter().map(i64::from).collect::<Vec<_>>();
            let mut out = alloc::<i64>(n)?;
            kernel.run(&widen(x), &widen(w), &mut out);
            add_bias(&mut out, bias, i64::wrapping_add);
            return Ok(Sums::Wide(out));
        }
        let mut out = alloc::<i32>(n)?;
        kernel.run(&x, &w, &mut out);
        // Every bias fits: the sums are proved to.
        add_bias(&mut out, bias, |a, b| a.wrapping_add(b as i32));
        Ok(Sums::Narrow(out))
    }

    /// (C2) Whether the weights do not prove that i32 suffices, or TFLite has 64 bits: a Q31 mode rounds 16-bit activations
    /// with the multiplier of i64 accumulators, unless there is a bias of 32 bits.
    fn is_wide<K: Kernel>(&self, kernel: &K, w: &[i32], bias: Option<&IntBias>) -> bool {
        if self.x.dtype().bits() == 16 && self.w.dtype().bits() == 16 {
            return true;
        }
        let q31 = self.cx.out_quant(0).is_some() && mode_of(self.cx.node) != RequantMode::Fp32Rne;
        if self.x.dtype().bits() == 16 && q31 && bias.is_none_or(|b| !b.is_narrow) {
            return true;
        }
        let narrow = |v: i64| i32::try_from(v);
        let (bits, signed) = (self.x.dtype().bits() as u32, self.x.dtype().is_signed());
        let range = ActivationRange::of_storage(bits, signed, self.x_params.1);
        let extent = kernel.channels().extent.max(1);
        (0..kernel.weight_sets(w.len())).any(|set| {
            let (lo, hi) = bias.map_or((0, 0), |b| b.range(set % extent));
            let (Ok(lo), Ok(hi)) = (narrow(lo), narrow(hi)) else { return true };
            let weights = || kernel.weights_of(set, w);
            let both = channel_bounds(weights(), 0, range, lo).union(channel_bounds(weights(), 0, range, hi));
            !both.fits_i32()
        })
    }

    /// The weight scale of a channel.
    fn weight_scale(&self, c: usize) -> f32 {
        if let [ws] = self.scales[..] { ws } else { self.scales[c] }
    }

    /// (C6) A bias either as integers at the accumulator's scale or as the floats of (C4).
    fn split_bias(&self, bias: Option<Bias<'a>>, channels: Channels) -> Result<(Option<FloatBias>, Option<IntBias>)> {
        let Some(Bias { tensor, params, index }) = bias else { return Ok((None, None)) };
        let channel_of = |i: usize| index.channel(i, channels.extent);
        if tensor.dtype().is_float() {
            let values = tensor.to_f32s()?;
            if self.cx.out_quant(0).is_none() {
                return Ok((Some(FloatBias { values, index }), None));
            }
            let at = |(i, &b): (usize, &f32)| {
                let ws = self.weight_scale(channel_of(i));
                i64::from(bias_s32_real(f64::from(b) / f64::from(self.alpha), self.x_params.0, ws))
            };
            let values = values.iter().enumerate().map(at).collect();
            return Ok((None, Some(IntBias { values, is_narrow: true, index, channels })));
        }
        let ints = tensor.to_ints()?;
        let mut values = Vec::with_capacity(ints.len());
        let scales = params.map(|p| (p, quant::channel_index(p, tensor.shape())));
        for (i, &b) in ints.iter().enumerate() {
            values.push(match (&scales, i32::try_from(b)) {
                (Some((p, at)), Ok(b)) => {
                    let ws = self.weight_scale(channel_of(i));
                    adopt_bias(b, p.scales[at.of(i)] / self.alpha, self.x_params.0, ws).into()
                }
                (_, Err(_)) if b.unsigned_abs() >= MAX_BIAS => {
                    return Err(Error::invalid(format!("bias {b} does not fit s48")));
                }
                // A bias of more than 32 bits is at the accumulator's scale: no other one is written.
                _ => b,
            });
        }
        let is_narrow = tensor.dtype() != DataType::S64;
        Ok((None, Some(IntBias { values, is_narrow, index, channels })))
    }

    /// (C3)
    fn requantized(&self, sums: &Sums, shape: &[usize], channels: Channels) -> Result<Tensor> {
        let (Some((ys, zp)), Some(dtype)) =
            (self.cx.out_quant(0).and_then(QuantParams::as_per_tensor), self.cx.out_dtype(0))
        else {
            return Err(Error::invalid("a requantized output needs per-tensor parameters"));
        };
        let (mode, xs) = (mode_of(self.cx.node), self.x_params.0);
        let requant = |&ws: &f32| requant_of(mode, xs, ws, self.alpha, (ys, zp), dtype);
        let requants: Vec<Requant> = self.scales.iter().map(requant).collect::<Result<_>>()?;
        requantize_sums(sums, &requants, channels, dtype, shape)
    }

    /// (C4, C5)
    fn real(&self, sums: &Sums, shape: &[usize], channels: Channels, bias: Option<&FloatBias>) -> Result<Tensor> {
        let scales: Vec<f32> = self.scales.iter().map(|ws| self.x_params.0 * ws * self.alpha).collect();
        let scale_at = |i: usize| if scales.len() == 1 { scales[0] } else { scales[channels.of(i)] };
        let mut y: Vec<f32> = match sums {
            Sums::Narrow(v) => v.iter().enumerate().map(|(i, &a)| a as f32 * scale_at(i)).collect(),
            Sums::Wide(v) => v.iter().enumerate().map(|(i, &a)| a as f32 * scale_at(i)).collect(),
        };
        if let Some(b) = bias {
            for (i, v) in y.iter_mut().enumerate() {
                *v += b.values[b.index.of(i, channels)];
            }
        }
        add_residual(self.cx, &mut y, shape)?;
        match (self.cx.out_quant(0), self.cx.out_dtype(0)) {
            (Some(params), Some(dtype)) => quantize_reals(&y, shape, dtype, params),
            (_, dtype) => Tensor::from_f32s(dtype.unwrap_or(DataType::F32), shape, &y),
        }
    }
}

/// The sums of numerics.md section 3 stay below 2^47.
const MAX_BIAS: u64 = 1 << 46;

/// How operands are brought into the kernel's order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrange {
    /// `x` is stored transposed, as (rows, columns).
    pub x_transposed: Option<(usize, usize)>,
    /// `w` is stored transposed, as (rows, columns).
    pub w_transposed: Option<(usize, usize)>,
}

impl Arrange {
    /// The first operand in order.
    pub fn x<T: Copy + Default>(&self, v: Vec<T>) -> Vec<T> {
        match self.x_transposed {
            Some((rows, cols)) => super::product::transpose(rows, cols, &v),
            None => v,
        }
    }

    /// The second operand in order.
    pub fn w<T: Copy + Default>(&self, v: Vec<T>) -> Vec<T> {
        match self.w_transposed {
            Some((rows, cols)) => super::product::transpose(rows, cols, &v),
            None => v,
        }
    }
}

/// Adds the last input to a float result where the node says so, then applies the float activation (C5).
pub(crate) fn add_residual(cx: &EvalCx, y: &mut [f32], shape: &[usize]) -> Result<()> {
    if !cx.node.fused.residual {
        return Ok(());
    }
    let last = cx.inputs.len().saturating_sub(1);
    let other = cx.input(last)?;
    if other.shape() != shape {
        let found = other.shape();
        return Err(Error::invalid(format!("the residual of {} is {found:?}, expected {shape:?}", cx.node.full_op())));
    }
    let other = match cx.in_quant(last) {
        Some(params) => dequantize(other, params)?.to_f32s()?,
        None => other.to_f32s()?,
    };
    for (v, r) in y.iter_mut().zip(other) {
        *v += r;
        if let Some(act) = cx.node.fused.act {
            *v = act.apply(*v);
        }
    }
    Ok(())
}
