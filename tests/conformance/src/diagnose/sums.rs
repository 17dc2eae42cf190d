//! The accumulators of a program that is one quantized convolution or matrix product, and how they become outputs.
//!
//! The reference gives the accumulators itself: with all scales 1 and an s32 output, `q31_single` multiplies by exactly 1.
//! They are used only if requantizing them gives what was expected, so that nothing is explained with wrong numbers.

use crate::Repro;
use ottava_hal::refmath::quantize::Target;
use ottava_hal::refmath::requant::{Multiplier, Q31, Requant, fp32_multiplier_alpha};
use ottava_hal::{DataType, Fused, Program, QuantParams, RequantMode, Tensor, TensorType};
use ottava_reference::Interpreter;

/// Accumulators with what becomes of them.
pub(crate) struct Sums {
    /// One per element of the output, the bias inside.
    pub acc: Vec<i64>,
    /// The requantization of each channel.
    pub requants: Vec<Requant>,
    /// The real multiplier of each channel.
    pub reals: Vec<f64>,
    /// Bounds of the fused clamp, those of the storage if there is none.
    pub clamp: (i64, i64),
    /// Type and shape of the output.
    pub ty: TensorType,
    /// Elements from one channel to the next, and channels.
    pub stride: usize,
}

impl Sums {
    /// The sums of a repro's program, if it has them.
    pub fn of(repro: &Repro) -> Option<Self> {
        let (program, acc) = (&repro.program, accumulators(&repro.program, &repro.inputs)?);
        let [node] = &program.nodes[..] else { return None };
        let (x, w) = (program.ty(node.input(0)?), program.ty(node.input(1)?));
        let ty = program.ty(*node.outputs.first()?).clone();
        let ((xs, _), (ys, zp)) = (x.quant.as_ref()?.as_per_tensor()?, ty.quant.as_ref()?.as_per_tensor()?);
        let mode = node.requant.unwrap_or(RequantMode::Fp32Rne);
        let scales = &w.quant.as_ref()?.scales;
        let alpha = node.attrs.float("alpha", 1.0).ok()?;
        let product = node.scale_product(x.dtype, scales.len());
        let (lo, hi) = ty.dtype.storage_range()?;
        let requant = |ws: &f32| {
            let multiplier = match mode {
                RequantMode::Fp32Rne => Multiplier::Fp32(fp32_multiplier_alpha(xs, *ws, alpha, ys)),
                _ => Multiplier::Q31(Q31::of_accumulator((xs, *ws), alpha, ys, product, mode).ok()?),
            };
            let Target { zp, lo, hi, .. } = Target { scale: ys, zp, lo, hi };
            Some(Requant { mode, multiplier, zp, lo, hi })
        };
        let requants: Vec<Requant> = scales.iter().map(requant).collect::<Option<_>>()?;
        let reals = scales.iter().map(|ws| f64::from(xs) * f64::from(*ws) * f64::from(alpha) / f64::from(ys)).collect();
        let clamp = node.fused.clamp.map_or((lo.into(), hi.into()), |(a, b)| (a.into(), b.into()));
        let dims = ty.shape.known()?;
        let axis = if matches!(node.op.as_str(), "Gemm" | "MatMul") { dims.len().checked_sub(1)? } else { 1 };
        let stride = dims.get(axis + 1..)?.iter().product::<usize>().max(1);
        let sums = Self { acc, requants, reals, clamp, ty, stride };
        sums.agrees_with(repro.expected.first()?).then_some(sums)
    }

    /// The channel of an element.
    pub fn channel(&self, i: usize) -> usize {
        i / self.stride % self.extent()
    }

    /// Channels of the output.
    fn extent(&self) -> usize {
        let dims = self.ty.shape.known().unwrap_or_default();
        let inner: usize = self.stride;
        let mut behind = 1;
        for extent in dims.iter().rev() {
            if behind == inner {
                return (*extent).max(1);
            }
            behind *= extent;
        }
        1
    }

    /// The requantization of an element; those of groups repeat.
    pub fn requant(&self, channel: usize) -> &Requant {
        &self.requants[channel % self.requants.len()]
    }

    /// The real multiplier of an element.
    pub fn real(&self, channel: usize) -> f64 {
        self.reals[channel % self.reals.len()]
    }

    /// A tensor of the output's type, each element from its accumulator and channel.
    pub fn map(&self, f: impl Fn(i64, usize) -> i64) -> Option<Tensor> {
        let values: Vec<i64> = self.acc.iter().enumerate().map(|(i, acc)| f(*acc, self.channel(i))).collect();
        Tensor::from_ints(self.ty.dtype, &self.ty.shape.known()?, &values).ok()
    }

    /// What the contract makes of an accumulator.
    pub fn right(&self, acc: i64, channel: usize) -> i64 {
        requantized(self.requant(channel), acc).clamp(self.clamp.0, self.clamp.1)
    }

    fn agrees_with(&self, expected: &Tensor) -> bool {
        !self.requants.is_empty()
            && self.map(|acc, c| self.right(acc, c)).is_some_and(|t| t.bytes() == expected.bytes())
    }

    /// How the reference comes to an element.
    pub fn steps(&self, i: usize) -> Vec<(String, String)> {
        let (Some(acc), c) = (self.acc.get(i).copied(), self.channel(i)) else { return Vec::new() };
        let r = self.requant(c);
        let multiplier = match r.multiplier {
            Multiplier::Fp32(m) => format!("{m:e} (f32 bits {:#010x})", m.to_bits()),
            Multiplier::Q31(q) => format!("{} * 2^({} - 31)", q.multiplier, q.shift),
        };
        let scaled = match r.multiplier {
            Multiplier::Fp32(m) => format!("{:?}", acc as f32 * m),
            Multiplier::Q31(_) => format!("{:?}", acc as f64 * self.real(c)),
        };
        let all = [
            ("channel", c.to_string()),
            ("accumulator", acc.to_string()),
            ("requantization", r.mode.name().to_owned()),
            ("multiplier", multiplier),
            ("before rounding", scaled),
            ("zero point", r.zp.to_string()),
            ("bounds", format!("{} to {}", self.clamp.0, self.clamp.1)),
        ];
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// An accumulator of 32 bits where it is one, of 64 else.
pub(crate) fn requantized(r: &Requant, acc: i64) -> i64 {
    i32::try_from(acc).map_or_else(|_| r.apply_i64(acc), |acc| r.apply(acc)).into()
}

/// The accumulators of a program of one product, the bias inside.
pub(crate) fn accumulators(program: &Program, inputs: &[Tensor]) -> Option<Vec<i64>> {
    let [node] = &program.nodes[..] else { return None };
    let is_product = matches!(node.op.as_str(), "Conv" | "ConvTranspose" | "Gemm" | "MatMul");
    if !is_product || !node.domain.is_empty() || node.fused.residual {
        return None;
    }
    let mut plain = program.clone();
    let one = |ty: &mut TensorType| {
        let quant = ty.quant.take()?;
        let scales = vec![1.0; quant.scales.len()];
        ty.quant = Some(std::sync::Arc::new(QuantParams { scales, ..(*quant).clone() }));
        Some(())
    };
    let (x, w, y) = (node.input(0)?, node.input(1)?, *node.outputs.first()?);
    one(&mut plain.values.get_mut(x.0)?.ty)?;
    one(&mut plain.values.get_mut(w.0)?.ty)?;
    if let Some(bias) = node.input(2) {
        let bias = plain.values.get_mut(bias.0)?;
        // At the accumulator's scale already, or the check against the expected outputs fails.
        bias.ty.quant = None;
        if !bias.ty.dtype.is_integer() {
            return None;
        }
    }
    let out = plain.values.get_mut(y.0)?;
    out.ty = TensorType::new(DataType::S32, out.ty.shape.clone()).quantized(QuantParams::per_tensor(1.0, 0));
    let node = plain.nodes.first_mut()?;
    (node.requant, node.fused) = (Some(RequantMode::Q31Single), Fused::default());
    if node.op == "Gemm" {
        node.attrs.set("alpha", ottava_hal::Attr::Float(1.0));
    }
    Interpreter::new(&plain).ok()?.run(inputs).ok()?.first()?.to_ints().ok()
}
