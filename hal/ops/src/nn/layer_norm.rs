//! `LayerNormalization`, `RMSNormalization`, and ONNX Runtime's `SimplifiedLayerNormalization` and
//! `SkipLayerNormalization` kinds, which are the same over rows.
//!
//! * (C1) Rows are all axes from `axis` (default -1) on; scale and bias broadcast to a row.
//! * (C2) Two passes: mean, then the sum of `fl32(d*d)`; `1/sqrt` is two operations (numerics.md section 7).
//! * (C3) With 8 or 16 bits in and 8 bits out per tensor it is `layernorm_int` (section 6).
//! * (C4) The skip forms normalize `input + skip (+ bias)`, which is also their last output.

use super::real::{Real, count, with_real};
use super::requantize::model;
use super::softmax::Rows;
use crate::elementwise::sample::{case, case_const, f32s, ints};
use crate::util::{axis, broadcast_strides, strides};
use crate::{AttrKind, AttrSpec, Case, CaseInput, EvalCx, InferCx, MICROSOFT, Op, OpSpec, QuantRule, dequantize};
use ottava_hal::refmath::layernorm::{LayerNormInt, NormKind, layernorm_gain, layernorm_offset};
use ottava_hal::refmath::quantize::Target;
use ottava_hal::{Attr, DataType, Dim, Error, Node, QuantParams, Result, Tensor, TensorType};

/// A normalization of rows.
pub struct LayerNorm {
    spec: OpSpec,
    /// Subtract the mean first.
    centred: bool,
    /// Input 1 is added before.
    skip: bool,
}

const ATTRS: &[AttrSpec] = &[
    AttrSpec::optional("axis", AttrKind::Int),
    AttrSpec::optional("epsilon", AttrKind::Float),
    AttrSpec::optional("stash_type", AttrKind::Int),
];
const SKIP_ATTRS: &[AttrSpec] = &[AttrSpec::optional("epsilon", AttrKind::Float)];

const fn spec(
    name: &'static str,
    domain: &'static str,
    since: u32,
    inputs: (usize, usize),
    outputs: usize,
    attrs: &'static [AttrSpec],
) -> OpSpec {
    OpSpec { name, domain, since, inputs, outputs: (1, outputs), attrs }
}

/// Mean and variance.
pub static LAYER: LayerNorm =
    LayerNorm { spec: spec("LayerNormalization", "", 17, (2, 3), 3, ATTRS), centred: true, skip: false };
/// Root mean square.
pub static RMS: LayerNorm =
    LayerNorm { spec: spec("RMSNormalization", "", 23, (2, 2), 1, ATTRS), centred: false, skip: false };
/// ONNX Runtime's root mean square in the ONNX domain.
pub static SIMPLIFIED: LayerNorm =
    LayerNorm { spec: spec("SimplifiedLayerNormalization", "", 1, (2, 2), 2, ATTRS), centred: false, skip: false };
/// The sum of two inputs, normalized.
pub static SKIP: LayerNorm =
    LayerNorm { spec: spec("SkipLayerNormalization", MICROSOFT, 1, (3, 5), 4, SKIP_ATTRS), centred: true, skip: true };
/// The sum of two inputs by its root mean square.
pub static SKIP_RMS: LayerNorm = LayerNorm {
    spec: spec("SkipSimplifiedLayerNormalization", MICROSOFT, 1, (3, 4), 4, SKIP_ATTRS),
    centred: false,
    skip: true,
};

/// A scale or bias as one value per element of a row.
fn per_element<T: Real>(cx: &EvalCx, i: usize, row: &[usize]) -> Result<Option<Vec<T>>> {
    let Some(t) = cx.opt(i) else { return Ok(None) };
    let t = match cx.in_quant(i) {
        Some(params) => dequantize(t, params)?,
        None => t.clone(),
    };
    let values = T::read(&t)?;
    if t.shape() == row {
        return Ok(Some(values));
    }
    let shape: Vec<usize> = t.shape().iter().copied().skip_while(|&d| d == 1).collect();
    let fits = shape.len() <= row.len() && shape.iter().rev().zip(row.iter().rev()).all(|(&a, &b)| a == b || a == 1);
    if !fits {
        let (op, found) = (cx.node.full_op(), t.shape());
        return Err(Error::invalid(format!("{op}: input {i} of shape {found:?} does not broadcast to a row {row:?}")));
    }
    let (own, steps) = (broadcast_strides(&shape, row), strides(row));
    let at = |e: usize| (0..row.len()).map(|d| e / steps[d] % row[d] * own[d]).sum::<usize>();
    Ok(Some((0..count(row)?).map(|e| values[at(e)]).collect()))
}

impl LayerNorm {
    /// Inputs of scale and bias.
    fn operands(&self) -> (usize, usize) {
        if self.skip { (2, 3) } else { (1, 2) }
    }

    fn axis(&self, cx: &EvalCx, rank: usize) -> Result<usize> {
        axis(if self.skip { -1 } else { cx.attrs().int("axis", -1)? }, rank)
    }

    fn epsilon(&self, cx: &EvalCx) -> Result<f32> {
        cx.attrs().float("epsilon", if self.skip { 1e-12 } else { 1e-5 })
    }

    /// (C4) What is normalized.
    fn source<T: Real>(&self, cx: &EvalCx) -> Result<Vec<T>> {
        let x = cx.input(0)?;
        let mut data = T::read(x)?;
        if !self.skip {
            return Ok(data);
        }
        let skip = cx.input(1)?;
        // A skip without batch axis repeats.
        if skip.elements() == 0 || data.len() % skip.elements() != 0 {
            return Err(Error::invalid(format!("{}: skip {:?} on {:?}", cx.node.full_op(), skip.shape(), x.shape())));
        }
        let skip = T::read(skip)?;
        data.iter_mut().zip(skip.iter().cycle()).for_each(|(v, s)| *v += *s);
        let bias_input = if self.centred { 4 } else { 3 };
        let last = x.shape().last().copied().unwrap_or(1);
        if let Some(bias) = per_element::<T>(cx, bias_input, &[last])? {
            data.iter_mut().zip(bias.iter().cycle()).for_each(|(v, b)| *v += *b);
        }
        Ok(data)
    }

    fn run<T: Real>(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let at = self.axis(cx, x.shape().len())?;
        let row = &x.shape()[at..];
        let n = count(row)?;
        let (scale, bias) = self.operands();
        let gamma = per_element::<T>(cx, scale, row)?;
        let beta = if self.centred { per_element::<T>(cx, bias, row)? } else { None };
        let eps = T::of(self.epsilon(cx)?.into());
        let data = self.source::<T>(cx)?;
        let mut y = vec![T::default(); data.len()];
        let (mut means, mut invs) = (Vec::new(), Vec::new());
        for (xs, out) in data.chunks_exact(n.max(1)).zip(y.chunks_exact_mut(n.max(1))) {
            let mean = if self.centred { T::mean(xs) } else { T::default() };
            let inv = T::ONE / (T::variance(xs, mean) + eps).sqrt();
            T::normalize_row(xs, self.centred, (gamma.as_deref(), beta.as_deref()), eps, out);
            means.push(mean);
            invs.push(inv);
        }
        let mut stat_shape = x.shape().to_vec();
        stat_shape[at..].fill(1);
        let stat = |v: &[T]| T::write(stat_dtype(x.dtype()), &stat_shape, v);
        let mut outputs = vec![T::write(x.dtype(), x.shape(), &y)?];
        if self.spec.outputs.1 > 1 {
            let invs = if n == 0 { vec![T::default(); count(&stat_shape)?] } else { invs };
            let means = if n == 0 { invs.clone() } else { means };
            outputs.extend(self.centred.then(|| stat(&means)).transpose()?);
            outputs.push(stat(&invs)?);
        }
        if self.skip {
            outputs.resize(3, outputs[0].clone());
            outputs.push(T::write(x.dtype(), x.shape(), &data)?);
        }
        Ok(outputs)
    }
}

/// Statistics are kept in f32, or f64 for f64.
fn stat_dtype(x: DataType) -> DataType {
    if x == DataType::F64 { x } else { DataType::F32 }
}

impl Op for LayerNorm {
    fn spec(&self) -> &'static OpSpec {
        match (self.skip, self.centred, self.spec.since) {
            (true, true, _) => &SKIP.spec,
            (true, false, _) => &SKIP_RMS.spec,
            (false, true, _) => &LAYER.spec,
            (false, false, 1) => &SIMPLIFIED.spec,
            (false, false, _) => &RMS.spec,
        }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (x, dtype) = (cx.shape(0)?, cx.dtype(0)?);
        let at = axis(if self.skip { -1 } else { cx.attrs().int("axis", -1)? }, x.len())?;
        let mut stat = x.to_vec();
        stat[at..].fill(Dim::Known(1));
        let y = cx.ty(dtype, x.to_vec());
        let stat = cx.ty(stat_dtype(dtype), stat);
        let types = if self.skip { vec![y.clone(), stat.clone(), stat, y] } else { vec![y, stat.clone(), stat] };
        Ok(types.into_iter().take(self.spec.outputs.1).collect())
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        with_real!(x.dtype(), self.spec.name, T => self.run::<T>(cx))
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        if self.skip { QuantRule::Float } else { QuantRule::Own }
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let x = cx.input(0)?;
        let per_tensor = |q: Option<&QuantParams>| q.and_then(QuantParams::as_per_tensor);
        let byte = |t: DataType| matches!(t, DataType::S8 | DataType::U8);
        let (Some((xs, zx)), Some((scale, zp)), Some(dtype)) =
            (per_tensor(cx.in_quant(0)), per_tensor(cx.out_quant(0)), cx.out_dtype(0))
        else {
            return Ok(None);
        };
        let wide = matches!(x.dtype(), DataType::S16 | DataType::U16);
        let Some((lo, hi)) = dtype.storage_range().filter(|_| (wide || byte(x.dtype())) && byte(dtype)) else {
            return Ok(None);
        };
        let at = self.axis(cx, x.shape().len())?;
        let row = &x.shape()[at..];
        let n = u32::try_from(count(row)?).map_err(|_| Error::invalid("a row of more than 2^32 elements"))?;
        let kind = if self.centred { NormKind::Layer } else { NormKind::Rms { zx } };
        let target = Target { scale, zp, lo, hi };
        let norm = match wide {
            false => LayerNormInt::new(kind, n, xs, self.epsilon(cx)?, target).map_err(model)?,
            // Longer rows keep the f32 sequence.
            true => match LayerNormInt::wide(kind, n, xs, self.epsilon(cx)?, target) {
                Ok(norm) => norm,
                Err(_) => return Ok(None),
            },
        };
        let (gamma_at, beta_at) = self.operands();
        let gamma = per_element::<f32>(cx, gamma_at, row)?.unwrap_or_else(|| vec![1.0; n as usize]);
        let gains: Vec<i32> = gamma.iter().map(|&g| layernorm_gain(g, scale).map_err(model)).collect::<Result<_>>()?;
        let beta = if self.centred { per_element::<f32>(cx, beta_at, row)? } else { None };
        let offsets: Option<Vec<i64>> = beta
            .map(|b| b.iter().map(|&v| layernorm_offset(v, scale).map_err(model)).collect::<Result<_>>())
            .transpose()?;
        let data: Vec<i32> = x.to_ints()?.into_iter().map(|v| v as i32).collect();
        let mut y = vec![0i32; data.len()];
        Rows::from_axis(x.shape(), at)
            .map(&data, &mut y, |xs, out| norm.row(xs, &gains, offsets.as_deref(), out).map_err(model))?;
        let y: Vec<i64> = y.into_iter().map(i64::from).collect();
        Ok(Some(vec![Tensor::from_ints(dtype, x.shape(), &y)?]))
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("norm", self.spec.name, self.spec.since);
        node.domain = self.spec.domain.into();
        node.attrs.set("epsilon", Attr::Float(0.0));
        let (x, gamma) = (f32s(&[1, 2], &[1.0, 7.0]), f32s(&[2], &[2.0, 1.0]));
        let y = if self.centred { [-2.0, 1.0] } else { [0.4, 1.4] };
        let y = f32s(&[1, 2], &y);
        if self.skip {
            let skip = f32s(&[1, 2], &[0.0, 0.0]);
            return vec![case("c4_sum_is_normalized", node, &[x, skip, gamma], &[y])];
        }
        let mut cases = vec![case_const("c2_two_passes", node.clone(), 1, &[x, gamma.clone()], &[y])];
        if self.centred {
            let quant = |t: &[i64], s, z| (ints(DataType::U8, &[1, 2], t), QuantParams::per_tensor(s, z));
            let ((x, qx), (y, qy)) = (quant(&[12, 18], 0.1, 10), quant(&[64, 160], 1.0 / 32.0, 128));
            cases.push(Case {
                name: "c3_integers",
                node,
                inputs: vec![Some(CaseInput::quantized(x, qx)), Some(CaseInput::plain(gamma).constant())],
                outputs: vec![(y, Some(qy))],
            });
        }
        cases
    }
}
